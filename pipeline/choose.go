package pipeline

import (
	"math"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
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
		if head < lowest && !(mutant.On("inputs-by-declaration") && best >= 0) {
			best, lowest = i, head
		}
	}
	return best
}

// How much an input may hold of what is polled while its task waits for another: it is then not fetched.
const (
	maxQueued      = 2 * maxPoll // records
	maxQueuedBytes = 32 << 20    // of keys and values
)

// fills reports whether the queue is at least 1/part of what it may hold.
func (in *ownedInput) fills(part int) bool {
	if len(in.queue) >= maxQueued/part {
		return true
	}
	bytes := 0
	for _, r := range in.queue {
		if bytes += len(r.Key) + len(r.Value); bytes >= maxQueuedBytes/part {
			return true
		}
	}
	return false
}

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

// choose returns the input whose head the task takes next; nil when nothing is polled, or when it waits for an input.
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

// fetchPatience is how long a task waits for what the broker has of an input and the client does not get: its leader is away.
// It is a bound because one end cannot be read up to: a compacted log whose last batch holds no record any more.
const fetchPatience = 30 * time.Second

// waits reports whether the task waits for an input of which nothing is polled: for what the broker has of it, and then
// max.task.idle.ms for what producers may yet send (KIP-695). Once the wait is over the task goes on until all inputs have come,
// or are caught up: else each record would wait anew.
func (w *worker) waits(o *ownedTask) bool {
	limit := w.patienceOf(o)
	if limit <= 0 {
		o.waitsSince, o.saidWait = time.Time{}, false
		return false
	}
	if o.waitsSince.IsZero() {
		o.waitsSince = w.p.now()
	}
	waits := w.p.now().Sub(o.waitsSince) < limit
	if _, lags := o.lacks(); lags && !waits && !o.saidWait {
		o.saidWait = true
		w.p.cfg.Logger.Warn("an input that has more cannot be fetched: the task goes on without it, so not in the order of record time", "app", w.p.pipe.app, "task", o.id.String(), "wait", limit)
	}
	return waits
}

// patienceOf returns how long the task may wait for the inputs of which nothing is polled now.
func (w *worker) patienceOf(o *ownedTask) time.Duration {
	idle := w.p.cfg.MaxTaskIdle
	lacks, lags := o.lacks()
	switch {
	case idle < 0 || !lacks:
		return 0
	case lags:
		return max(idle, fetchPatience)
	}
	return idle
}

// lacks reports whether there is an input of which nothing is polled, and whether the broker has more of such a one.
func (o *ownedTask) lacks() (lacks, lags bool) {
	for i := range o.inputs {
		if in := &o.inputs[i]; len(in.queue) == 0 {
			lacks = true
			lags = lags || o.task.Next(in.Topic) < in.stable && !mutant.On("lagging-input-not-waited-for")
		}
	}
	return lacks, lags
}

// waitsUntil returns when the first task that waits for an input goes on without it; zero when none waits.
func (w *worker) waitsUntil() (first time.Time) {
	for _, o := range w.tasks {
		if o.waitsSince.IsZero() || !o.runs() {
			continue
		}
		until := o.waitsSince.Add(w.patienceOf(o))
		if until.After(w.p.now()) && (first.IsZero() || until.Before(first)) {
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
			case !in.held && in.fills(1):
				in.held = true
				w.sess.Pause(in.TopicPartition)
			case in.held && !in.fills(2):
				in.held = false
				w.sess.Resume(in.TopicPartition)
			}
		}
	}
}
