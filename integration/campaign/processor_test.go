package campaign

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

// Shorter than the defaults (10 s, 20 s), so that a fault that outlives them costs less.
const (
	app                = "ledger"
	sessionTimeout     = 6 * time.Second
	transactionTimeout = 8 * time.Second
)

// A command is the processor's binary and a folder for all that its processes write.
type command struct{ binary, dir string }

// buildCommand compiles cmd/processor as a user would; PROCESSOR names a binary to test instead.
func buildCommand(t *testing.T) command {
	t.Helper()
	dir, err := os.MkdirTemp("", "tallystick-campaign-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keepIfFailed(t, dir) })
	c := command{binary: filepath.Join(dir, "processor"), dir: dir}
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

func args(seeds []string, sub ...string) []string {
	return append(sub, "--bootstrap-servers", strings.Join(seeds, ","), "--application-id", app)
}

// allowed lets the input take records of two hours ahead, which one of the faults sends.
const allowed = input + ":message.timestamp.after.max.ms"

// run runs a short command to its end and returns what it printed.
func (c command) run(t *testing.T, seeds []string, limit time.Duration, sub ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, c.binary, args(seeds, sub...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("processor %s: %w\n%s", strings.Join(sub, " "), err, out)
	}
	return string(out), err
}

func (c command) mustRun(t *testing.T, seeds []string, limit time.Duration, sub ...string) string {
	t.Helper()
	out, err := c.run(t, seeds, limit, sub...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// An instance is one processor under a fixed name, through all its incarnations.
type instance struct {
	name string
	argv []string
	log  string
	dir  string             // its state folder
	door *kafkatest.Proxy   // through which it reaches the brokers
	proc *kafkatest.Process // nil while it is meant to be down
	from time.Time          // when proc began
}

// youth is how long a process may take to catch signals: SIGTERM before that simply ends it.
const youth = 2 * time.Second

// newInstance prepares an instance; start runs it. The first leaves its place in the group to its next incarnation, the others
// give theirs away when they are told to end.
func (c command) newInstance(t *testing.T, name string, seeds []string) *instance {
	t.Helper()
	i := &instance{name: name, log: filepath.Join(c.dir, name+".log"), dir: filepath.Join(c.dir, name)}
	i.argv = append([]string{c.binary}, args(seeds, "run", "--group-instance-id", name, "--state-dir", i.dir, "--num-stream-threads", "2", "--admin-listen", "off", "--topics-allow", allowed,
		"--session-timeout-ms", millis(sessionTimeout), "--heartbeat-interval-ms", millis(sessionTimeout/4),
		"--max-poll-interval-ms", millis(sessionTimeout), "--transaction-timeout-ms", millis(transactionTimeout))...)
	if name != "p1" {
		i.argv = append(i.argv, "--leave")
	}
	t.Cleanup(func() {
		if i.proc != nil {
			i.proc.Kill()
		}
	})
	return i
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

func (i *instance) start(t *testing.T) {
	t.Helper()
	p, err := i.launch()
	if err != nil {
		t.Fatal(err)
	}
	i.proc, i.from = p, time.Now()
}

// launch starts one more process of the instance.
func (i *instance) launch() (*kafkatest.Process, error) {
	out, err := os.OpenFile(i.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own
	cmd := exec.Command(i.argv[0], i.argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	return kafkatest.Launch(cmd)
}

// kill sends SIGKILL; the instance counts as down until start.
func (i *instance) kill() {
	i.proc.Kill()
	i.proc = nil
}

// up reports whether the instance is meant to run.
func (i *instance) up() bool { return i.proc != nil }

// running fails the test when the process has ended by itself.
func (i *instance) running(t *testing.T) {
	t.Helper()
	if i.ended() {
		t.Fatalf("%s ended by itself with exit code %d; its log ends:\n%s", i.name, i.proc.ExitCode(), i.tail())
	}
}

func (i *instance) ended() bool {
	if !i.up() {
		return false
	}
	select {
	case <-i.proc.Done():
		return true
	default:
		return false
	}
}

// drain ends the process as an operator does, and wants exit code 0.
func (i *instance) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	young := time.Since(i.from) < youth
	if err := i.proc.Terminate(ctx); err != nil {
		t.Fatalf("%s: %v", i.name, err)
	}
	if code := i.proc.ExitCode(); code != 0 && !(code == -1 && young) {
		t.Fatalf("%s: exit code %d after SIGTERM; its log ends:\n%s", i.name, code, i.tail())
	}
	i.proc = nil
}

// logged is all that its processes have said.
func (i *instance) logged(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(i.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (i *instance) tail() string {
	b, err := os.ReadFile(i.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-3000):])
}
