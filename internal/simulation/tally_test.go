//go:build synctests

package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tallystick/tallystick/pipeline"
)

// tally counts by kind what happened in a world, or in all worlds of a run.
type tally struct {
	commits, aborts, rebuilds                         atomic.Int64
	unknown, falseNil, deadlines, tokensLost, refused atomic.Int64 // causes of aborts and rebuilds
	assigned, restored, proofs, warm                  atomic.Int64
	lost, fenced, stopped, violated                   atomic.Int64
	lagged, evicted, restarts, undrained              atomic.Int64
	events, ghosts                                    atomic.Int64 // fed to stay, upstream transactions that aborted
	seconds, drain                                    atomic.Int64 // simulated; the longest drain

	mu    sync.Mutex
	kinds map[string]int64 // faults injected
	acts  map[string]int64 // rules of the network that acted
}

func (t *tally) abort(err error) {
	t.aborts.Add(1)
	t.cause(err)
}

func (t *tally) rebuild(err error) {
	t.rebuilds.Add(1)
	t.cause(err)
	if strings.Contains(err.Error(), "outcome of the commit is unknown") {
		t.unknown.Add(1)
	}
}

func (t *tally) cause(err error) {
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "neither success nor error"):
		t.falseNil.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		t.deadlines.Add(1)
	case strings.Contains(err.Error(), "a task of the transaction was lost"):
		t.tokensLost.Add(1)
	case strings.Contains(err.Error(), "was not written"):
		t.refused.Add(1)
	}
}

func (t *tally) restore(r pipeline.Restore) {
	t.restored.Add(1)
	if r.ByProof {
		t.proofs.Add(1)
	}
	if r.Warm {
		t.warm.Add(1)
	}
}

func (t *tally) fault(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds, t.acts = map[string]int64{}, map[string]int64{}
	}
	t.kinds[kind]++
}

func (t *tally) acted(hits map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.acts == nil {
		t.kinds, t.acts = map[string]int64{}, map[string]int64{}
	}
	for k, n := range hits {
		t.acts[k] += int64(n)
	}
}

// counters lists the numbers by name.
func (t *tally) counters() map[string]int64 {
	m := map[string]int64{}
	for name, n := range map[string]*atomic.Int64{
		"commits":                       &t.commits,
		"aborts":                        &t.aborts,
		"rebuilds":                      &t.rebuilds,
		"unknown outcomes":              &t.unknown,
		"(false, nil)":                  &t.falseNil,
		"deadlines":                     &t.deadlines,
		"tokens lost in a transaction":  &t.tokensLost,
		"refused records":               &t.refused,
		"assigned tasks":                &t.assigned,
		"restored tasks":                &t.restored,
		"restores ended by proof":       &t.proofs,
		"warm restores":                 &t.warm,
		"lost tasks":                    &t.lost,
		"stopped tasks":                 &t.stopped,
		"fenced ids":                    &t.fenced,
		"violations":                    &t.violated,
		"answers with a late marker":    &t.lagged,
		"members evicted by hand":       &t.evicted,
		"restarts by the supervisor":    &t.restarts,
		"stops amid a commit":           &t.undrained,
		"events":                        &t.events,
		"aborted upstream transactions": &t.ghosts,
		"simulated seconds":             &t.seconds,
		"seconds of the longest drain":  &t.drain,
	} {
		m[name] = n.Load()
	}
	m["interrupted restores"] = t.assigned.Load() - t.restored.Load()
	return m
}

// add adds the counts of one world.
func (t *tally) add(o *tally) {
	for _, p := range []struct{ to, from *atomic.Int64 }{
		{&t.commits, &o.commits}, {&t.aborts, &o.aborts}, {&t.rebuilds, &o.rebuilds}, {&t.unknown, &o.unknown},
		{&t.falseNil, &o.falseNil}, {&t.deadlines, &o.deadlines}, {&t.tokensLost, &o.tokensLost}, {&t.refused, &o.refused},
		{&t.assigned, &o.assigned}, {&t.restored, &o.restored}, {&t.proofs, &o.proofs}, {&t.warm, &o.warm}, {&t.lost, &o.lost},
		{&t.fenced, &o.fenced}, {&t.stopped, &o.stopped}, {&t.violated, &o.violated}, {&t.lagged, &o.lagged}, {&t.evicted, &o.evicted}, {&t.restarts, &o.restarts},
		{&t.events, &o.events}, {&t.ghosts, &o.ghosts}, {&t.seconds, &o.seconds}, {&t.undrained, &o.undrained},
	} {
		p.to.Add(p.from.Load())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drain.Store(max(t.drain.Load(), o.drain.Load()))
	if t.kinds == nil {
		t.kinds, t.acts = map[string]int64{}, map[string]int64{}
	}
	for k, n := range o.kinds {
		t.kinds[k] += n
	}
	for k, n := range o.acts {
		t.acts[k] += n
	}
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("counts: %s\nfaults: %s\nacted on: %s", table(t.counters()), table(t.kinds), table(t.acts))
}

func table(m map[string]int64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// leastOf are counts below which a run of a hundred seeds has not shown what it claims: the workload no longer reaches there.
// A task that is lost within a transaction is not among them: the client holds such callbacks back until the transaction has
// ended, so only the story "dead-token" tells of it.
func leastOf() map[string]int64 {
	return map[string]int64{
		"commits": 10_000, "aborts": 8, "rebuilds": 100, "unknown outcomes": 100, "(false, nil)": 25, "deadlines": 25,
		"refused records": 10, "interrupted restores": 10, "restores ended by proof": 20,
		"warm restores": 150, "lost tasks": 500, "fenced ids": 1, "answers with a late marker": 500,
		"events": 200_000, "aborted upstream transactions": 1000,
	}
}

// leastOfPairs are those of the jobs with two inputs and with two hops.
func leastOfPairs() map[string]int64 {
	return map[string]int64{
		"commits": 5_000, "aborts": 8, "rebuilds": 100, "unknown outcomes": 50, "deadlines": 10, "interrupted restores": 10, "restores ended by proof": 10,
		"warm restores": 100, "lost tasks": 300, "answers with a late marker": 200, "events": 200_000, "aborted upstream transactions": 1000,
	}
}

// missing lists what a run of so many seeds has reached too seldom: leastOf is by a hundred seeds.
func (t *tally) missing(seeds int, leastOf map[string]int64, kinds []fault) (what []string) {
	got := t.counters()
	for name, least := range leastOf {
		if want := max(1, least*int64(seeds)/100); got[name] < want {
			what = append(what, fmt.Sprintf("%s: %d, at least %d expected", name, got[name], want))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range kinds {
		if t.kinds[f.name] == 0 {
			what = append(what, fmt.Sprintf("fault %q never happened", f.name))
		}
		if f.rule != "" && t.acts[f.rule] == 0 {
			what = append(what, fmt.Sprintf("fault %q never met a request", f.name))
		}
	}
	slices.Sort(what)
	return what
}
