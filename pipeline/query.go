package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

const (
	queryPatience = 5 * time.Second // for the owner's next loop point, or for the group's answer
	maxAsks       = 64              // queries that wait at one worker before the next one waits outside
)

// Snapshot is the committed contents of a task at one point between two transactions' records. It is valid during the call of
// the function that got it, on one goroutine; what it returns as bytes must be copied to be kept.
type Snapshot struct {
	Task       TaskID
	TxnSeq     uint64            // number of the last transaction in it, 0 before the first
	StreamTime int64             // ms; state.NoStreamTime if no record was applied
	Next       []state.InputNext // the first offset of each input that it does not hold yet

	view *state.View
}

// View makes a Snapshot a state.Scope: read it through the handles that the pipeline was declared with. Writes are refused.
func (s *Snapshot) View() *state.View { return s.view }

// NotReadyError says why a task of this pipeline cannot be read now; trying again later can help.
type NotReadyError struct {
	Task    TaskID
	Why     string
	Restore *RestoreProgress // nil unless the task is being restored and knows how far it is
}

func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("task %s: %s", e.Task, e.Why)
	if e.Restore != nil {
		text += ": " + e.Restore.String()
	}
	return text
}

// ElsewhereError says that another instance of the application has the task.
type ElsewhereError struct {
	Task     TaskID
	Instance string // its group.instance.id, or the name kept in its state.dir
	Host     string // the address that it joined the group from, as the broker saw it
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("task %s is owned by instance %q at %s: ask there", e.Task, e.Instance, e.Host)
}

// Query lets read look at the committed contents of one task. read runs on the goroutine of the worker that owns the task, at
// its next loop point, so that nothing is locked and no second reader of the state exists: it must be short, for nothing is
// processed meanwhile. Query waits for it, at most five seconds, and not longer than ctx; when it returns an error, read was
// not called. Errors to test for: ElsewhereError, NotReadyError; a failure of the store itself is returned as it is.
func (p *Processor) Query(ctx context.Context, id TaskID, read func(*Snapshot)) error {
	ctx, cancel := context.WithTimeout(ctx, queryPatience)
	defer cancel()
	for {
		workers, err := p.serving(id)
		if err != nil {
			return err
		}
		t, here := p.board.find(id)
		switch {
		case !here:
			return p.notHere(ctx, id)
		case t.State == Restoring:
			return &NotReadyError{id, "it is being restored", t.Restore.at(p.now())}
		case t.State == Stopped:
			return &NotReadyError{id, "it is stopped: " + t.Error, nil}
		}
		if err := workers[t.Worker].ask(ctx, id, read); !errors.Is(err, errNotMine) {
			return err
		}
	}
}

// TaskOf returns the task of a stage that has the records with an encoded key: also the one whose stores hold it, if handlers
// store under the key of the record. false before the processor has read the topics, or when the stage does not exist.
func (p *Processor) TaskOf(stage string, key []byte) (TaskID, bool) {
	workers, partitions := p.running()
	s := p.stage(stage)
	if workers == nil || s == nil {
		return TaskID{}, false
	}
	return TaskID{Stage: stage, Partition: s.partitioner.Partition(key, partitions[stage])}, true
}

// TasksOf returns all tasks of a stage, whoever owns them; none before the processor has read the topics.
func (p *Processor) TasksOf(stage string) (ids []TaskID) {
	workers, partitions := p.running()
	for i := range partitions[stage] {
		if workers != nil {
			ids = append(ids, TaskID{Stage: stage, Partition: i})
		}
	}
	return ids
}

// running returns the workers, nil when they do not run, and the partitions by stage, which do not change while they do.
func (p *Processor) running() ([]*worker, map[string]int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers == nil {
		return nil, nil
	}
	return p.workers, p.partitions
}

func (p *Processor) serve(workers []*worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.workers = workers
}

// serving returns the workers, or why id cannot be asked for.
func (p *Processor) serving(id TaskID) ([]*worker, error) {
	workers, partitions := p.running()
	switch {
	case workers == nil:
		return nil, &NotReadyError{id, "the processor does not run: it starts, or it has ended", nil}
	case id.Partition < 0 || id.Partition >= partitions[id.Stage]:
		return nil, fmt.Errorf("there is no task %s: stage %q has %d, from 0", id, id.Stage, partitions[id.Stage])
	}
	return workers, nil
}

// notHere says who has a task that this process does not have.
func (p *Processor) notHere(ctx context.Context, id TaskID) error {
	owners, err := session.Owners(ctx, p.admin, p.pipe.app)
	if err != nil {
		return &NotReadyError{id, fmt.Sprintf("this process does not have it, and who does is not known: %v", err), nil}
	}
	o, owned := owners[session.TopicPartition{Topic: p.stage(id.Stage).Inputs()[0], Partition: id.Partition}]
	switch {
	case !owned:
		return &NotReadyError{id, "no member of the group has it now: a rebalance is under way, or nobody runs", nil}
	case o.Instance == p.Status().Instance:
		return &NotReadyError{id, "it is on its way to this process" + p.lastError(), nil}
	}
	return &ElsewhereError{id, o.Instance, o.Host}
}

// lastError is what keeps a worker from its session, if one has none.
func (p *Processor) lastError() string {
	for _, w := range p.Status().Workers {
		if !w.Joined && w.LastError != "" {
			return fmt.Sprintf(" (worker %d: %s)", w.Worker, w.LastError)
		}
	}
	return ""
}

// ask is a query on its way to a worker.
type ask struct {
	id    TaskID
	read  func(*Snapshot)
	taken atomic.Bool // by the worker, which then answers, or by the asker, who then gives up
	done  chan error  // holds the answer of the worker that took it
}

// errNotMine says that the task left the worker before the query reached it.
var errNotMine = errors.New("the task is not this worker's any more")

// ask hands a query to the worker and waits. It runs on the asker's goroutine.
func (w *worker) ask(ctx context.Context, id TaskID, read func(*Snapshot)) error {
	a := &ask{id: id, read: read, done: make(chan error, 1)}
	select {
	case w.asks <- a:
		w.wake()
	case <-ctx.Done():
		return w.late(ctx, id)
	}
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		if a.taken.CompareAndSwap(false, true) {
			return w.late(ctx, id)
		}
		return <-a.done // it is being answered
	}
}

func (w *worker) late(ctx context.Context, id TaskID) error {
	why := fmt.Sprintf("worker %d did not come to a point between two batches in time: a handler or a commit takes long, or it has no session%s", w.index, w.p.lastError())
	return errors.Join(&NotReadyError{id, why, nil}, ctx.Err())
}

func (w *worker) wake() {
	w.mu.Lock()
	sess := w.sess
	w.mu.Unlock()
	if sess != nil {
		sess.Wake()
	}
}

// answer serves the queries that have come. The base that they read holds nothing but what was proven: what the open
// transaction wrote is in its overlay.
func (w *worker) answer() {
	for range len(w.asks) {
		if a := <-w.asks; a.taken.CompareAndSwap(false, true) {
			a.done <- w.read(a)
		}
	}
}

func queryable(t *session.Token) bool { return t.Live() || mutant.On("query-of-a-lost-task") }

// nextsOf copies: a reader may write on what it got.
func nextsOf(m state.Marker) []state.InputNext {
	if mutant.On("query-next-shared") {
		return m.Next
	}
	return slices.Clone(m.Next)
}

func (w *worker) read(a *ask) error {
	i := slices.IndexFunc(w.tasks, func(o *ownedTask) bool {
		return o.id == a.id && o.task != nil && o.stopped == nil && queryable(o.token)
	})
	if i < 0 {
		return errNotMine
	}
	o := w.tasks[i]
	m, _ := o.lease.base.Marker()
	s := &Snapshot{Task: a.id, TxnSeq: m.TxnSeq, StreamTime: m.StreamTime, Next: nextsOf(m), view: state.NewView(o.stage.specs, o.lease.base)}
	if m.TxnSeq == 0 && !mutant.On("query-stream-time") {
		s.StreamTime = state.NoStreamTime
	}
	if mutant.On("query-sees-the-open-transaction") {
		s.view = o.task.View()
	}
	a.read(s)
	return s.view.Err()
}
