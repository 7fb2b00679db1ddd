package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/record"
)

// begin opens a transaction if none is open.
func (w *worker) begin(ctx context.Context) error {
	if w.sess.InTransaction() {
		return nil
	}
	if gap := w.lastCommit.Add(commitGap).Sub(w.p.now()); gap > 0 {
		pause(ctx, gap)
	}
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	if err := w.sess.Begin(ctx); err != nil {
		return err
	}
	w.txn.reset(w.p.now())
	w.undecided = true
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// process runs the queued records task by task until they are used up or a commit is due.
func (w *worker) process(ctx context.Context) error {
	clock := w.p.now().UnixMilli()
	for _, o := range w.tasks {
		for n := 1; o.runs(); n++ {
			in := w.choose(o)
			if in == nil {
				break
			}
			if n%checkEvery == 0 {
				clock = w.p.now().UnixMilli()
				if w.commitDue(ctx) {
					return nil
				}
			}
			if w.mustBeAlone(o, in) {
				w.commitNow = true
				return nil
			}
			if err := w.one(ctx, o, in, clock); err != nil {
				return err
			}
			if w.commitNow {
				return nil
			}
		}
		for i := range o.inputs {
			if in := &o.inputs[i]; len(in.queue) == 0 {
				in.queue = nil // lets go of the fetched batch
			}
		}
	}
	return nil
}

// one processes the head of an input's queue.
func (w *worker) one(ctx context.Context, o *ownedTask, in *ownedInput, clock int64) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	r := in.queue[0]
	in.queue = in.queue[1:]
	w.txn.inputs++
	if r.Attrs.IsControl() {
		if !mutant.On("control-records-not-counted") {
			o.task.Pass(r.Topic, r.Offset)
		}
		return nil
	}
	w.fill(r, clock)
	source := inputOffset{in.place, r.Offset}
	refused := o.lease.refused[source]
	if refused != nil && refused.times > 1 {
		w.input.Refused = refused.err
	}
	outs, err := o.task.Process(&w.input)
	var order *OrderError
	switch {
	case errors.As(err, &order): // the client's position is wrong, not the record: start over from the committed one
		v := &ViolationError{"I5", o.id, err}
		w.violated(o.id, v)
		return v
	case err != nil:
		return w.stop(ctx, o, err)
	}
	for i := range outs {
		w.produce(o, source, &outs[i])
	}
	w.commitNow = refused != nil || o.task.view.NewIDs() >= w.p.maxIDs && !mutant.On("ids-without-bound") || w.txn.full()
	return nil
}

// mustBeAlone reports whether the next record's output was refused before and others share the open transaction with it.
func (w *worker) mustBeAlone(o *ownedTask, in *ownedInput) bool {
	return len(o.lease.refused) > 0 && !mutant.On("refused-record-not-alone") && o.lease.refused[inputOffset{in.place, in.queue[0].Offset}] != nil && w.sess.InTransaction() && w.txn.inputs > 0
}

// fill makes the reused input of a fetched record. Headers have the same layout in both libraries, but not the same type.
func (w *worker) fill(r *kgo.Record, clock int64) {
	headers := w.input.Headers[:0]
	for _, h := range r.Headers {
		headers = append(headers, record.Header{Key: h.Key, Value: h.Value})
	}
	w.input = Input{
		Position: record.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset},
		Key:      r.Key, Value: r.Value, Headers: headers, Timestamp: r.Timestamp.UnixMilli(), Clock: clock,
	}
}

func (w *worker) produce(o *ownedTask, source inputOffset, out *Out) {
	if out.fired && !mutant.On("timer-blames-its-record") {
		source.place = stateRecord
	}
	r := w.txn.add(o, source)
	*r = kgo.Record{Topic: out.Topic, Partition: out.Partition, Key: out.Key, Value: out.Value}
	if out.Timestamp != WhenWritten {
		r.Timestamp = time.UnixMilli(out.Timestamp)
	}
	for _, h := range out.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	w.txn.outputs++
	w.txn.bytes += int64(len(out.Key) + len(out.Value))
	w.sess.Produce(r)
}

// commitDue reports whether the open transaction should end now.
func (w *worker) commitDue(ctx context.Context) bool {
	if !w.sess.InTransaction() {
		return false
	}
	since := w.p.now().Sub(w.lastCommit)
	return w.commitNow || w.txn.full() || ctx.Err() != nil || w.sess.Blocked() && !mutant.On("rebalance-waits") || // the next owner's restore waits for our open records
		since >= w.p.cfg.CommitInterval ||
		w.p.now().Sub(w.txn.began) >= w.p.cfg.TransactionTimeout/2 ||
		since >= idleCommits*w.averageEnd && !w.queued() && w.sess.Drained()
}
