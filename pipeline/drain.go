package pipeline

import (
	"context"
	"errors"
	"fmt"
)

// ErrNotDrained says that the last transaction of a worker did not commit before the shutdown. Nothing is lost: the next start
// of the instance decides it, and processes its input again if it did not commit.
var ErrNotDrained = errors.New("the last transaction did not commit before the shutdown; the next start decides it")

// undrained marks an error that came during a shutdown.
func undrained(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotDrained, err)
}

// drain ends the session in order: what is processed is committed, what was only polled is left to the next start.
func (w *worker) drain(ctx context.Context) error {
	if err := w.sweep(ctx); err != nil {
		return undrained(ctx, err)
	}
	if !w.sess.InTransaction() {
		return nil
	}
	committed, err := w.commit(ctx)
	if err == nil && !committed {
		err = errors.New("it was aborted")
	}
	if err != nil {
		return undrained(ctx, err)
	}
	return nil
}
