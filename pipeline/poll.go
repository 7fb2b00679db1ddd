package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/topics"
)

// poll fetches, and hands each partition's records to its task under the token it has now.
func (w *worker) poll(ctx context.Context) error {
	n := maxPoll
	if w.queued() {
		n = 1
	}
	w.hold()
	fetches, rewinds := w.sess.Poll(ctx, w.patience(), n), w.rewinds
	w.admitArrivals() // a task may have become ready during the poll: its records are among these
	if err := w.pollErrors(ctx, fetches); err != nil {
		return err
	}
	if err := w.rewound(ctx); err != nil || w.rewinds != rewinds {
		return err // an abort or a revoke put the cursors back: these records come again
	}
	var fate error
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		o, in := w.find(session.TopicPartition{Topic: p.Topic, Partition: p.Partition})
		if o == nil {
			return // the right to it has ended: the next owner fetches it
		}
		in.end, in.stable = max(in.end, p.HighWatermark), max(in.stable, p.LastStableOffset)
		if mutant.On("stable-is-the-high-watermark") {
			in.stable = in.end
		}
		fate = errors.Join(fate, w.enqueue(o, in, p.Records))
	})
	return fate
}

// enqueue takes a partition's records. After a rewind the first of them must not lie behind the first that is to come again:
// the client would have gone on where it should have gone back (I5).
func (w *worker) enqueue(o *ownedTask, in *ownedInput, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	first := records[0].Offset
	if in.again >= 0 && first > in.again && !mutant.On("rewind-not-checked") {
		v := &ViolationError{"I5", o.id, fmt.Errorf("%s/%d went on at offset %d after a rewind to %d", in.Topic, in.Partition, first, in.again)}
		w.violated(o.id, v)
		return v
	}
	in.again = -1
	if in.first < 0 {
		in.first = first
	}
	in.queue = append(in.queue, records...)
	return nil
}

// rewind voids what was polled and not committed: the cursors are back at the last commit.
func (w *worker) rewind() {
	w.rewinds++
	for _, o := range w.tasks {
		o.waitsSince = time.Time{}
		for i := range o.inputs {
			o.inputs[i].discard()
		}
	}
	w.hold()
}

// rewound drops what was polled when a revoke between transactions has put the cursors back.
func (w *worker) rewound(ctx context.Context) error {
	if w.sess.InTransaction() {
		return nil
	}
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	rewound, err := w.sess.Rewound(ctx)
	if rewound {
		w.rewind()
	}
	return err
}

// find returns the task that runs on a partition, and its input; nil if there is none.
func (w *worker) find(tp session.TopicPartition) (*ownedTask, *ownedInput) {
	for _, o := range w.tasks {
		for i := range o.inputs {
			if in := &o.inputs[i]; in.TopicPartition == tp && o.runs() {
				return o, in
			}
		}
	}
	return nil, nil
}

// patience is how long a poll may wait: until the next commit is due, a task has waited long enough, or something happens.
func (w *worker) patience() time.Duration {
	if w.queued() {
		return 0
	}
	now := w.p.now()
	due := now.Add(idlePoll)
	if w.sess.InTransaction() {
		due = w.lastCommit.Add(min(w.p.cfg.CommitInterval, idleCommits*w.averageEnd))
	}
	if until := w.waitsUntil(); !until.IsZero() && until.Before(due) {
		due = until
	}
	return max(minPoll, due.Sub(now))
}

// pollErrors stops the tasks that cannot go on and returns what the session cannot survive.
func (w *worker) pollErrors(ctx context.Context, fetches kgo.Fetches) error {
	var fate error
	fetches.EachError(func(topic string, partition int32, err error) {
		var group *kgo.ErrGroupSession
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		case errors.As(err, &group):
			err = topics.Asked{Group: w.p.pipe.app}.Explain(err)
			w.sayGroupError(err)
			if session.FateOf(err) == session.Fatal || session.IsFence(err) { // another member took our name: count it, do not fight over it
				fate = err
			}
		case session.LosesInput(err):
			if o, _ := w.find(session.TopicPartition{Topic: topic, Partition: partition}); o != nil {
				fate = errors.Join(fate, w.lostInput(ctx, o, topic, err))
			}
		default:
			fate = fmt.Errorf("poll %s/%d: %w", topic, partition, topics.Asked{Right: "READ", Topic: topic}.Explain(err))
		}
	})
	return fate
}

// lostInput stops a task whose records are gone, as far as this worker knows. Of a repartition topic the task's owner deletes what
// it has committed: a worker that slept while another owned the task asks for what is gone and not lost. A new session, and the
// proof (I4), tell the one from the other.
func (w *worker) lostInput(ctx context.Context, o *ownedTask, topic string, err error) error {
	if o.stage.isRepartition(topic) && session.OutOfRange(err) {
		return fmt.Errorf("input %s/%d: %w: it was trimmed further than this worker has read: another has the task, or records are lost", topic, o.id.Partition, err)
	}
	return w.stop(ctx, o, fmt.Errorf("input %s/%d: %w: unread records are gone, or the topic was made anew: `lag` says which; to go on without unread records, %s", topic, o.id.Partition, err, skipLost))
}

// sayGroupError logs and shows why the member is out of the group, once for each reason until it is in again.
func (w *worker) sayGroupError(err error) {
	if err.Error() == w.groupError {
		return
	}
	w.groupError = err.Error()
	w.p.board.worker(w.index, func(s *WorkerStatus) { s.LastError = err.Error() })
	what := "the group turned the member away; it joins again"
	switch {
	case errors.As(err, new(*session.PiecemealError)):
		what = "the member leaves the group and joins it again"
	case session.FateOf(err) == session.Unreachable:
		what = "the group's coordinator cannot be reached; it is tried again"
	}
	w.p.cfg.Logger.Warn(what, "app", w.p.pipe.app, "worker", w.index, "err", err)
}
