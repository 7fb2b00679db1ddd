package pipeline

import (
	"math"
	"time"
)

// The heads of two kinds of input that have no record time.
const (
	// NoHead is the head of an input of which nothing is polled.
	NoHead int64 = math.MaxInt64
	// PassHead is the head of an input that is to be passed over: it holds no record, so nothing is waited for.
	PassHead int64 = math.MinInt64
)

// Choose returns which input a task takes its next record from: heads holds, by order of declaration, the record time in ms of
// the first unprocessed record of each input, or NoHead. The lowest time wins, of equal ones the input declared first. It
// returns -1 when there is none.
func Choose(heads []int64) int {
	best, lowest := -1, NoHead
	for i, head := range heads {
		if head < lowest {
			best, lowest = i, head
		}
	}
	return best
}

// maxQueued is how many polled records an input may hold while its task waits for another: it is then not fetched.
const maxQueued = 2 * maxPoll

// head is the record time of the input's first polled record.
func (in *ownedInput) head() int64 {
	switch {
	case len(in.queue) == 0:
		return NoHead
	case in.queue[0].Attrs.IsControl():
		return PassHead
	}
	return in.queue[0].Timestamp.UnixMilli()
}

// choose returns the input whose head the task takes next; nil when nothing is polled, or when it waits for an input that is
// not caught up.
func (w *worker) choose(o *ownedTask) *ownedInput {
	if len(o.inputs) == 1 {
		if len(o.inputs[0].queue) == 0 {
			return nil
		}
		return &o.inputs[0]
	}
	w.heads = w.heads[:0]
	for i := range o.inputs {
		w.heads = append(w.heads, o.inputs[i].head())
	}
	i := Choose(w.heads)
	if i < 0 || w.heads[i] != PassHead && w.waits(o) {
		return nil
	}
	return &o.inputs[i]
}

// waits reports whether the task waits, max.task.idle.ms at most, for an input of which nothing is polled although the broker
// has more. Once that has passed it goes on until all inputs have come, or are caught up: else each record would wait anew.
func (w *worker) waits(o *ownedTask) bool {
	if w.p.cfg.MaxTaskIdle <= 0 {
		return false
	}
	if !o.lags() {
		o.waitsSince = time.Time{}
		return false
	}
	if o.waitsSince.IsZero() {
		o.waitsSince = w.p.now()
	}
	return w.p.now().Sub(o.waitsSince) < w.p.cfg.MaxTaskIdle
}

// lags reports whether an input of which nothing is polled is not caught up.
func (o *ownedTask) lags() bool {
	for i := range o.inputs {
		if in := &o.inputs[i]; len(in.queue) == 0 && o.task.Next(in.Topic) < in.stable {
			return true
		}
	}
	return false
}

// waitsUntil returns when the first task that waits for an input goes on without it; zero when none waits.
func (w *worker) waitsUntil() (first time.Time) {
	for _, o := range w.tasks {
		if o.waitsSince.IsZero() || !o.runs() {
			continue
		}
		if until := o.waitsSince.Add(w.p.cfg.MaxTaskIdle); first.IsZero() || until.Before(first) {
			first = until
		}
	}
	return first
}

// hold bounds what a task that waits keeps in memory: an input whose queue is long is not fetched until it has been used up.
func (w *worker) hold() {
	for _, o := range w.tasks {
		if len(o.inputs) == 1 || !o.runs() {
			continue
		}
		for i := range o.inputs {
			switch in := &o.inputs[i]; {
			case !in.held && len(in.queue) >= maxQueued:
				in.held = true
				w.sess.Pause(in.TopicPartition)
			case in.held && len(in.queue) < maxQueued/2:
				in.held = false
				w.sess.Resume(in.TopicPartition)
			}
		}
	}
}
