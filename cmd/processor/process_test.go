package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/topics"
)

// built is where the binary of this package lies, once a test has asked for it.
var built struct {
	once sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.path != "" {
		_ = os.RemoveAll(filepath.Dir(built.path))
	}
	os.Exit(code)
}

// binary builds the command, once for all tests: what is killed must be a process of its own.
func binary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "processor-test-")
		if err != nil {
			built.err = err
			return
		}
		built.path = filepath.Join(dir, "processor")
		if out, err := exec.Command("go", "build", "-o", built.path, ".").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// process is a running command under test.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr lockedBuffer
}

// lockedBuffer can be read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// spawn starts the built command. It is killed at the end of the test if it still runs.
func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary(t), args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.Env = []string{"HOME=" + t.TempDir()}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

// wait returns the exit code.
func (p *process) wait(t *testing.T, patience time.Duration) exitCode {
	t.Helper()
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait()
	return exitCode(p.cmd.ProcessState.ExitCode())
}

// eventually polls until ok, for a time that only a broken system exceeds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: %s", what)
		}
	}
}

// startJob starts an embedded broker with the ledger's topics and returns a configuration that points to it.
func startJob(t *testing.T) (*devbroker.Broker, Config) {
	t.Helper()
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	s, err := loadConfig(t, "", nil, []string{"--bootstrap-servers", broker.String(), "--state-dir", t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	client, err := s.newClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := topics.NewAdmin(client).Apply(ctx, s.job().Topics(), s.topicRules()); err != nil {
		t.Fatal(err)
	}
	return broker, s.Config
}

var adminAddr = regexp.MustCompile(`addr=(127\.0\.0\.1:\d+)`)

// adminURL reads the admin port out of the log of a run.
func (p *process) adminURL(t *testing.T) string {
	t.Helper()
	var m []string
	eventually(t, "the log names the admin port", func() bool {
		m = adminAddr.FindStringSubmatch(p.stderr.String())
		return m != nil
	})
	return "http://" + m[1]
}

func countLines(s string) int { return strings.Count(strings.TrimSpace(s), "\n") + 1 }
