package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// ByKey as an Out's partition lets the key decide.
const ByKey int32 = -1

// WhenWritten as an Out's timestamp stands for the time of writing. (0 is a time: midnight of 1 January 1970.)
const WhenWritten int64 = -1

// Out is a record that a task produced, before it is handed to a producer. Key and Value stay valid until the transaction's
// Merge or Drop.
type Out struct {
	Topic      string
	Partition  int32 // ByKey, or the partition
	Key, Value []byte
	Headers    []record.Header
	Timestamp  int64 // ms, or WhenWritten
	fired      bool  // by a timer: its record is not to blame if the broker refuses it
}

func (o *Out) size() int {
	n := len(o.Key) + len(o.Value)
	for _, h := range o.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

// Input is an input record as fetched. The task keeps nothing of it after Process.
type Input struct {
	record.Position
	Key, Value []byte // nil is Kafka's null
	Headers    []record.Header
	Timestamp  int64 // ms
	Clock      int64 // wall clock in ms: the only use is to refuse a record stamped too far ahead
	// Refused is the broker's refusal of what this record produced, when it was processed alone and refused again. The
	// handler is not called; the stage's policy applies.
	Refused error
}

// Task is the pure core: one partition of a stage. It has no Kafka, no clock and no goroutine, so the same inputs give the
// same outputs. It is owned by one goroutine.
type Task struct {
	stage       *Stage
	partition   int32
	partitions  int32
	view        *state.View
	limits      Limits
	fingerprint string
	stateTopic  string
	ctx         Ctx
	arena       arena
	out         []Out
	due         []firing          // of the record in hand
	inputs      []progress        // by order of declaration
	gone        []state.InputNext // of inputs that the stage has no more
	current     int               // the input of the record in hand
	committed   state.Marker
	touched     bool
}

// NewTask returns the task of one partition over base, which must be restored and stays the task's until it ends. limits may be
// nil.
func NewTask(s *Stage, partition, partitions int32, base state.Base, limits Limits) *Task {
	t := &Task{stage: s, partition: partition, partitions: partitions, limits: limits, view: state.NewView(s.specs, base), fingerprint: s.Fingerprint(partitions), stateTopic: s.StateTopic()}
	t.committed, _ = base.Marker()
	t.gone = s.goneFrom(t.committed)
	for _, in := range s.inputs {
		t.inputs = append(t.inputs, restart(t.committed, in.topic))
	}
	return t
}

// Touched reports whether the open transaction has processed something of this task.
func (t *Task) Touched() bool { return t.touched }

// View returns the task's sight of its stores, for reading outside a handler.
func (t *Task) View() *state.View { return t.view }

// maxAhead is how far a record's timestamp may lie ahead of the wall clock: Kafka's own default (KIP-1030).
const maxAhead = time.Hour

// OrderError says that the client delivered offsets that go back (I5).
type OrderError struct {
	At   record.Position
	Next int64
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("I5: %s was delivered, but everything below offset %d is applied", e.At, e.Next)
}

// Process runs one record of one of the stage's inputs in its savepoint and returns what it produced, dead letters included;
// the slice is valid until the next call. An error leaves the record undone and is fatal to the task.
func (t *Task) Process(in *Input) ([]Out, error) {
	t.current = t.stage.input(in.Topic)
	p := &t.inputs[t.current]
	if in.Offset < p.next && !mutant.On("i5-offsets-go-back") {
		return nil, &OrderError{in.Position, p.next}
	}
	t.out = t.out[:0]
	t.savepoint(in)
	err := t.handle(in)
	if failed := t.view.Err(); failed != nil && !mutant.On("store-failure-under-policy") { // the store's fault, never the record's: no policy applies
		t.view.Rollback()
		return nil, fmt.Errorf("stage %q at %s: %w", t.stage.name, in.Position, failed)
	}
	if err != nil {
		t.view.Rollback()
		if !mutant.On("outputs-of-a-failed-record") {
			t.out = t.out[:0]
		}
		if err := t.settle(in, err); err != nil {
			return nil, err
		}
	}
	t.touched, p.next = true, in.Offset+1
	return t.out, nil
}

func (t *Task) handle(in *Input) error {
	if in.Refused != nil {
		return in.Refused
	}
	if err := t.admit(in); err != nil {
		return err
	}
	tries := 1
	if t.stage.onError == Retry {
		tries = 3
	}
	var err error
	for ; tries > 0; tries-- {
		if err = t.call(in); err == nil || isDeadLetter(err) || errors.As(err, new(*unpolicedError)) || t.view.Err() != nil || tries == 1 {
			break
		}
		t.view.Rollback()
		t.out = t.out[:0]
		t.savepoint(in)
	}
	return err
}

// admit refuses what no handler may see.
func (t *Task) admit(in *Input) error {
	if in.Timestamp > in.Clock+maxAhead.Milliseconds() && !mutant.On("future-accepted") {
		return futureTimestamp(in)
	}
	if in.Key == nil {
		return DeadLetter("null_key", errNullKey)
	}
	return t.checkPlace(in)
}

// call runs the handler and turns a panic into an error that carries record and stack.
func (t *Task) call(in *Input) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{in.Position, r, debug.Stack()}
		}
	}()
	if err := t.fire(in); err != nil {
		return err
	}
	t.ctx = Ctx{task: t, in: in, time: in.Timestamp}
	err = t.stage.inputs[t.current].handle(&t.ctx, in)
	if t.ctx.err != nil && !mutant.On("failed-send-swallowed") {
		return t.ctx.err // a failed Send cannot be swallowed
	}
	if err != nil && !(mutant.On("cancelled-handler-succeeds") && errors.Is(err, context.Canceled)) {
		return err
	}
	return t.limits.check(t.stateTopic, t.view.LargestWrite())
}

// PanicError is a panic in a handler. It stops the task: no policy applies.
type PanicError struct {
	At    record.Position
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("handler panicked at %s: %v\n%s", e.At, e.Value, e.Stack)
}

// unpolicedError is an error for which the record is not to blame: it stops the task, no policy applies.
type unpolicedError struct{ err error }

func (e *unpolicedError) Error() string { return e.err.Error() }

func (e *unpolicedError) Unwrap() error { return e.err }

func isDeadLetter(err error) bool {
	var d *deadLetterError
	return errors.As(err, &d)
}

// settle decides the fate of a record whose handler failed and whose writes are undone.
func (t *Task) settle(in *Input, err error) error {
	var d *deadLetterError
	var p *PanicError
	switch {
	case errors.As(err, &d) && !errors.As(err, new(*unpolicedError)):
	case errors.As(err, &p) && !mutant.On("panic-under-policy"), errors.As(err, new(*misplacedError)), errors.As(err, new(*unpolicedError)), t.stage.onError == Fail, t.stage.onError == Retry:
		return fmt.Errorf("stage %q at %s: %w", t.stage.name, in.Position, err)
	case t.stage.onError == Skip:
		return nil
	default:
		d = &deadLetterError{reason: "handler_error", err: err}
	}
	out, err := t.deadLetter(in, d)
	if err != nil {
		return fmt.Errorf("stage %q at %s: %w", t.stage.name, in.Position, err)
	}
	t.out = append(t.out, out)
	return nil
}

// Seal computes what the open transaction writes to the state topic: the last value of each key that changed, the packed ids,
// and the applied marker (I6: also when no state changed). Bytes stay valid until Merge or Drop.
func (t *Task) Seal(writer string) (state.Sealed, error) {
	m := state.Marker{
		TxnSeq:      t.committed.TxnSeq + 1, // I2: grows by exactly one
		Partitions:  t.partitions,
		Fingerprint: t.fingerprint,
		Writer:      writer,
		Next:        t.nexts(),
	}
	return t.view.Seal(m)
}

// Merge applies a sealed transaction to the base. Call it only when the transaction is proven committed. position is the next
// offset of the state topic behind the sealed records.
func (t *Task) Merge(s state.Sealed, position int64) error {
	if err := t.view.Merge(s, position); err != nil {
		return err
	}
	t.committed = s.Marker
	for i := range t.inputs {
		t.inputs[i].placementCommitted = t.inputs[i].placement
	}
	t.settleTransaction()
	return nil
}

// Drop forgets the open transaction.
func (t *Task) Drop() {
	t.view.Drop()
	for i := range t.inputs {
		p := &t.inputs[i]
		p.next, p.placement = t.committedNext(t.stage.inputs[i].topic), p.placementCommitted
	}
	t.settleTransaction()
}

func (t *Task) settleTransaction() {
	t.touched = false
	t.arena.reset()
	t.out = t.out[:0]
}
