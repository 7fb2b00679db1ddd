package jobtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const (
	// App is the application id of every job here.
	App = "ledger"
	// SessionTimeout is the processor's default, given by name so that bounds follow it.
	SessionTimeout = 10 * time.Second
)

// A Command is the processor's binary, the brokers it is to use, and a folder for all it writes.
type Command struct {
	binary, dir string
	seeds       []string
}

// Build compiles cmd/processor as a user would; PROCESSOR names a binary to test instead. The folder goes with the test, unless it failed.
func Build(t testing.TB, seeds []string) Command {
	t.Helper()
	dir, err := os.MkdirTemp("", "tallystick-job-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keepIfFailed(t, dir) })
	c := Command{binary: filepath.Join(dir, "processor"), dir: dir, seeds: seeds}
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

func keepIfFailed(t testing.TB, dir string) {
	if t.Failed() {
		t.Logf("the processors' logs are kept in %s", dir)
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// For is the command with other brokers to ask first.
func (c Command) For(seeds []string) Command {
	c.seeds = seeds
	return c
}

func (c Command) args(sub ...string) []string {
	return append(sub, "--bootstrap-servers", strings.Join(c.seeds, ","), "--application-id", App)
}

// Run runs a short command to its end and returns what it printed.
func (c Command) Run(ctx context.Context, limit time.Duration, sub ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, c.binary, c.args(sub...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("processor %s: %w\n%s", strings.Join(sub, " "), err, out)
	}
	return string(out), err
}

// MustRun fails the test unless the command succeeds.
func (c Command) MustRun(t testing.TB, limit time.Duration, sub ...string) string {
	t.Helper()
	out, err := c.Run(t.Context(), limit, sub...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Launch runs a command in the background until the test ends. What it prints goes to one file, what it says besides to another.
func (c Command) Launch(t testing.TB, name string, sub ...string) (p *kafkatest.Process, out, errs string) {
	t.Helper()
	out, errs = filepath.Join(c.dir, name+".out"), filepath.Join(c.dir, name+".log")
	stdout, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close() // the child has its own
	stderr, err := os.Create(errs)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	cmd := exec.Command(c.binary, c.args(sub...)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if p, err = kafkatest.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, out, errs
}

// An Instance is one processor under a fixed name, through all its incarnations.
type Instance struct {
	// Name is its group.instance.id.
	Name string
	// Proc is its latest incarnation, nil before the first.
	Proc *kafkatest.Process
	// Dir is its state folder, Log the file that all incarnations write to.
	Dir, Log string

	argv []string
}

// NewInstance prepares an instance with a state folder of its own; Start runs it. Flags come after those that every instance
// has, so that a flag given again counts.
func (c Command) NewInstance(t testing.TB, name string, flags ...string) *Instance {
	t.Helper()
	i := &Instance{Name: name, Dir: filepath.Join(c.dir, name), Log: filepath.Join(c.dir, name+".log")}
	args := append(c.args("run"), "--group-instance-id", name, "--leave", "--state-dir", i.Dir,
		"--num-stream-threads", "2", "--admin-listen", "off", "--session-timeout-ms", fmt.Sprint(SessionTimeout.Milliseconds()))
	i.argv = slices.Concat([]string{c.binary}, args, flags)
	t.Cleanup(func() {
		if i.Proc != nil {
			i.Proc.Kill()
		}
	})
	return i
}

// Launch starts one more process of the instance, beside Proc if that runs.
func (i *Instance) Launch() (*kafkatest.Process, error) {
	out, err := os.OpenFile(i.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own
	cmd := exec.Command(i.argv[0], i.argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	return kafkatest.Launch(cmd)
}

// Start runs another incarnation.
func (i *Instance) Start(t testing.TB) {
	t.Helper()
	p, err := i.Launch()
	if err != nil {
		t.Fatal(err)
	}
	i.Proc = p
}

// Running fails the test when the process has ended by itself.
func (i *Instance) Running(t testing.TB) {
	t.Helper()
	select {
	case <-i.Proc.Done():
		t.Fatalf("%s ended by itself with exit code %d; its log ends:\n%s", i.Name, i.Proc.ExitCode(), i.Tail())
	default:
	}
}

// Drain ends the process as an operator does, and wants exit code 0.
func (i *Instance) Drain(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := i.Proc.Terminate(ctx); err != nil {
		t.Fatalf("%s: %v", i.Name, err)
	}
	if code := i.Proc.ExitCode(); code != 0 {
		t.Fatalf("%s: exit code %d after SIGTERM; its log ends:\n%s", i.Name, code, i.Tail())
	}
}

// Logged is all that its processes have said.
func (i *Instance) Logged(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(i.Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Tail is the end of what its processes have said.
func (i *Instance) Tail() string {
	b, err := os.ReadFile(i.Log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-3000):])
}
