package pipeline

import "context"

// drain ends the session in order: what is processed is committed, what was only polled is left to the next start.
func (w *worker) drain(ctx context.Context) error {
	if !w.sess.InTransaction() {
		return nil
	}
	if err := w.sweep(ctx); err != nil || !w.sess.InTransaction() {
		return err
	}
	_, err := w.commit(ctx)
	return err
}
