package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

// gatePatience is how long a new assignment waits for its restores before the ready tasks start without the others.
const gatePatience = 250 * time.Millisecond

// assign is the restore gate. It runs on the client's goroutine and restores every task on a goroutine of its own, so that a
// warm task never waits for a cold one: what is not ready within gatePatience starts paused. A task without a committed
// offset is waited for, because its start is known only then.
func (w *worker) assign(ctx context.Context, tasks []*session.Assignment) error {
	opened := make(chan opening, len(tasks))
	waiting := map[session.TopicPartition]*session.Assignment{}
	for _, a := range tasks {
		a.Start, a.Pause = a.Committed.Next, true
		waiting[a.Input] = a
		turn := w.p.bases.turn()
		go func() { opened <- w.open(a, turn) }()
	}
	patience := time.NewTimer(gatePatience)
	defer patience.Stop()
	patient := true
	for len(waiting) > 0 && (patient || anyWithoutOffset(waiting)) {
		select {
		case o := <-opened:
			a := waiting[o.input]
			a.Start, a.Pause = max(o.start, 0), !o.runs
			delete(waiting, o.input)
		case <-patience.C:
			patient = false
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func anyWithoutOffset(waiting map[session.TopicPartition]*session.Assignment) bool {
	for _, a := range waiting {
		if a.Committed.Next < 0 {
			return true
		}
	}
	return false
}

// opening is what the gate learns of a task. The task itself is the worker's by then.
type opening struct {
	input session.TopicPartition
	start int64 // first offset to fetch
	runs  bool  // it may be fetched at once
}

// open restores and proves a task and hands it to the worker. It ends early, with nothing to hand over, when the token dies.
func (w *worker) open(a *session.Assignment, turn int64) opening {
	ctx, cancel := contextOf(a.Token)
	defer cancel()
	o := &ownedTask{id: a.Task, stage: w.p.stage(a.Task.Stage), input: a.Input, token: a.Token, end: -1, first: -1, again: -1}
	w.p.board.task(o.id, func(t *TaskStatus) { t.State, t.Worker, t.Error = Restoring, w.index, "" })
	if f := w.p.cfg.Events.Assigned; f != nil {
		f(o.id)
	}
	err := w.restore(ctx, o, turn, a.Committed)
	switch {
	case !o.token.Live():
		w.p.board.drop(o.id, w.index) // nobody else does: the task was never handed over
		o.lease.releaseIfHeld()
		return opening{input: a.Input, start: a.Committed.Next}
	case err != nil:
		o.stopped, o.start = err, a.Committed.Next // it stays paused: nothing is fetched
	}
	if a.Committed.Next >= 0 && o.start != a.Committed.Next {
		o.again = o.start // the client may have started elsewhere: its first record must not lie behind this
	}
	result := opening{a.Input, o.start, o.stopped == nil && !o.fresh}
	w.arrive(o)
	return result
}

// contextOf returns a context that ends with the token.
func contextOf(t *session.Token) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-t.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (l *lease) releaseIfHeld() {
	if l != nil {
		l.release()
	}
}

// proofTries bounds how often a marker that does not match is read again before the task stops.
const proofTries = 5

// restore replays the state topic from the local position and proves it (I1 to I4). An error stops the task, unless the
// token is dead.
func (w *worker) restore(ctx context.Context, o *ownedTask, turn int64, committed session.CommittedOffset) (err error) {
	began := w.p.now()
	if n := w.p.partitions[o.id.Stage]; o.id.Partition >= n {
		return fmt.Errorf("topic %q had %d partitions when the processor started, and now has a partition %d: keys have moved, their state has not: nothing of it is processed; see `topics plan`", o.input.Topic, n, o.id.Partition)
	}
	o.lease, err = w.p.bases.lease(ctx, o.id, o.token, turn, func() state.Base { return state.NewMemory(o.stage.specs) })
	if err != nil {
		return err
	}
	base := o.lease.base
	warm := base.Position() > 0
	var total session.RestoreResult
	for try := 1; ; try++ {
		res, err := w.replay(ctx, o, base, committed)
		if err != nil {
			return fmt.Errorf("task %s: %w", o.id, err)
		}
		if try == 1 {
			total.From = res.From
		}
		total.Records += res.Records
		total.To, total.ByProof = res.To, res.ByProof
		err = w.prove(ctx, o, base, committed)
		var v *ViolationError
		if err == nil {
			break
		}
		if !errors.As(err, &v) || try == proofTries {
			w.violated(o.id, err)
			return err
		}
		if v.Invariant == "I3" { // contents are wrong, not late: only the log can tell what is right
			if err := base.Reset(); err != nil {
				return err
			}
		}
		if committed, err = w.committedAgain(ctx, o.input, time.Duration(try)*100*time.Millisecond); err != nil {
			return err
		}
	}
	o.task = NewTask(o.stage, o.id.Partition, w.p.partitions[o.id.Stage], base, w.p.limits)
	w.restored(o, total, warm, w.p.now().Sub(began))
	return nil
}

func (w *worker) restored(o *ownedTask, res session.RestoreResult, warm bool, took time.Duration) {
	w.p.runsAgain(o.id)
	w.p.cfg.Logger.Info("task restored", "app", w.p.pipe.app, "worker", w.index, "task", o.id.String(), "records", res.Records, "offset", o.start, "took", took)
	if f := w.p.cfg.Events.Restored; f != nil {
		f(Restore{Task: o.id, Records: res.Records, From: res.From, To: res.To, ByProof: res.ByProof, Warm: warm, Next: o.start, Duration: took})
	}
}

func (w *worker) committedAgain(ctx context.Context, tp session.TopicPartition, after time.Duration) (session.CommittedOffset, error) {
	select {
	case <-ctx.Done():
		return session.CommittedOffset{}, ctx.Err()
	case <-time.After(after):
	}
	got, err := session.FetchCommitted(ctx, w.p.admin, w.p.pipe.app, []session.TopicPartition{tp})
	return got[tp], err
}

func (w *worker) replay(ctx context.Context, o *ownedTask, base state.Base, committed session.CommittedOffset) (session.RestoreResult, error) {
	r := &replayer{Base: base, topic: o.input.Topic, committed: committed, progress: w.restoring(o)}
	r.meta, r.metaErr = state.ParseMetadata(committed.Metadata)
	tp := session.TopicPartition{Topic: o.stage.StateTopic(), Partition: o.id.Partition}
	return session.Restore(ctx, w.p.admin, tp, r, w.stuck(o, tp))
}

// restoring shows how far a restore is.
func (w *worker) restoring(o *ownedTask) func(session.RestoreResult) {
	began := w.p.now()
	return func(res session.RestoreResult) {
		r := &RestoreProgress{From: res.From, Next: res.To, Target: res.Target, Records: res.Records, Began: began, At: w.p.now()}
		if o.token.Live() { // else another has it, or will show it
			w.p.board.task(o.id, func(t *TaskStatus) { t.State, t.Worker, t.Restore = Restoring, w.index, r })
		}
	}
}

// stuck says who holds a restore up, and fences who is gone.
func (w *worker) stuck(o *ownedTask, tp session.TopicPartition) func(context.Context, error) {
	return func(ctx context.Context, cause error) {
		log := w.p.cfg.Logger.With("app", w.p.pipe.app, "task", o.id.String(), "topic", tp.Topic, "partition", tp.Partition)
		if cause != nil {
			log.Warn("restore cannot read the state topic and tries again", "err", cause)
			return
		}
		holders, err := session.Holders(ctx, w.p.admin, tp)
		log.Warn("restore waits for an open transaction", "holders", holders, "err", err)
		if err := w.janitor().Sweep(ctx); err != nil {
			log.Warn("what blocks the restore could not be fenced; it is tried again", "err", err)
		}
	}
}

// replayer feeds a base and knows when it is complete.
type replayer struct {
	state.Base
	topic     string
	committed session.CommittedOffset
	meta      state.Metadata
	metaErr   error
	progress  func(session.RestoreResult)
}

// Progress implements session.Replayer.
func (r *replayer) Progress(res session.RestoreResult) { r.progress(res) }

// Base's own methods serve as session.Replayer's; only the proof is added: the marker is the one of the committed offset.
// No transaction writes a state partition without committing that task's offset, so nothing can follow it.

// Proven implements session.Replayer.
func (r *replayer) Proven() bool {
	m, ok := r.Marker()
	if !ok || r.metaErr != nil || r.committed.Next < 0 {
		return false
	}
	next, ok := m.NextOf(r.topic)
	return ok && next == r.committed.Next && m.TxnSeq == r.meta.TxnSeq
}
