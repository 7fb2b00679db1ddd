package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// childProcess is the parent's side: one run of the demo's processor. Not safe for concurrent use.
type childProcess struct {
	cmd      *exec.Cmd
	term     sync.Once // asks it to drain: a second signal would abort
	orders   io.WriteCloser
	reports  *bufio.Scanner
	log      string // path of its stderr
	started  time.Time
	admin    string        // address of its admin port
	restored int64         // state records read so far
	back     time.Duration // from its start to its first commit
}

// startChild starts executable as the demo's processor with the environment given. Its log goes to a file in dir. The end of
// ctx asks it to drain.
func startChild(ctx context.Context, executable, dir string, environ []string) (*childProcess, error) {
	log, err := os.CreateTemp(dir, "processor-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	p := &childProcess{cmd: exec.Command(executable, childCommand), log: log.Name(), started: time.Now()}
	p.cmd.Env, p.cmd.Stderr = environ, log
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.reports = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the processor: %w", err)
	}
	context.AfterFunc(ctx, p.terminate)
	return p, nil
}

func (p *childProcess) pid() int { return p.cmd.Process.Pid }

// await reads reports up to the event and returns it.
func (p *childProcess) await(event string) (childReport, error) {
	for p.reports.Scan() {
		var r childReport
		if err := json.Unmarshal(p.reports.Bytes(), &r); err != nil {
			return r, fmt.Errorf("report of the processor: %w", err)
		}
		switch r.Event {
		case reportListening:
			p.admin = r.Admin
		case reportRestored:
			p.restored += r.Records
		}
		if r.Event == reportCommitted {
			p.back = time.Since(p.started)
		}
		if r.Event == event {
			return r, nil
		}
	}
	return childReport{}, p.ended()
}

// ended says why the process is gone: its own last words are in the log.
func (p *childProcess) ended() error {
	err := p.cmd.Wait()
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("the processor ended before its time (%w):\n%s", err, lastLines(p.log, 5))
}

// hold makes the process stop between produce and commit of its next transaction.
func (p *childProcess) hold() error {
	if _, err := io.WriteString(p.orders, orderHold+"\n"); err != nil {
		return err
	}
	_, err := p.await(reportHolding)
	return err
}

// kill is SIGKILL: the process gets no chance to do anything.
func (p *childProcess) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = p.cmd.Wait() // "signal: killed" is what was asked for
	return nil
}

// terminate asks the process to drain, once. Where there is no SIGTERM it is killed, which loses nothing.
func (p *childProcess) terminate() {
	p.term.Do(func() {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			_ = p.cmd.Process.Kill() // it may have ended already
		}
	})
}

// stop asks the process to drain and waits until it has.
func (p *childProcess) stop() error {
	p.terminate()
	for p.reports.Scan() { // Wait must not close the pipe under a process that still writes
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the processor did not drain (%w):\n%s", err, lastLines(p.log, 5))
	}
	return nil
}

func lastLines(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n") + "\n(" + filepath.Base(path) + ")"
}
