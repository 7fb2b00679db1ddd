package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/internal/mutant"
)

// ErrNotDrained says that the last transaction of a worker did not commit before the shutdown. Nothing is lost: the next start
// of the instance decides it, and processes its input again if it did not commit.
var ErrNotDrained = errors.New("the last transaction did not commit before the shutdown; the next start decides it")

// undrained marks an error that came during a shutdown. Without a transaction there was nothing to lose.
func (w *worker) undrained(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case !w.undecided:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotDrained, err)
}

// drain ends the session in order: what is processed is committed, what was only polled is left to the next start.
func (w *worker) drain(ctx context.Context) error {
	if err := w.sweep(ctx); err != nil {
		return w.undrained(ctx, err)
	}
	if !w.sess.InTransaction() || mutant.On("shutdown-says-nothing") {
		return nil
	}
	committed, err := w.commit(ctx)
	switch {
	case err != nil:
		return w.undrained(ctx, err)
	case !committed:
		return fmt.Errorf("%w: it was aborted", ErrNotDrained)
	}
	return nil
}
