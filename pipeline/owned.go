package pipeline

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
)

// ownedTask is a task that a worker owns, from its restore to the end of its token.
type ownedTask struct {
	id          TaskID
	stage       *Stage
	input       session.TopicPartition
	token       *session.Token
	lease       *lease
	task        *Task
	start       int64 // first offset to fetch
	fresh       bool  // start is not committed with a marker yet: that comes before the first record
	queue       []*kgo.Record
	stopped     error
	refusals    int // transactions in a row that aborted for this task's records
	lastRefusal error
	end         int64 // high watermark of the input as last fetched
	first       int64 // the first polled record that is not committed, -1 if none
	again       int64 // the record that must come again after a rewind, -1 if none
}

func (o *ownedTask) runs() bool { return o.stopped == nil && !o.fresh && o.token.Live() }

func (o *ownedTask) touched() bool { return o.task != nil && o.task.Touched() }

// refusal is the broker's refusal of what one input produced.
type refusal struct {
	times int
	err   error
}

func (o *ownedTask) refusalOf(offset int64) *refusal {
	if o.lease.refused[offset] == nil {
		o.lease.refused[offset] = &refusal{}
	}
	return o.lease.refused[offset]
}

func (o *ownedTask) settleRefusals() {
	for offset := range o.lease.refused {
		if offset < o.task.committedNext(o.input.Topic) {
			delete(o.lease.refused, offset)
		}
	}
}
