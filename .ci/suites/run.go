package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// result is what became of a suite.
type result struct {
	suite    suite
	tally    tally
	took     time.Duration
	problems []string
}

// run executes the steps of a suite, each to its end, and judges what they ran.
func run(s suite, out string, w io.Writer) result {
	r := result{suite: s}
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	log, err := os.Create(filepath.Join(out, s.name+".log"))
	if err != nil {
		r.problems = append(r.problems, err.Error())
		return r
	}
	for _, st := range s.steps {
		if err := r.step(ctx, st, log, w); err != nil {
			r.problems = append(r.problems, fmt.Sprintf("%s: %v", st, err))
		}
	}
	if err := log.Close(); err != nil {
		r.problems = append(r.problems, err.Error())
	}
	r.took = time.Since(start)
	r.judge()
	return r
}

// step runs one command in a process group of its own and ends the whole group when time is up.
func (r *result) step(ctx context.Context, st step, log, w io.Writer) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not started: the suite's %s are over", r.suite.limit)
	}
	cmd := exec.CommandContext(ctx, st.argv[0], st.argv[1:]...)
	cmd.Dir, cmd.Env = st.dir, append(os.Environ(), st.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	read := make(chan error, 1)
	screen := &screen{all: r.suite.show, held: map[string]string{}}
	go func() { read <- r.tally.read(io.TeeReader(reader, log), screen, w) }()
	err := cmd.Run()
	_ = writer.Close()
	if readErr := <-read; err == nil {
		err = readErr
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("killed: the suite's %s are over", r.suite.limit)
	case err == nil && !st.events:
		r.tally.passed = append(r.tally.passed, st.String())
	case err != nil && !st.events:
		r.tally.failed = append(r.tally.failed, st.String())
	}
	return err
}

// String is the command as one would type it.
func (st step) String() string {
	words := append(make([]string, 0, len(st.env)+len(st.argv)+1), st.env...)
	if st.dir != "" {
		words = append([]string{"cd", st.dir, "&&"}, words...)
	}
	for _, a := range st.argv {
		if strings.ContainsAny(a, " $'\"") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// judge adds what the exit codes do not say.
func (r *result) judge() {
	if len(r.tally.passed)+len(r.tally.failed) == 0 {
		r.problems = append(r.problems, "ran no test")
	}
	for _, want := range r.suite.must {
		if !r.tally.ran(want) {
			r.problems = append(r.problems, "ran no test of "+want)
		}
	}
}

// judgeSkips needs all results: a skip is allowed when the suite that covers it ran what it should.
func judgeSkips(results []result) {
	passed := map[string]bool{}
	for _, r := range results {
		passed[r.suite.name] = len(r.problems) == 0
	}
	for i := range results {
		r := &results[i]
		for _, skipped := range r.tally.skipped {
			if c, ok := r.suite.covers(skipped); !ok {
				r.problems = append(r.problems, "skipped "+skipped+": what it needs is missing here")
			} else if ran, here := passed[c.by]; here && !ran {
				r.problems = append(r.problems, fmt.Sprintf("skipped %s, and %s, which covers it, failed", skipped, c.by))
			}
		}
	}
}

func (s suite) covers(test string) (covered, bool) {
	for _, c := range s.skips {
		if c.test == test {
			return c, true
		}
	}
	return covered{}, false
}
