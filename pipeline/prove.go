package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

// ViolationError says that an invariant did not hold. Nothing is processed on such ground.
type ViolationError struct {
	Invariant string // I1 … I5
	Task      TaskID
	Err       error // what was found, and the way out
}

func (e *ViolationError) Error() string {
	return fmt.Sprintf("%s: task %s: %v", e.Invariant, e.Task, e.Err)
}

// Unwrap returns what was found.
func (e *ViolationError) Unwrap() error { return e.Err }

func (w *worker) violated(id TaskID, err error) {
	var v *ViolationError
	if f := w.p.cfg.Events.Violated; f != nil && errors.As(err, &v) {
		f(v.Invariant, id, err)
	}
}

// prove checks a restored base against the group's offset and the input (I1 to I4) and sets the task's start.
//
//	I1  appliedNext == the group's committed offset
//	I2  the marker's txnSeq and digest == those in the offset's metadata
//	I3  the digest of the contents == the marker's
//	I4  the input's log start <= appliedNext: nothing unread was deleted
func (w *worker) prove(ctx context.Context, o *ownedTask, base state.Base, committed session.CommittedOffset) error {
	m, marked := base.Marker()
	violation := func(invariant, format string, args ...any) error {
		return &ViolationError{invariant, o.id, fmt.Errorf(format, args...)}
	}
	switch {
	case !marked && committed.Next < 0:
		return w.startFresh(ctx, o)
	case !marked:
		return violation("I1", "the group has committed offset %d, the state topic %s has no marker: its records are gone, or the stage gained state: use a new application.id", committed.Next, o.stage.StateTopic())
	}
	next, ok := m.NextOf(o.input.Topic)
	if !ok {
		return violation("I1", "the marker knows no input %q: the stage's input was renamed: revert, or use a new application.id", o.input.Topic)
	}
	if m.Partitions != w.p.partitions[o.id.Stage] {
		return violation("I1", "the state was written for %d partitions, topic %s has %d: keys have moved: go back to %d partitions, or use a new application.id", m.Partitions, o.input.Topic, w.p.partitions[o.id.Stage], m.Partitions)
	}
	if err := state.CheckFingerprint(m.Fingerprint, o.stage.Fingerprint(m.Partitions), base.Orphans(), w.unread(ctx, o, m)); err != nil {
		return fmt.Errorf("task %s: %w", o.id, err)
	}
	if committed.Next < 0 { // offsets expired or were deleted: the marker is as good a witness; the beginning would be wrong
		w.p.cfg.Logger.Warn("the group's offset is gone: resuming from the applied marker", "app", w.p.pipe.app, "task", o.id.String(), "offset", next)
		o.fresh = true
	} else if err := checkOffset(m, next, committed); err != nil {
		return violation(err.invariant, "%s", err.text)
	}
	if base.Digest() != m.Digest {
		return violation("I3", "the contents have digest %016x, the marker of transaction %d says %016x: the state topic lost or resurrected keys; check its cleanup.policy and replication; to go on, use a new application.id", base.Digest(), m.TxnSeq, m.Digest)
	}
	o.start = next
	return w.checkInput(ctx, o)
}

// unread counts what the task never applied of an input that the stage no longer has.
func (w *worker) unread(ctx context.Context, o *ownedTask, m state.Marker) func(input string) (int64, error) {
	return func(input string) (int64, error) {
		end, err := session.EndOffset(ctx, w.p.admin, session.TopicPartition{Topic: input, Partition: o.id.Partition})
		next, _ := m.NextOf(input)
		return end - next, err
	}
}

type offsetMismatch struct{ invariant, text string }

func checkOffset(m state.Marker, next int64, committed session.CommittedOffset) *offsetMismatch {
	meta, err := state.ParseMetadata(committed.Metadata)
	switch {
	case next < committed.Next:
		return &offsetMismatch{"I1", fmt.Sprintf("state is applied up to offset %d, the group has committed %d: if the offset was moved by hand, stop the processors and delete the group's offset of this topic: the marker then counts; if the state topic lost records, use a new application.id", next, committed.Next)}
	case next > committed.Next:
		return &offsetMismatch{"I1", fmt.Sprintf("state is applied up to offset %d, the group says %d: the offset is stale or was moved by hand: stop the processors and delete the group's offset of this topic: the marker then counts", next, committed.Next)}
	case err != nil:
		return &offsetMismatch{"I2", fmt.Sprintf("the committed offset %d carries no proof of ours (%v): it was set by another tool: stop the processors and delete the group's offset of this topic: the marker then counts", committed.Next, err)}
	case meta.TxnSeq != m.TxnSeq:
		return &offsetMismatch{"I2", fmt.Sprintf("the marker is of transaction %d, the committed offset of %d: they were not written together; use a new application.id", m.TxnSeq, meta.TxnSeq)}
	case meta.Digest != m.Digest:
		return &offsetMismatch{"I2", fmt.Sprintf("the marker of transaction %d has digest %016x, the committed offset says %016x: they were not written together; use a new application.id", m.TxnSeq, m.Digest, meta.Digest)}
	}
	return nil
}

// startFresh decides where a task starts that nobody has processed before.
func (w *worker) startFresh(ctx context.Context, o *ownedTask) (err error) {
	o.fresh = true
	switch w.p.cfg.OffsetReset {
	case Latest:
		o.start, err = session.StableOffset(ctx, w.p.admin, o.input)
	case None:
		err = fmt.Errorf("task %s has no committed offset and auto.offset.reset=none: set it to earliest or latest for the first start", o.id)
	default:
		o.start, err = session.StartOffset(ctx, w.p.admin, o.input)
	}
	return err
}

// checkInput is I4.
func (w *worker) checkInput(ctx context.Context, o *ownedTask) error {
	start, err := session.StartOffset(ctx, w.p.admin, o.input)
	if err != nil {
		return err
	}
	if start > o.start {
		return &ViolationError{"I4", o.id, fmt.Errorf("retention deleted %d records of %s/%d that were never processed (offsets %d to %d): they are lost; to go on without them, use a new application.id", start-o.start, o.input.Topic, o.input.Partition, o.start, start-1)}
	}
	return nil
}
