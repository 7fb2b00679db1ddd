package containers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const commandLimit = time.Minute

// A command is the processor's binary and the brokers it is to use.
type command struct {
	binary string
	seeds  []string
}

// buildCommand compiles cmd/processor as a user would.
func buildCommand(t *testing.T, seeds []string) command {
	t.Helper()
	c := command{filepath.Join(t.TempDir(), "processor"), seeds}
	build := exec.Command("go", "build", "-o", c.binary, "./cmd/processor")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the processor: %v\n%s", err, out)
	}
	return c
}

func (c command) args(sub ...string) []string {
	return append(sub, "--bootstrap-servers", strings.Join(c.seeds, ","))
}

// run runs a command to its end, which must be with this exit code, and returns what it printed on stdout.
func (c command) run(t *testing.T, code int, sub ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, c.args(sub...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("processor %s: %v, want exit code %d\n%s%s", strings.Join(sub, " "), err, code, out, said.String())
	}
	return string(out)
}

// A job is a processor that runs.
type job struct {
	proc *kafkatest.Process
	log  string
}

func (c command) start(t *testing.T) job {
	t.Helper()
	dir := t.TempDir()
	j := job{log: filepath.Join(dir, "processor.log")}
	out, err := os.Create(j.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() // the child has its own
	cmd := exec.Command(c.binary, c.args("run", "--state-dir", filepath.Join(dir, "state"), "--admin-listen", "off")...)
	cmd.Stdout, cmd.Stderr = out, out
	if j.proc, err = kafkatest.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.proc.Kill)
	return j
}

// running fails the test when the processor has ended by itself.
func (j job) running(t *testing.T) {
	t.Helper()
	select {
	case <-j.proc.Done():
		t.Fatalf("the processor ended by itself with exit code %d:\n%s", j.proc.ExitCode(), j.said())
	default:
	}
}

// drain ends the processor as a supervisor does, and wants exit code 0.
func (j job) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	if err := j.proc.Terminate(ctx); err != nil || j.proc.ExitCode() != 0 {
		t.Fatalf("after SIGTERM: %v, exit code %d:\n%s", err, j.proc.ExitCode(), j.said())
	}
}

func (j job) said() string {
	b, err := os.ReadFile(j.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
