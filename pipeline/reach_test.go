package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// chained is a pipeline of three stages over two hops.
func chained(t *testing.T) (p *Pipeline, first, second, third *Stage) {
	t.Helper()
	p = New("app")
	first, second, third = p.Stage("first"), p.Stage("second"), p.Stage("third")
	nothing := func(*Ctx, Record[string, string]) error { return nil }
	to2, to3 := NewRepartition(second, record.String, record.String), NewRepartition(third, record.String, record.String)
	NewOutput(first, to2)
	NewOutput(second, to3)
	Handle(first, topics.New("in", record.String, record.String), nothing)
	Handle(second, to2, nothing)
	Handle(third, to3, nothing)
	return p, first, second, third
}

// A record of the first input reaches all stages, whose windows and timers judge it; what the last one remembers comes from there, and
// is not counted again on the way.
func TestInputIsHeldAgainstEveryStageThatItReaches(t *testing.T) {
	p, first, second, third := chained(t)
	state.NewDedupe(second, "seen", 3*time.Hour)
	state.NewDedupe(third, "seen", time.Hour)
	third.Every(time.Minute, func(*Ctx, time.Time) error { return nil })
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if first.shortestWindow() != time.Hour || second.shortestWindow() != time.Hour || !first.timed() {
		t.Errorf("windows of %s and %s, timed %v: want 1h of the third stage, and its timer", first.shortestWindow(), second.shortestWindow(), first.timed())
	}
	for _, s := range []*Stage{first, second, third} {
		if got := s.origins(); !slices.Equal(got, []string{"in"}) {
			t.Errorf("stage %s: records come from %q, want the input alone", s.name, got)
		}
	}
}

// Before 1970 a boundary is below the time that it belongs to, as after it.
func TestBoundariesBefore1970(t *testing.T) {
	for ms, want := range map[int64]int64{0: 0, 9: 0, 10: 10, -1: -10, -10: -10, -11: -20} {
		if got := floor(ms, 10); got != want {
			t.Errorf("the boundary of %d is %d, want %d", ms, got, want)
		}
	}
}
