package pipeline

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/session"
)

// ownedTask is a task that a worker owns, from its restore to the end of its token.
type ownedTask struct {
	id          TaskID
	stage       *Stage
	inputs      []ownedInput // by order of declaration; those that were given, when some are missing
	token       *session.Token
	lease       *lease
	task        *Task
	fresh       bool // a start is not committed with a marker yet: that comes before the first record
	stopped     error
	refusals    int // transactions in a row that aborted for this task's records
	lastRefusal error
	waitsSince  time.Time // when it began to wait for an input of which nothing is polled; zero: it does not
	saidWait    bool      // that the wait was given up
}

// ownedInput is a task's partition of one input.
type ownedInput struct {
	session.TopicPartition
	place  int   // in the order of declaration
	start  int64 // first offset to fetch
	queue  []*kgo.Record
	end    int64 // high watermark as last fetched, -1 unknown
	stable int64 // last stable offset as last fetched: what can be read ends there
	first  int64 // the first polled record that is not committed, -1 if none
	again  int64 // the record that must come again after a rewind, -1 if none
	held   bool  // it is not fetched, because its queue is long while another input is waited for
}

// own returns the task of an assignment, before its restore.
func own(s *Stage, a *session.Assignment) *ownedTask {
	o := &ownedTask{id: a.Task, stage: s, token: a.Token}
	for _, in := range a.Inputs {
		o.inputs = append(o.inputs, ownedInput{TopicPartition: in.TopicPartition, place: s.input(in.Topic), start: in.Committed.Next, end: -1, first: -1, again: -1})
	}
	slices.SortFunc(o.inputs, func(x, y ownedInput) int { return x.place - y.place })
	return o
}

func (o *ownedTask) runs() bool { return o.stopped == nil && !o.fresh && o.token.Live() }

func (o *ownedTask) touched() bool { return o.task != nil && o.task.Touched() }

// partitions returns the task's inputs as the client names them.
func (o *ownedTask) partitions() []session.TopicPartition {
	tps := make([]session.TopicPartition, len(o.inputs))
	for i := range o.inputs {
		tps[i] = o.inputs[i].TopicPartition
	}
	return tps
}

// starts returns the first offset to fetch of each input, by topic.
func (o *ownedTask) starts() map[string]int64 {
	starts := map[string]int64{}
	for i := range o.inputs {
		starts[o.inputs[i].Topic] = o.inputs[i].start
	}
	return starts
}

// committed says that what was taken from the queue has been committed.
func (in *ownedInput) committed() {
	in.first = -1
	if len(in.queue) > 0 {
		in.first = in.queue[0].Offset
	}
}

// discard voids what was polled and not committed: it comes again.
func (in *ownedInput) discard() {
	if !mutant.On("rewind-keeps-what-was-polled") {
		in.queue = nil
	}
	if in.first >= 0 {
		in.again, in.first = in.first, -1
	}
}

// inputOffset names an input record of a task.
type inputOffset struct {
	place  int // of the input, in the order of declaration
	offset int64
}

// refusal is the broker's refusal of what one input record produced.
type refusal struct {
	times int
	err   error
}

func (o *ownedTask) refusalOf(at inputOffset) *refusal {
	if o.lease.refused[at] == nil {
		o.lease.refused[at] = &refusal{}
	}
	return o.lease.refused[at]
}

func (o *ownedTask) settleRefusals() {
	for at := range o.lease.refused {
		if at.offset < o.task.committedNext(o.stage.inputs[at.place].topic) {
			delete(o.lease.refused, at)
		}
	}
}
