package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Partitions that were added are told of once, as long as they are there; what cannot be counted changes nothing.
func TestAddedPartitionsAreToldOfOnce(t *testing.T) {
	now, failure := map[string]int32{"a": 4, "b": 4}, error(nil)
	var said []GrownInput
	g := &growth{was: map[string]int32{"a": 4, "b": 4}, say: func(in GrownInput) { said = append(said, in) },
		count: func(context.Context) (map[string]int32, error) { return now, failure }}
	sees := func(want, told []GrownInput) {
		t.Helper()
		said = nil
		g.look(t.Context())
		if got := g.inputs(); !slices.Equal(got, want) || !slices.Equal(said, told) {
			t.Errorf("grown: %v, want %v; told of %v, want %v", got, want, said, told)
		}
	}
	sees(nil, nil)
	now = map[string]int32{"a": 4, "b": 6}
	b := GrownInput{"b", 4, 6}
	sees([]GrownInput{b}, []GrownInput{b})
	sees([]GrownInput{b}, nil)
	failure, now = errors.New("no broker"), nil
	sees([]GrownInput{b}, nil)
	failure, now = nil, map[string]int32{"a": 5, "b": 7}
	more := []GrownInput{{"a", 4, 5}, {"b", 4, 7}}
	sees(more, more)
	now = map[string]int32{"a": 4, "b": 3} // made anew
	sees(nil, nil)
	for _, want := range []string{"topic b has 6 partitions, and had 4 when this processor started", "stop the producers", "reset plan"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q does not say %q", b, want)
		}
	}
}

func TestPartitionsAreCountedUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		g := &growth{count: func(context.Context) (map[string]int32, error) { looks++; return nil, nil }}
		ctx, cancel := context.WithCancel(t.Context())
		go g.run(ctx)
		time.Sleep(3*growthEvery + time.Second)
		cancel()
		synctest.Wait()
		if looks != 3 {
			t.Errorf("%d looks in three periods", looks)
		}
	})
}
