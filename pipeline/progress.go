package pipeline

import (
	"slices"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/state"
)

// progress is how far a task has come with one of its inputs.
type progress struct {
	next               int64 // appliedNext of the open transaction
	placement          placement
	placementCommitted placement
}

// restart returns an input's progress as of a committed marker.
func restart(m state.Marker, topic string) progress {
	next, known := m.NextOf(topic)
	p := progress{next: next}
	if known && m.TxnSeq > 1 { // the partition's first records were seen by an earlier task
		p.placement.seen = placementSample
		p.placementCommitted = p.placement
	}
	return p
}

// Next returns appliedNext of one of the stage's inputs: its first offset that the task has not processed, committed or not.
func (t *Task) Next(input string) int64 { return t.inputs[t.stage.input(input)].next }

// Pass counts an offset of one of the stage's inputs as processed that holds no record for a handler, such as a control
// record.
func (t *Task) Pass(input string, offset int64) {
	if p := &t.inputs[t.stage.input(input)]; offset >= p.next {
		t.touched, p.next = true, offset+1
	}
}

// StartAt sets the first offset of an input that has neither marker nor committed offset. It counts as processed work, so
// that the next transaction commits it.
func (t *Task) StartAt(input string, offset int64) {
	t.touched, t.inputs[t.stage.input(input)].next = true, offset
}

// committedNext returns appliedNext of an input as last committed, 0 if it never was.
func (t *Task) committedNext(input string) int64 {
	next, _ := t.committed.NextOf(input)
	return next
}

// nexts returns appliedNext of every input, for the marker (I6: a transaction that touches a task commits all its inputs). That of
// an input which the stage has no more is kept: a version that has it again goes on there, where it would else apply it twice.
func (t *Task) nexts() []state.InputNext {
	nexts := make([]state.InputNext, len(t.inputs), len(t.inputs)+len(t.gone))
	for i, in := range t.stage.inputs {
		nexts[i] = state.InputNext{Topic: in.topic, AppliedNext: t.inputs[i].next}
	}
	if mutant.On("marker-forgets-gone-inputs") {
		return nexts
	}
	return append(nexts, t.gone...)
}

// goneFrom returns what a marker holds of inputs that the stage has no more.
func (s *Stage) goneFrom(m state.Marker) (gone []state.InputNext) {
	for _, n := range m.Next {
		if !slices.ContainsFunc(s.inputs, func(in input) bool { return in.topic == n.Topic }) {
			gone = append(gone, n)
		}
	}
	return gone
}
