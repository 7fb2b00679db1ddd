package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	c := &cli{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	os.Exit(int(c.execute(untilSignal(c), os.Args[1:])))
}

// untilSignal returns a context that the first SIGINT or SIGTERM cancels: work drains. The second one ends the process
// at once; what a transaction held open then is decided by the next start of the same instance.
func untilSignal(c *cli) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-signals
		came := time.Now()
		cancel(interruptedError{first})
		s := secondSignal(signals, came, time.Now)
		fmt.Fprintf(c.stderr, "error: %s again: aborted without draining\nhint: nothing is lost: the next start with the same state.dir decides what was open\n", s)
		os.Exit(int(exitInterrupted))
	}()
	return ctx
}

// repeatWithin is how soon after the first signal another one says the same: timeout(1) signals its child and then the
// whole process group, and a wrapper passes on the Ctrl-C that the terminal has sent to everybody.
const repeatWithin = 500 * time.Millisecond

// secondSignal waits for a signal that is no echo of the first one.
func secondSignal(signals <-chan os.Signal, first time.Time, now func() time.Time) os.Signal {
	for {
		if s := <-signals; now().Sub(first) >= repeatWithin {
			return s
		}
	}
}

// interruptedError is the cause of a context that a signal cancelled.
type interruptedError struct{ signal os.Signal }

func (e interruptedError) Error() string { return fmt.Sprintf("stopped by signal: %s", e.signal) }
