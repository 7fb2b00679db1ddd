package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
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
		cancel(interruptedError{<-signals})
		s := <-signals
		fmt.Fprintf(c.stderr, "error: %s again: aborted without draining\nhint: nothing is lost: the next start with the same state.dir decides what was open\n", s)
		os.Exit(int(exitInterrupted))
	}()
	return ctx
}

// interruptedError is the cause of a context that a signal cancelled.
type interruptedError struct{ signal os.Signal }

func (e interruptedError) Error() string { return fmt.Sprintf("stopped by signal: %s", e.signal) }
