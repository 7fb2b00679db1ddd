package pipeline

import (
	"testing"
	"time"
)

// Of several inputs of which nothing is polled, one that has more is enough to wait, wherever it stands.
func TestTaskWaitsForAnyOfItsInputs(t *testing.T) {
	for lagging := range 2 {
		now := time.Unix(1000, 0)
		w, o := paired(t, 0, func() time.Time { return now })
		o.inputs = append(o.inputs, o.inputs[0])
		o.inputs[2].queue, o.inputs[lagging].stable = polled(1), 9
		if in := w.choose(o); in != nil {
			t.Errorf("input %d has more, and %s is taken", lagging, in.Topic)
		}
		if until := w.waitsUntil(); !until.Equal(now.Add(fetchPatience)) {
			t.Errorf("input %d has more: it waits until %s", lagging, until)
		}
	}
}

// A poll ends when the first of the tasks that wait goes on.
func TestPollEndsWithTheFirstWait(t *testing.T) {
	now := time.Unix(1000, 0)
	w, first := paired(t, 0, func() time.Time { return now })
	_, second := paired(t, 0, nil)
	for i, o := range []*ownedTask{first, second} {
		o.inputs[1].queue, o.inputs[0].stable = polled(1), 9
		o.waitsSince = now.Add(-time.Duration(i+1) * time.Second)
	}
	for _, tasks := range [][]*ownedTask{{first, second}, {second, first}} {
		w.tasks = tasks
		if until := w.waitsUntil(); !until.Equal(now.Add(fetchPatience - 2*time.Second)) {
			t.Errorf("until %s", until)
		}
	}
}
