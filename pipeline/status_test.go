package pipeline

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Unknown is never a number: a script would take -1 for one.
func TestStatusHasNoNumberForWhatIsUnknown(t *testing.T) {
	end := int64(7)
	known, unknown := InputStatus{Topic: "a", AppliedNext: 5, EndNext: &end}, InputStatus{Topic: "b", AppliedNext: 3}
	if applied, sum := sum([]InputStatus{known, known}); applied != 10 || sum == nil || *sum != 14 {
		t.Errorf("%d, %v", applied, sum)
	}
	for _, inputs := range [][]InputStatus{nil, {known, unknown}, {unknown, known}} {
		if _, sum := sum(inputs); sum != nil {
			t.Errorf("%v end at %d", inputs, *sum)
		}
	}
	b := newBoard()
	b.task(TaskID{Stage: "s"}, func(*TaskStatus) {})
	b.worker(0, func(*WorkerStatus) {})
	workers, tasks := b.snapshot()
	text, err := json.Marshal(Status{Workers: workers, Tasks: tasks})
	if err != nil || !strings.Contains(string(text), `"end_next":null`) || strings.Contains(string(text), "-1") || strings.Contains(string(text), "last_commit") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestProgressOfARestoreIsSaidInWords(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		r     RestoreProgress
		after time.Duration
		want  string
	}{
		{RestoreProgress{From: 0, Next: 0, Target: 100}, time.Second, "0 records, 0% (offset 0 of 100), time left unknown"},
		{RestoreProgress{From: 0, Next: 25, Target: 100, Records: 20, Moved: began.Add(time.Second)}, time.Second, "20 records, 25% (offset 25 of 100), about 3s left"},
		{RestoreProgress{From: 50, Next: 75, Target: 100, Records: 20, Moved: began.Add(time.Second)}, time.Second, "50% (offset 75 of 100), about 1s left"},
		{RestoreProgress{From: 0, Next: 25, Target: 100, Moved: began.Add(time.Second)}, 13 * time.Second, "nothing came for 12s: the log says what holds it up"},
		{RestoreProgress{From: 100, Next: 100, Target: 100}, 0, "100%"},
	} {
		c.r.Began = began
		if c.r.Moved.IsZero() {
			c.r.Moved = began
		}
		if got := c.r.at(began.Add(c.after)).String(); !strings.Contains(got, c.want) {
			t.Errorf("%+v after %s: %q, want %q", c.r, c.after, got, c.want)
		}
	}
}
