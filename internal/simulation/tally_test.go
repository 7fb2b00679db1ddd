//go:build synctests

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tallystick/tallystick/internal/simulation/worlds"
	"github.com/tallystick/tallystick/pipeline"
)

// cleanRuns counts the runs of the ledger in which internal/verify found nothing, raw mode included.
const cleanRuns = "clean runs judged raw"

// tally counts by kind what happens in a world.
type tally struct {
	commits, aborts, rebuilds                         atomic.Int64
	unknown, falseNil, deadlines, tokensLost, refused atomic.Int64 // causes of aborts and rebuilds
	assigned, restored, proofs, warm                  atomic.Int64
	lost, fenced, stopped, violated                   atomic.Int64
	lagged, evicted, restarts, undrained              atomic.Int64
	events, ghosts                                    atomic.Int64 // fed to stay, upstream transactions that aborted
	seconds, drain                                    atomic.Int64 // simulated; the longest drain
	clean, judged, ended, undone                      atomic.Int64 // clean runs of the ledger; in them: inputs judged, transactions by partition that committed and aborted

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
		cleanRuns:                       &t.clean,
		"inputs judged in them":         &t.judged,
		"transactions committed there":  &t.ended,
		"transactions aborted there":    &t.undone,
		worlds.Simulated:                &t.seconds,
		worlds.Longest:                  &t.drain,
	} {
		m[name] = n.Load()
	}
	m["interrupted restores"] = t.assigned.Load() - t.restored.Load()
	return m
}

// outcome is what a world of a plan came to. The time that it took is not known to it.
func (t *tally) outcome(pl plan, problems []string) worlds.World {
	t.mu.Lock()
	defer t.mu.Unlock()
	return worlds.World{Job: string(pl.job), Seed: pl.seed, Counts: t.counters(), Faults: t.kinds, Acted: t.acts, Problems: problems}
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
func missing(t *worlds.Total, seeds int, leastOf map[string]int64, kinds []fault) (what []string) {
	for name, least := range leastOf {
		if want := max(1, least*int64(seeds)/100); t.Count(name) < want {
			what = append(what, fmt.Sprintf("%s: %d, at least %d expected", name, t.Count(name), want))
		}
	}
	for _, f := range kinds {
		if t.Fault(f.name) == 0 {
			what = append(what, fmt.Sprintf("fault %q never happened", f.name))
		}
		if f.rule != "" && t.Met(f.rule) == 0 {
			what = append(what, fmt.Sprintf("fault %q never met a request", f.name))
		}
	}
	slices.Sort(what)
	return what
}
