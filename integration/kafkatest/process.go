package kafkatest

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// A Process is a child process that a test may kill, stop and continue. Signals go to its pid and to
// nothing else. Methods may be called from any goroutine.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Launch starts cmd, whose paths, environment and output files the caller has set. On Linux the
// kernel kills the child when the test binary dies.
func Launch(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run stays on one thread until the child is gone: the kernel sends the death signal when the
// thread that started the child ends, not when the process does.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // the exit code is in ProcessState
	}
	close(p.done)
}

// Pid is the child's process id; it stays the same after the child's end.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed once the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the child's exit code, -1 when a signal ended it. It waits for the end.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Kill sends SIGKILL and waits for the end. A stopped or ended child is no obstacle.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// Pause sends SIGSTOP: the child keeps its connections and answers nothing.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume sends SIGCONT.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

// Terminate sends SIGTERM and waits for the end, at most as long as ctx allows.
func (p *Process) Terminate(ctx context.Context) error {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pid %d has not ended after SIGTERM: %w", p.Pid(), ctx.Err())
	}
}

func (p *Process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // fails only when the child has ended, which is what callers then see
}
