package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tallystick/tallystick/internal/evidence"
	"github.com/tallystick/tallystick/internal/simulation/worlds"
)

// entry is one life of the corpus, and what makes it worth living: it must reach so much of each point.
type entry struct {
	Job      string           `json:"job"`
	Seed     uint64           `json:"seed"`
	Schedule uint64           `json:"schedule"`
	Least    map[string]int64 `json:"least"` // by point, see reached
}

func (e entry) life() life { return life{e.Job, e.Seed, e.Schedule} }

const (
	faultPoint = "fault " // before a kind of fault: how often it was injected
	metPoint   = "met "   // before a rule of the network: how many requests it met
)

// reached is how much of a point a world has reached; a point without a prefix is one of its counts.
func reached(w worlds.World, point string) int64 {
	if kind, is := strings.CutPrefix(point, faultPoint); is {
		return w.Faults[kind]
	}
	if rule, is := strings.CutPrefix(point, metPoint); is {
		return w.Acted[rule]
	}
	return w.Counts[point]
}

// lost lists the points of which a world no longer reaches what makes it interesting.
func (e entry) lost(w worlds.World) (points []string) {
	for _, point := range slices.Sorted(maps.Keys(e.Least)) {
		if got := reached(w, point); got < e.Least[point] {
			points = append(points, fmt.Sprintf("%s=%d (at least %d)", point, got, e.Least[point]))
		}
	}
	return points
}

// readCorpus reads a file of entries.
func readCorpus(name string) ([]entry, error) {
	entries, err := evidence.Read[entry](name)
	if err == nil && len(entries) == 0 {
		err = fmt.Errorf("%s: no entries: make them with -pick", name)
	}
	return entries, err
}

func writeCorpus(name string, entries []entry) error {
	var text []byte
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	return os.WriteFile(name, text, 0o644)
}

// each calls f for the numbers below n, as many at once as there are processors, and returns when all have returned.
func each(n int, f func(i int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// check lives a corpus. It returns what is wrong with it, a sentence an entry.
func (m *machine) check(ctx context.Context, entries []entry, dir string, tell func(outcome)) (problems []string, err error) {
	found, errs := make([]string, len(entries)), make([]error, len(entries))
	each(len(entries), func(i int) {
		e := entries[i]
		o, err := m.live(ctx, e.life(), dir)
		if errs[i] = err; err != nil {
			return
		}
		tell(o)
		switch lost := e.lost(o.world); {
		case !o.passed:
			found[i] = fmt.Sprintf("%s FAILED: %s\n%s", e.life(), o.problems(), exactly(e.life()))
		case len(lost) > 0:
			found[i] = fmt.Sprintf("%s lost its point: %s: make replay-renew finds another life for it", e.life(), strings.Join(lost, ", "))
		}
	})
	for i := range entries {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if found[i] != "" {
			problems = append(problems, found[i])
		}
	}
	return problems, nil
}

// exactly says how to live a life again.
func exactly(l life) string {
	return fmt.Sprintf("exactly the same again: make replay SEED=%d JOB=%s SCHEDULE=%d", l.Seed, l.jobName(), l.Schedule)
}
