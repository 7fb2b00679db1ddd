package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/topics"
)

const (
	maxPoll       = 5_000                // records a poll: bounds a transaction's overshoot of its interval
	maxProduced   = 100_000              // records of a transaction
	maxStaged     = 64 << 20             // bytes of a transaction
	checkEvery    = 256                  // records between two looks at the clock
	commitGap     = 5 * time.Millisecond // a stock broker holds a produce 20 ms that meets the previous commit still completing
	idleCommits   = 4                    // an idle commit waits for this many times the average commit: a fifth of the time at most
	idlePoll      = time.Second
	minPoll       = time.Millisecond
	closePatience = 2 * time.Second
)

// worker owns one session and the tasks that the group gave to it. One goroutine runs it; only arrive, assign and what they
// call run elsewhere.
type worker struct {
	p     *Processor
	index int

	mu      sync.Mutex // guards sess for other goroutines, and arrived
	sess    *session.Session
	arrived []*ownedTask

	asks  chan *ask    // queries, from any goroutine
	tasks []*ownedTask // running and stopped ones, in task order
	txn   transaction
	input Input
	heads []int64 // scratch of choose

	lastCommit time.Time
	averageEnd time.Duration
	commitNow  bool        // the transaction must end with the record just processed
	rewinds    int         // how often the cursors went back: what was polled before is void
	rebuilds   []time.Time // since the last commit
	joined     bool        // as the status shows it
	groupError string      // the last one logged
	undecided  bool        // a transaction is open, or its outcome unknown: only its end or the next fence decides it
	proven     bool        // this session has committed
}

// serve opens a session and runs it until ctx ends (nil) or the session must be rebuilt (an error).
func (w *worker) serve(ctx context.Context) error {
	open, cancel := context.WithTimeout(ctx, w.p.cfg.TransactionTimeout+w.p.cfg.SessionTimeout)
	sess, err := session.Open(open, w.sessionConfig())
	cancel()
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.sess = sess
	w.mu.Unlock()
	sess.Wake() // tasks may have arrived before the session was known
	w.txn, w.commitNow, w.proven, w.undecided = transaction{}, false, false, false
	w.p.board.worker(w.index, func(s *WorkerStatus) { s.TransactionalID = sess.ID() })
	defer w.closeSession(sess)
	for ctx.Err() == nil {
		if err := w.turn(ctx); err != nil {
			return w.undrained(ctx, err)
		}
	}
	return w.drain(ctx)
}

func (w *worker) sessionConfig() session.Config {
	c := w.p.cfg
	return session.Config{
		App: w.p.pipe.app, Instance: w.p.instance, Worker: w.index, Inputs: w.p.inputs(), Topology: w.p.topology(), Admin: w.p.admin,
		Client:         w.p.clientOptions(),
		SessionTimeout: c.SessionTimeout, HeartbeatInterval: c.HeartbeatInterval, RebalanceTimeout: c.RebalanceTimeout, TransactionTimeout: c.TransactionTimeout,
		MaxRecordBytes: w.p.maxRecordBytes,
		Assign:         w.assign,
		Janitor:        w.janitor(),
		Partition:      w.p.pipe.place,
		Unplaced:       w.unplaced,
	}
}

func (w *worker) unplaced(partitions int) {
	w.p.cfg.Logger.Warn("no member of the group has these partitions; joining again to have them given out", "app", w.p.pipe.app, "worker", w.index, "partitions", partitions)
}

func (w *worker) janitor() session.Janitor {
	return session.Janitor{Client: w.p.admin, App: w.p.pipe.app, Own: w.p.ownTopics(), Timeout: w.p.cfg.TransactionTimeout, Fenced: w.fenced}
}

func (w *worker) fenced(id string) {
	w.p.cfg.Logger.Warn("fenced the transaction of an instance that is gone", "app", w.p.pipe.app, "txn", id)
	if f := w.p.cfg.Events.Fenced; f != nil {
		f(id)
	}
}

// closeSession throws a session away: overlays and tokens go, bases stay.
func (w *worker) closeSession(sess *session.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	sess.Close(ctx)
	w.admitArrivals()
	for _, o := range w.tasks {
		w.release(o)
	}
	w.tasks = nil
	w.showJoined(false)
}

// showJoined tells the status whether the group counts on this worker; it is told of changes only.
func (w *worker) showJoined(joined bool) {
	if joined {
		w.groupError = "" // the next outage is news again
	}
	if w.joined != joined {
		w.joined = joined
		w.p.board.worker(w.index, func(s *WorkerStatus) { s.Joined = joined })
	}
}

// turn is one turn of the loop.
func (w *worker) turn(ctx context.Context) error {
	w.answer()
	allowed := !w.sess.InTransaction()
	if allowed {
		w.sess.AllowRebalance()
		joined := w.sess.AwaitJoin(ctx, idlePoll)
		w.showJoined(joined)
		if !joined {
			if err := w.poll(ctx); err != nil { // only a poll tells that a join fails, and why
				return err
			}
			return w.sweep(ctx)
		}
	}
	if allowed || !w.queued() { // a poll blocks rebalances again: none may run inside the transaction that begins next
		if err := w.poll(ctx); err != nil {
			return err
		}
	}
	w.admitArrivals()
	if err := w.denied(); err != nil {
		return err
	}
	if err := w.sweep(ctx); err != nil {
		return err
	}
	if err := w.adopt(ctx); err != nil {
		return err
	}
	if err := w.process(ctx); err != nil {
		return err
	}
	if w.commitDue(ctx) {
		_, err := w.commit(ctx)
		return err
	}
	return nil
}

// denied is why a task could not be restored when a right is missing: that is true of every task, and no reason to look alive.
func (w *worker) denied() error {
	for _, o := range w.tasks {
		if errors.As(o.stopped, new(*topics.DeniedError)) {
			return o.stopped
		}
	}
	return nil
}

// queued reports whether a task can go on with what is polled.
func (w *worker) queued() bool {
	return slices.ContainsFunc(w.tasks, func(o *ownedTask) bool { return o.runs() && w.choose(o) != nil })
}

// arrive hands a restored task to the worker. It is called from the restore's goroutine.
func (w *worker) arrive(o *ownedTask) {
	w.mu.Lock()
	w.arrived = append(w.arrived, o)
	w.mu.Unlock()
	w.wake()
}

// admitArrivals takes over the tasks that were restored meanwhile.
func (w *worker) admitArrivals() {
	w.mu.Lock()
	arrived := w.arrived
	w.arrived = nil
	w.mu.Unlock()
	for _, o := range arrived {
		if !o.token.Live() && !mutant.On("dead-arrival-admitted") {
			w.release(o)
			continue
		}
		w.tasks = append(w.tasks, o)
		if o.stopped != nil {
			w.reportStop(o)
		} else if !o.fresh {
			w.purgeBelow(o, o.task.committed)
			w.sess.Resume(o.partitions()...)
		}
		w.publish(o)
	}
	if len(arrived) > 0 {
		slices.SortFunc(w.tasks, func(x, y *ownedTask) int { return x.id.Compare(y.id) })
	}
}

// sweep gives back what is not ours any more. A transaction that holds work of a lost task is aborted whole.
func (w *worker) sweep(ctx context.Context) error {
	if mutant.On("commit-for-dead-token") {
		return nil
	}
	lost := func(o *ownedTask) bool { return !o.token.Live() }
	if !slices.ContainsFunc(w.tasks, lost) {
		return nil
	}
	if w.sess.InTransaction() && !mutant.On("lost-task-leaves-its-work") && slices.ContainsFunc(w.tasks, func(o *ownedTask) bool { return lost(o) && o.touched() }) {
		if err := w.abort(ctx, session.ErrTokenLost); err != nil {
			return err
		}
	}
	var gone []TaskID
	for _, o := range w.tasks {
		if lost(o) {
			w.release(o)
			gone = append(gone, o.id)
		}
	}
	w.tasks = slices.DeleteFunc(w.tasks, lost)
	for _, id := range gone {
		w.showRemainder(id)
	}
	return nil
}

// showRemainder keeps a task in sight whose inputs the group has parted: it is stopped until it is whole again.
func (w *worker) showRemainder(id TaskID) {
	if a := w.sess.Remainder(id); a != nil {
		o := own(w.p.stage(id.Stage), a)
		o.stopped = splitError(a)
		w.arrive(o)
	}
}

// release ends a task's stay: its overlay goes, its base is given back as it was last proven.
func (w *worker) release(o *ownedTask) {
	if o.task != nil {
		o.task.Drop()
	}
	o.lease.releaseIfHeld()
	if !mutant.On("purge-for-lost-tasks") {
		w.purgeNoMore(o)
	}
	w.p.board.drop(o.id, w.index)
	if f := w.p.cfg.Events.Lost; f != nil {
		f(o.id)
	}
}

// adopt commits the start of tasks that have none with a marker of their own, before any record: else a crash before the
// first commit would start over, and under auto.offset.reset=latest skip input.
func (w *worker) adopt(ctx context.Context) error {
	var fresh []*ownedTask
	for _, o := range w.tasks {
		if o.fresh && o.stopped == nil {
			fresh = append(fresh, o)
		}
	}
	if mutant.On("start-not-committed") {
		return w.startWithout(fresh)
	}
	if len(fresh) == 0 {
		return nil
	}
	if w.sess.InTransaction() {
		if _, err := w.commit(ctx); err != nil {
			return err
		}
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	for _, o := range fresh {
		for _, in := range o.inputs {
			o.task.StartAt(in.Topic, in.start)
		}
	}
	committed, err := w.commit(ctx)
	if err != nil || !committed {
		return err
	}
	for _, o := range fresh {
		o.fresh = false
		w.sess.Resume(o.partitions()...)
	}
	return nil
}

// startWithout is the sabotage of the mutant start-not-committed: tasks begin, and what comes first commits their start.
func (w *worker) startWithout(fresh []*ownedTask) error {
	for _, o := range fresh {
		for _, in := range o.inputs {
			o.task.StartAt(in.Topic, in.start)
		}
		o.fresh = false
		w.sess.Resume(o.partitions()...)
	}
	return nil
}

// stop ends a task that needs a person. The others go on; nothing of the task is committed or skipped.
func (w *worker) stop(ctx context.Context, o *ownedTask, err error) error {
	w.halt(o, err)
	if w.sess.InTransaction() {
		return w.abort(ctx, fmt.Errorf("task %s stopped", o.id))
	}
	return nil
}

// halt is stop without the end of the open transaction, which must be aborted.
func (w *worker) halt(o *ownedTask, err error) {
	o.stopped = err
	for i := range o.inputs {
		o.inputs[i].queue = nil
	}
	w.sess.Pause(o.partitions()...)
	w.reportStop(o)
	w.publish(o)
}

func (w *worker) reportStop(o *ownedTask) {
	w.p.cfg.Logger.Error("task stopped", "app", w.p.pipe.app, "worker", w.index, "task", o.id.String(), "err", o.stopped)
	if f := w.p.cfg.Events.Stopped; f != nil {
		f(o.id, o.stopped)
	}
	w.p.stopped(o.id, o.stopped)
}

// publish shows a task in the status.
func (w *worker) publish(o *ownedTask) {
	w.p.board.task(o.id, func(t *TaskStatus) {
		t.Worker, t.State, t.Error = w.index, Running, ""
		t.Restore = nil
		if o.stopped != nil {
			t.State, t.Error = Stopped, o.stopped.Error()
		}
		t.Inputs = o.progress()
		t.AppliedNext, t.EndNext = sum(t.Inputs)
		if o.task != nil {
			t.TxnSeq = o.task.committed.TxnSeq
			t.StateBytes, t.StatePosition = o.lease.base.Bytes(), o.lease.base.Position()
		}
	})
}
