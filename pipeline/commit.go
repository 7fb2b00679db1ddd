package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

// sealed is what one task adds to the commit.
type sealed struct {
	owner  *ownedTask
	state  state.Sealed
	marker *kgo.Record // its offset is known once it is written
}

// maxRefusals is how many transactions of a task in a row may abort because records were refused before the task stops.
const maxRefusals = 3

// commit ends the open transaction and reports whether it committed. An error means that the session must be rebuilt.
//
// Order matters: state records and markers, flush, produce errors, offsets, end. Only a proven commit merges.
func (w *worker) commit(ctx context.Context) (bool, error) {
	w.commitNow = false
	began := w.p.now()
	seals, err := w.seal()
	if err != nil {
		return false, w.abort(ctx, err)
	}
	info := w.describe(seals)
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	if mutant.On("merge-before-commit") {
		_ = w.merge(seals)
	}
	if mutant.On("purge-above-committed") {
		w.purgeCommitted(seals)
	}
	out := w.sess.Commit(ctx, offsets(seals), func() {
		if f := w.p.cfg.Events.Produced; f != nil {
			f(info)
		}
	})
	info.Duration = w.p.now().Sub(began)
	w.ended(info.Duration)
	switch out.Result {
	case session.Committed:
		return true, w.committed(seals, info)
	case session.Aborted:
		return false, w.aborted(ctx, info, out)
	default:
		w.blame(out.Failures)
		return false, fmt.Errorf("the outcome of the commit is unknown: %w", out.Err)
	}
}

// bounded gives the end of a transaction a deadline of its own: a shutdown does not cut it off, but shortens it. A commit waits
// for a join that is under way, so the bound is longer than a rebalance may take.
func (w *worker) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.p.cfg.TransactionTimeout)
	stop := context.AfterFunc(ctx, func() {
		pause(end, w.p.cfg.DrainTimeout)
		cancel()
	})
	return end, func() {
		stop()
		cancel()
	}
}

// seal stages the state records of every task that took part.
func (w *worker) seal() ([]sealed, error) {
	var seals []sealed
	for _, o := range w.tasks {
		if !o.touched() {
			continue
		}
		s, err := o.task.Seal(w.sess.ID())
		if err != nil {
			w.halt(o, fmt.Errorf("task %s: %w", o.id, err))
			return nil, o.stopped
		}
		var last *kgo.Record
		for _, rec := range s.Records {
			last = w.txn.add(o, inputOffset{place: stateRecord})
			*last = kgo.Record{Topic: o.stage.StateTopic(), Partition: o.id.Partition, Key: rec.Key, Value: rec.Value}
			w.txn.bytes += int64(len(rec.Key) + len(rec.Value))
			if mutant.On("state-to-another-partition") {
				last.Partition = ByKey
			}
			if mutant.On("event-time-on-state") {
				last.Timestamp = time.UnixMilli(s.Marker.StreamTime)
			}
			if mutant.On("marker-not-written") && state.IsMarker(rec.Key) {
				continue
			}
			w.sess.Produce(last)
		}
		seals = append(seals, sealed{o, s, last})
	}
	return seals, nil
}

// offsets returns what the transaction commits: of each task that it touched all inputs, also those that it did not read, so
// that the metadata of every one of them names the task's last transaction (I2).
func offsets(seals []sealed) []session.Offset {
	list := make([]session.Offset, 0, len(seals))
	for _, s := range seals {
		m := s.state.Marker
		if mutant.On("state-without-offset") && s.owner.id.Partition == 0 {
			continue
		}
		meta := string(state.AppendMetadata(nil, state.Metadata{TxnSeq: m.TxnSeq, Digest: m.Digest}))
		for _, in := range s.owner.inputs {
			next, _ := m.NextOf(in.Topic)
			if mutant.On("offsets-of-one-input") && in.place > 0 {
				continue
			}
			list = append(list, session.Offset{TopicPartition: in.TopicPartition, Next: next, Metadata: meta, Token: s.owner.token})
		}
	}
	return list
}

func (w *worker) describe(seals []sealed) Transaction {
	info := Transaction{Worker: w.index, Inputs: w.txn.inputs, Outputs: w.txn.outputs, Records: w.txn.used, Bytes: w.txn.bytes}
	for _, s := range seals {
		info.Tasks = append(info.Tasks, s.owner.id)
	}
	return info
}

// ended keeps the average duration of a commit, which paces idle commits.
func (w *worker) ended(took time.Duration) {
	if w.averageEnd == 0 {
		w.averageEnd = took
	}
	w.averageEnd += (took - w.averageEnd) / 8
	w.lastCommit = w.p.now()
}

func (w *worker) committed(seals []sealed, info Transaction) error {
	if !mutant.On("merge-before-commit") { // else it was done before
		if err := w.merge(seals); err != nil {
			return err
		}
	}
	w.purgeCommitted(seals)
	for _, s := range seals {
		s.owner.refusals = 0
		for i := range s.owner.inputs {
			s.owner.inputs[i].committed()
		}
		s.owner.settleRefusals()
		w.publish(s.owner)
	}
	w.rebuilds, w.proven, w.undecided, w.groupError = w.rebuilds[:0], true, false, ""
	w.p.board.worker(w.index, func(s *WorkerStatus) { s.Commits++; s.LastCommit = w.lastCommit; s.LastError = "" })
	if f := w.p.cfg.Events.Committed; f != nil {
		f(info)
	}
	return nil
}

// merge applies the sealed overlays to their bases, under live tokens only: a dead one's base is restored by its next owner.
func (w *worker) merge(seals []sealed) error {
	for _, s := range seals {
		if !s.owner.token.Live() && !mutant.On("merge-for-dead-token") {
			s.owner.task.Drop()
			continue
		}
		if err := s.owner.task.Merge(s.state, s.marker.Offset+1); err != nil {
			return fmt.Errorf("task %s: merge: %w", s.owner.id, err)
		}
	}
	return nil
}

// abort ends the open transaction without a commit.
func (w *worker) abort(ctx context.Context, why error) error {
	info := w.describe(nil)
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	out := w.sess.Abort(ctx)
	if out.Result == session.Unknown {
		return fmt.Errorf("%w (while aborting: %w)", out.Err, why)
	}
	out.Err = why
	w.lastCommit = w.p.now()
	return w.aborted(ctx, info, out)
}

// aborted undoes everything since the last commit. The client's cursors are back there, so what was polled is dropped.
func (w *worker) aborted(ctx context.Context, info Transaction, out session.Outcome) error {
	w.blame(out.Failures)
	w.undecided = false
	w.rewind()
	for _, o := range w.tasks {
		if o.task != nil && !mutant.On("skip-rollback-on-abort") {
			o.task.Drop()
		}
	}
	w.p.cfg.Logger.Warn("transaction aborted", "app", w.p.pipe.app, "worker", w.index, "txn", w.sess.ID(), "records", info.Records, "reason", out.Err)
	w.p.board.worker(w.index, func(s *WorkerStatus) { s.Aborts++; s.LastError = fmt.Sprint(out.Err) })
	if f := w.p.cfg.Events.Aborted; f != nil {
		f(info, out.Err)
	}
	return w.backOff(ctx)
}

// backOff paces aborts that repeat, and stops the tasks whose records are refused again and again: nothing loops.
func (w *worker) backOff(ctx context.Context) error {
	worst := 0
	for _, o := range w.tasks {
		worst = max(worst, o.refusals)
		if o.refusals >= maxRefusals && o.stopped == nil && !mutant.On("refusals-without-end") {
			if err := w.stop(ctx, o, fmt.Errorf("task %s: %d of its transactions in a row aborted: %w", o.id, o.refusals, o.lastRefusal)); err != nil {
				return err
			}
		}
	}
	pause(ctx, time.Duration(worst)*20*time.Millisecond)
	return nil
}

// blame remembers whose records were refused, once for each transaction. An input is processed alone next, and then falls
// under the policy; a task is stopped when it goes on, whoever is to blame.
func (w *worker) blame(failures []session.Failure) {
	tasks, inputs := map[*ownedTask]bool{}, map[*refusal]bool{}
	for _, f := range failures {
		p := w.txn.source(f.Record)
		if p == nil {
			continue
		}
		o := p.owner
		o.lastRefusal = fmt.Errorf("topic %q refused a record: %w", f.Record.Topic, f.Err)
		if !tasks[o] {
			tasks[o] = true
			o.refusals++
		}
		if p.source.place == stateRecord {
			continue
		}
		if r := o.refusalOf(p.source); !inputs[r] {
			inputs[r] = true
			r.times++
			r.err = o.lastRefusal
		}
	}
}
