package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tallystick/tallystick/internal/mutant"
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

// prove checks a restored base against the group's offsets and the inputs (I1 to I4) and sets where each input starts.
//
//	I1  appliedNext == the group's committed offset, of every input
//	I2  the marker's txnSeq and digest == those in the metadata of every input's offset
//	I3  the digest of the contents == the marker's
//	I4  every input's log start <= appliedNext: nothing unread was deleted
func (w *worker) prove(ctx context.Context, o *ownedTask, base state.Base, committed map[session.TopicPartition]session.CommittedOffset) error {
	m, marked := base.Marker()
	if mutant.On("last-stable-offset-believed") && o.believe(committed) {
		return nil
	}
	if marked {
		if err := w.proveStage(ctx, o, base, m); err != nil {
			return err
		}
	}
	o.fresh = false
	for i := range o.inputs {
		in := &o.inputs[i]
		if err := w.proveInput(ctx, o, in, m, committed[in.TopicPartition]); err != nil {
			return err
		}
	}
	if marked && base.Digest() != m.Digest && !mutant.On("i3-digest") {
		return o.violation("I3", "the contents have digest %016x, the marker of transaction %d says %016x: the state topic lost or resurrected keys; check its cleanup.policy and replication; %s", base.Digest(), m.TxnSeq, m.Digest, startOver)
	}
	return w.checkInputs(ctx, o)
}

// believe is the sabotage of the mutant last-stable-offset-believed: where the group has offsets, they are right, so whatever was
// restored is taken to belong to them.
func (o *ownedTask) believe(committed map[session.TopicPartition]session.CommittedOffset) bool {
	for i := range o.inputs {
		if o.inputs[i].start = committed[o.inputs[i].TopicPartition].Next; o.inputs[i].start < 0 {
			return false
		}
	}
	o.fresh = false
	return true
}

func (o *ownedTask) violation(invariant, format string, args ...any) error {
	return &ViolationError{invariant, o.id, fmt.Errorf(format, args...)}
}

// proveStage checks that the marker was written by this stage, or by one that it may take over from.
func (w *worker) proveStage(ctx context.Context, o *ownedTask, base state.Base, m state.Marker) error {
	if n := w.p.partitions[o.id.Stage]; m.Partitions != n && !mutant.On("partitions-not-pinned") {
		return o.violation("I1", "the state was written for %d partitions, topic %s has %d: keys have moved: revert to %d partitions (make the topics again); or %s", m.Partitions, o.inputs[0].Topic, n, m.Partitions, startOver)
	}
	if err := state.CheckFingerprint(m.Fingerprint, o.stage.Fingerprint(m.Partitions), base.Orphans(), w.unread(ctx, o, m)); err != nil && !mutant.On("fingerprint-not-checked") {
		return fmt.Errorf("task %s: %w", o.id, err)
	}
	return nil
}

// proveInput checks one input's offset against the marker and sets its start. A start that is not committed with a marker makes
// the task fresh: of an input that is new to the stage, or whose offset is gone.
func (w *worker) proveInput(ctx context.Context, o *ownedTask, in *ownedInput, m state.Marker, committed session.CommittedOffset) (err error) {
	next, known := m.NextOf(in.Topic)
	switch {
	case strings.HasPrefix(committed.Metadata, resetMark):
		return o.violation("I2", underReset, committed.Next)
	case !known && committed.Next >= 0 && m.TxnSeq == 0:
		return o.violation("I1", "the group has committed offset %d of %s, the state topic %s has no marker: its records are gone, or another program committed it and the stage gained state: revert; or %s", committed.Next, in.Topic, o.stage.StateTopic(), startOver)
	case !known && committed.Next >= 0:
		return o.violation("I1", "the marker knows no input %q, and the group has committed offset %d of it: another stage of this application read it before: stop the processors and delete the group's offset of this topic: it then starts by auto.offset.reset", in.Topic, committed.Next)
	case !known:
		o.fresh = true
		in.start, err = w.firstStart(ctx, o, in)
		return err
	case committed.Next < 0: // offsets expired or were deleted: the marker is as good a witness; the beginning would be wrong
		w.p.cfg.Logger.Warn("the group's offset is gone: resuming from the applied marker", "app", w.p.pipe.app, "task", o.id.String(), "input", in.Topic, "offset", next)
		if o.fresh = true; mutant.On("gone-offset-starts-over") {
			in.start, err = w.firstStart(ctx, o, in)
			return err
		}
	default:
		if err := checkOffset(in.Topic, m, next, committed); err != nil {
			return o.violation(err.invariant, "input %s: %s", in.Topic, err.text)
		}
	}
	in.start = next
	return nil
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

func checkOffset(topic string, m state.Marker, next int64, committed session.CommittedOffset) *offsetMismatch {
	meta, err := state.ParseMetadata(committed.Metadata)
	switch {
	case next < committed.Next && !mutant.On("i1-state-behind"):
		return unlike(next, committed.Next, err == nil, "the state topic has lost records", startOver)
	case next > committed.Next && !mutant.On("i1-state-ahead"):
		return unlike(next, committed.Next, err == nil, "the group has lost a commit", "if it finds `offset` alone, "+toMarker)
	case err != nil:
		return &offsetMismatch{"I2", fmt.Sprintf("the committed offset %d carries no proof of ours (%v): it was set by another tool: %s", committed.Next, err, toMarker)}
	case !m.Reads(topic) && meta.TxnSeq < m.TxnSeq: // a version without this input went on: its transactions did not commit it
		return nil
	case meta.TxnSeq != m.TxnSeq && !mutant.On("i2-number"):
		return &offsetMismatch{"I2", fmt.Sprintf("the marker is of transaction %d, the committed offset of %d: they were not written together; %s", m.TxnSeq, meta.TxnSeq, startOver)}
	case meta.Digest != m.Digest && !mutant.On("i2-digest"):
		return &offsetMismatch{"I2", fmt.Sprintf("the marker of transaction %d has digest %016x, the committed offset says %016x: they were not written together; %s", m.TxnSeq, m.Digest, meta.Digest, startOver)}
	}
	return nil
}

// unlike is I1. An offset with a proof of ours was committed by this job and moved by nobody: then something was lost, or a transaction
// was torn, and only a judgement of all topics tells which.
func unlike(next, committed int64, ours bool, lost, wayOut string) *offsetMismatch {
	if !ours {
		return &offsetMismatch{"I1", fmt.Sprintf("state is applied up to offset %d, and another tool has set the group's offset to %d: %s", next, committed, toMarker)}
	}
	return &offsetMismatch{"I1", fmt.Sprintf("state is applied up to offset %d, and this job itself has committed %d: %s, or Kafka has committed a transaction in part: keep all topics, and let `processor verify --raw` judge them; %s", next, committed, lost, wayOut)}
}

// firstStart decides where an input starts that the task has never processed.
func (w *worker) firstStart(ctx context.Context, o *ownedTask, in *ownedInput) (int64, error) {
	reset := w.p.cfg.OffsetReset
	if o.stage.isRepartition(in.Topic) && !mutant.On("hop-starts-by-reset") {
		reset = Earliest // what is in flight was never read by anyone; what came before it is committed and gone
	}
	switch reset {
	case Latest:
		if mutant.On("latest-is-the-high-watermark") {
			return session.EndOffset(ctx, w.p.admin, in.TopicPartition)
		}
		return session.StableOffset(ctx, w.p.admin, in.TopicPartition)
	case None:
		return 0, fmt.Errorf("task %s has no committed offset of %s and auto.offset.reset=none: set it to earliest or latest for the first start", o.id, in.Topic)
	default:
		return session.StartOffset(ctx, w.p.admin, in.TopicPartition)
	}
}

// checkInputs is I4. A repartition topic, whose reader survives that a fetch finds nothing where it asks, must not end before that
// either.
func (w *worker) checkInputs(ctx context.Context, o *ownedTask) error {
	for _, in := range o.inputs {
		if o.stage.isRepartition(in.Topic) {
			if err := w.checkEnd(ctx, o, in); err != nil {
				return err
			}
		}
		start, err := session.StartOffset(ctx, w.p.admin, in.TopicPartition)
		if err != nil {
			return err
		}
		if start > in.start && !mutant.On("i4-deleted-input") {
			return o.violation("I4", "retention deleted %d records of %s/%d that were never processed (offsets %d to %d): they are lost; to go on without them, %s", start-in.start, in.Topic, in.Partition, in.start, start-1, skipLost)
		}
	}
	return nil
}

func (w *worker) checkEnd(ctx context.Context, o *ownedTask, in ownedInput) error {
	end, err := session.EndOffset(ctx, w.p.admin, in.TopicPartition)
	if err == nil && end < in.start && !mutant.On("i4-hop-ends-before") {
		return o.violation("I4", "%s/%d ends at offset %d and is applied up to %d: it lost acknowledged records, or was made anew; to go on without them, %s", in.Topic, in.Partition, end, in.start, startOver)
	}
	return err
}

// The ways out of what no proof can mend.
const (
	// startOver gives the state up.
	startOver = "start over (`processor reset plan` lists what that deletes), or use a new application.id"
	// skipLost keeps it, and goes on behind what nobody can process any more.
	skipLost = "stop the processors and run `processor reset plan --skip-lost`, then apply, which keeps the state; or " + startOver
	// toMarker keeps it: what was applied is right, and what the group says is not.
	toMarker = "stop the processors and run `processor reset apply --to-marker`, or delete the group's offsets of this topic: the marker then counts"
	// underReset says that nothing runs on a reset that stopped on its way, whatever it left.
	underReset = "the group's offset %d is that of a reset that was begun and not finished: run `processor reset apply` again"
	// resetMark begins the metadata of offsets while a reset is under way.
	resetMark = "tallystick/reset "
)
