package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// gatePatience is how long a new assignment waits for its restores before the ready tasks start without the others.
const gatePatience = 250 * time.Millisecond

// assign is the restore gate. It runs on the client's goroutine and restores every task on a goroutine of its own, so that a
// warm task never waits for a cold one: what is not ready within gatePatience starts paused. A task with an input without a
// committed offset is waited for, because the start is known only then.
func (w *worker) assign(ctx context.Context, tasks []*session.Assignment) error {
	opened := make(chan opening, len(tasks))
	waiting := map[TaskID]*session.Assignment{}
	for _, a := range tasks {
		a.Pause = true
		for i := range a.Inputs {
			a.Inputs[i].Start = max(a.Inputs[i].Committed.Next, 0)
		}
		waiting[a.Task] = a
		turn := w.p.bases.turn()
		go func() { opened <- w.open(a, turn) }()
	}
	patience := time.NewTimer(gatePatience)
	defer patience.Stop()
	patient := true
	for len(waiting) > 0 && (patient || anyWithoutOffset(waiting)) {
		select {
		case o := <-opened:
			a := waiting[o.task]
			a.Pause = !o.runs
			for i, in := range a.Inputs {
				a.Inputs[i].Start = max(o.starts[in.Topic], 0)
			}
			delete(waiting, o.task)
		case <-patience.C:
			patient = false
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func anyWithoutOffset(waiting map[TaskID]*session.Assignment) bool {
	for _, a := range waiting {
		if slices.ContainsFunc(a.Inputs, func(in session.AssignedInput) bool { return in.Committed.Next < 0 }) {
			return true
		}
	}
	return false
}

// opening is what the gate learns of a task. The task itself is the worker's by then.
type opening struct {
	task   TaskID
	starts map[string]int64 // by topic: first offset to fetch
	runs   bool             // it may be fetched at once
}

// open restores and proves a task and hands it to the worker. It ends early, with nothing to hand over, when the token dies.
func (w *worker) open(a *session.Assignment, turn int64) opening {
	ctx, cancel := contextOf(a.Token)
	defer cancel()
	o := own(w.p.stage(a.Task.Stage), a)
	w.p.board.task(o.id, func(t *TaskStatus) { t.State, t.Worker, t.Error = Restoring, w.index, "" })
	if f := w.p.cfg.Events.Assigned; f != nil {
		f(o.id)
	}
	err := w.restore(ctx, o, turn, a)
	asked := committedOf(a)
	for i := range o.inputs {
		in := &o.inputs[i]
		committed := asked[in.TopicPartition].Next
		if err != nil { // it stays paused: nothing is fetched
			in.start = committed
		} else if committed >= 0 && in.start != committed {
			in.again = in.start // the client may have started elsewhere: its first record must not lie behind this
		}
	}
	result := opening{task: a.Task, starts: o.starts()}
	if !o.token.Live() {
		w.p.board.drop(o.id, w.index) // nobody else does: the task was never handed over
		if !mutant.On("dead-restore-keeps-its-lease") {
			o.lease.releaseIfHeld()
		}
		return result
	}
	o.stopped = err
	result.runs = err == nil && !o.fresh
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
func (w *worker) restore(ctx context.Context, o *ownedTask, turn int64, a *session.Assignment) (err error) {
	began := w.p.now()
	if n := w.p.partitions[o.id.Stage]; o.id.Partition >= n && !mutant.On("new-partition-processed") {
		return fmt.Errorf("topic %q had %d partitions when the processor started, and now has a partition %d: keys have moved, their state has not: nothing of it is processed; see `topics plan`; the way out is a topic with %d partitions, or to %s", o.inputs[0].Topic, n, o.id.Partition, n, startOver)
	}
	if len(a.Missing) > 0 {
		return splitError(a)
	}
	o.lease, err = w.p.bases.lease(ctx, o.id, o.token, turn, func() state.Base { return state.NewMemory(o.stage.specs) })
	if err != nil {
		return err
	}
	base := o.lease.base
	warm := base.Position() > 0
	committed := committedOf(a)
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
		if v.Invariant == "I3" && !mutant.On("wrong-contents-kept") { // contents are wrong, not late: only the log can tell what is right
			if err := base.Reset(); err != nil {
				return err
			}
		}
		if committed, err = w.committedAgain(ctx, o, time.Duration(try)*100*time.Millisecond); err != nil {
			return err
		}
	}
	if err := w.readEnds(ctx, o); err != nil {
		return err
	}
	w.freeReaders(ctx, o, total.ByProof)
	o.task = NewTask(o.stage, o.id.Partition, w.p.partitions[o.id.Stage], base, w.p.limits)
	w.restored(o, total, warm, w.p.now().Sub(began))
	return nil
}

// readEnds learns where inputs end that the task may have to wait for: the client tells it with their first records only.
func (w *worker) readEnds(ctx context.Context, o *ownedTask) (err error) {
	if len(o.inputs) == 1 || w.p.cfg.MaxTaskIdle < 0 {
		return nil
	}
	for i := range o.inputs {
		in := &o.inputs[i]
		if in.stable, err = session.StableOffset(ctx, w.p.admin, in.TopicPartition); err != nil {
			return err
		}
	}
	return nil
}

// splitError says that a task's inputs are not together, and whose business that is.
func splitError(a *session.Assignment) error {
	return fmt.Errorf("task %s: the group gave its inputs %q to other members or to none: a task needs all its inputs on one member, so nothing of it is processed: "+
		"if a rolling upgrade is under way, finish it; else see `topics plan` for a topic that is missing or has another partition count", a.Task, a.Missing)
}

// committedOf returns the group's offsets of a task as the gate read them.
func committedOf(a *session.Assignment) map[session.TopicPartition]session.CommittedOffset {
	committed := map[session.TopicPartition]session.CommittedOffset{}
	for _, in := range a.Inputs {
		committed[in.TopicPartition] = in.Committed
	}
	return committed
}

func (w *worker) restored(o *ownedTask, res session.RestoreResult, warm bool, took time.Duration) {
	w.p.runsAgain(o.id)
	w.p.cfg.Logger.Info("task restored", "app", w.p.pipe.app, "worker", w.index, "task", o.id.String(), "records", res.Records, "offsets", o.starts(), "took", took)
	if f := w.p.cfg.Events.Restored; f != nil {
		f(Restore{Task: o.id, Records: res.Records, From: res.From, To: res.To, ByProof: res.ByProof, Warm: warm, Next: o.starts(), Duration: took})
	}
}

func (w *worker) committedAgain(ctx context.Context, o *ownedTask, after time.Duration) (map[session.TopicPartition]session.CommittedOffset, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(after):
	}
	return session.FetchCommitted(ctx, w.p.admin, w.p.pipe.app, o.partitions())
}

func (w *worker) replay(ctx context.Context, o *ownedTask, base state.Base, committed map[session.TopicPartition]session.CommittedOffset) (session.RestoreResult, error) {
	tp := session.TopicPartition{Topic: o.stage.StateTopic(), Partition: o.id.Partition}
	res, err := session.Restore(ctx, w.p.admin, tp, &replayer{base, committed, w.restoring(o)}, w.stuck(o, tp))
	return res, topics.Asked{Right: "READ", Topic: tp.Topic}.Explain(err)
}

// restoring shows how far a restore is.
func (w *worker) restoring(o *ownedTask) func(session.RestoreResult) {
	began := w.p.now()
	moved, last := began, int64(-1)
	return func(res session.RestoreResult) {
		if res.To != last {
			moved, last = w.p.now(), res.To
		}
		r := &RestoreProgress{From: res.From, Next: res.To, Target: res.Target, Records: res.Records, Began: began, Moved: moved, At: moved}
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

// freeReaders ends the transaction that a dead owner left open. The restore need not wait for it, but who reads what it wrote would
// until transaction.timeout.ms is over, stages of our own among them. open says that the state partition has such a one; one that
// has reached outputs alone is found by the worker that wrote the state's marker.
func (w *worker) freeReaders(ctx context.Context, o *ownedTask, open bool) {
	for _, tp := range o.partitions() {
		if !open && w.p.pipe.repartitioned(tp.Topic) != nil {
			stable, err := session.StableOffset(ctx, w.p.admin, tp)
			end, endErr := session.EndOffset(ctx, w.p.admin, tp)
			open = err == nil && endErr == nil && stable < end
		}
	}
	if mutant.On("readers-not-freed") {
		return
	}
	var err error
	if open {
		err = w.janitor().Sweep(ctx)
	}
	if m, ok := o.lease.base.Marker(); ok && m.Writer != session.TransactionalID(w.p.pipe.app, w.p.instance, w.index) && !mutant.On("outputs-not-freed") {
		err = errors.Join(err, w.janitor().Release(ctx, m.Writer))
	}
	if err != nil { // the task runs all the same
		w.p.cfg.Logger.Warn("a transaction that a dead instance may have left open could not be looked for: readers of what it wrote wait for its time-out", "app", w.p.pipe.app, "task", o.id.String(), "err", err)
	}
}

// replayer feeds a base and knows when it is complete.
type replayer struct {
	state.Base
	committed map[session.TopicPartition]session.CommittedOffset // of all inputs
	progress  func(session.RestoreResult)
}

// Progress implements session.Replayer.
func (r *replayer) Progress(res session.RestoreResult) { r.progress(res) }

// Base's own methods serve as session.Replayer's; only the proof is added: the marker is the one of the committed offsets.
// No transaction writes a state partition without committing that task's offsets, so nothing can follow it.

// Proven implements session.Replayer.
func (r *replayer) Proven() bool {
	m, ok := r.Marker()
	if !ok {
		return false
	}
	for tp, committed := range r.committed {
		meta, err := state.ParseMetadata(committed.Metadata)
		next, known := m.NextOf(tp.Topic)
		if err != nil || !known || committed.Next != next || meta.TxnSeq != m.TxnSeq && !mutant.On("proof-without-its-number") {
			return false
		}
	}
	return true
}
