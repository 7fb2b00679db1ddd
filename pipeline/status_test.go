package pipeline

import (
	"strings"
	"testing"
	"time"
)

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
