package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const (
	app            = "ledger"
	sessionTimeout = 10 * time.Second // the processor's default, given by name so that the bound below follows it
)

// A command is the processor's binary, the brokers it is to use, and a folder for all it writes.
type command struct {
	binary, dir string
	seeds       []string
}

// buildCommand compiles cmd/processor as a user would; PROCESSOR names a binary to test instead.
func buildCommand(t *testing.T, seeds []string) command {
	t.Helper()
	dir, err := os.MkdirTemp("", "tallystick-faults-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keepIfFailed(t, dir) })
	c := command{binary: filepath.Join(dir, "processor"), dir: dir, seeds: seeds}
	if b := os.Getenv("PROCESSOR"); b != "" {
		c.binary = b
		return c
	}
	build := exec.Command("go", "build", "-o", c.binary, "./cmd/processor")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the processor: %v\n%s", err, out)
	}
	return c
}

func keepIfFailed(t *testing.T, dir string) {
	if t.Failed() {
		t.Logf("the processors' logs are kept in %s", dir)
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

func (c command) args(sub ...string) []string {
	return append(sub, "--bootstrap-servers", strings.Join(c.seeds, ","), "--application-id", app)
}

// mustRun runs a short command to its end and returns what it printed.
func (c command) mustRun(t *testing.T, limit time.Duration, sub ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, c.binary, c.args(sub...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("processor %s: %v\n%s", strings.Join(sub, " "), err, out)
	}
	return string(out)
}

// An instance is one processor under a fixed name, through all its incarnations.
type instance struct {
	name string
	run  func() (*kafkatest.Process, error)
	proc *kafkatest.Process
	log  string
}

// newInstance prepares an instance with a state folder of its own; start runs it.
func (c command) newInstance(t *testing.T, name string) *instance {
	t.Helper()
	i := &instance{name: name, log: filepath.Join(c.dir, name+".log")}
	args := append(c.args("run"), "--group-instance-id", name, "--leave", "--state-dir", filepath.Join(c.dir, name),
		"--num-stream-threads", "2", "--admin-listen", "off", "--session-timeout-ms", fmt.Sprint(sessionTimeout.Milliseconds()))
	i.run = func() (*kafkatest.Process, error) {
		out, err := os.OpenFile(i.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		defer out.Close() // the child has its own
		cmd := exec.Command(c.binary, args...)
		cmd.Stdout, cmd.Stderr = out, out
		return kafkatest.Launch(cmd)
	}
	t.Cleanup(func() {
		if i.proc != nil {
			i.proc.Kill()
		}
	})
	return i
}

func (i *instance) start(t *testing.T) {
	t.Helper()
	p, err := i.run()
	if err != nil {
		t.Fatal(err)
	}
	i.proc = p
}

// running fails the test when the process has ended by itself.
func (i *instance) running(t *testing.T) {
	t.Helper()
	select {
	case <-i.proc.Done():
		t.Fatalf("%s ended by itself with exit code %d; its log ends:\n%s", i.name, i.proc.ExitCode(), i.tail())
	default:
	}
}

// drain ends the process as an operator does, and wants exit code 0.
func (i *instance) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := i.proc.Terminate(ctx); err != nil {
		t.Fatalf("%s: %v", i.name, err)
	}
	if code := i.proc.ExitCode(); code != 0 {
		t.Fatalf("%s: exit code %d after SIGTERM; its log ends:\n%s", i.name, code, i.tail())
	}
}

func (i *instance) tail() string {
	b, err := os.ReadFile(i.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-3000):])
}
