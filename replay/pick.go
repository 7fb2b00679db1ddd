package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tallystick/tallystick/internal/simulation/worlds"
)

// wanted are the counts that make a world interesting. The kinds of fault come on top, and the requests that they met.
var wanted = []string{
	"aborts", "rebuilds", "unknown outcomes", "(false, nil)", "deadlines", "refused records", "assigned tasks", "interrupted restores", "restores ended by proof",
	"warm restores", "tokens lost in a transaction", "fenced ids", "answers with a late marker", "stops amid a commit", "restarts by the supervisor",
	"members evicted by hand", "violations", worlds.Longest,
}

// jobs are all jobs, as worlds.World names them.
var jobs = []string{"", "TwoInputs", "TwoHops"}

// rounds is how often pick looks for other seeds, for points that the seeds that it chose reach natively and not in a replay.
const rounds = 3

// pick chooses from worlds, which may have been lived natively, a few that reach more than half of the most that any reaches of
// each point: greedily, the world first that has most of them. Of other jobs than the ledger only the counts are points: a fault
// is the same for all. What an entry asks for in the end is a third of what its replay reached, so that a small change of the
// engine does not undo it. The points that no replay reached are returned too.
func (m *machine) pick(ctx context.Context, all []worlds.World, dir string, tell func(string)) (entries []entry, open []string, err error) {
	for _, job := range jobs {
		some := slices.DeleteFunc(slices.Clone(all), func(w worlds.World) bool { return w.Job != job || len(w.Problems) > 0 })
		points := pointsOf(job, some)
		for range rounds {
			chosen := cover(some, points)
			settled, err := m.settle(ctx, chosen, dir, tell)
			if err != nil {
				return nil, nil, err
			}
			for _, e := range settled {
				maps.DeleteFunc(points, func(name string, _ int64) bool { return e.Least[name] > 0 })
			}
			entries = append(entries, slices.DeleteFunc(settled, func(e entry) bool { return len(e.Least) == 0 })...)
			some = slices.DeleteFunc(some, func(w worlds.World) bool {
				return slices.ContainsFunc(chosen, func(e entry) bool { return e.Seed == w.Seed })
			})
		}
		for name := range points {
			open = append(open, life{Job: job}.jobName()+": "+name)
		}
	}
	return entries, open, nil
}

// settle replays what was chosen, in the schedule of a few that reaches most of its points, and lowers what it asks for.
func (m *machine) settle(ctx context.Context, chosen []entry, dir string, tell func(string)) ([]entry, error) {
	settled, errs := slices.Clone(chosen), make([]error, len(chosen))
	each(len(chosen), func(i int) {
		var best entry
		for schedule := range uint64(schedulesTried) {
			l := life{chosen[i].Job, chosen[i].Seed, 1 + schedule}
			o, err := m.clean(ctx, l, dir)
			if errs[i] = err; err != nil {
				return
			}
			if e := chosen[i].lowered(l, o.world); len(e.Least) > len(best.Least) || schedule == 0 {
				best = e
			}
			if len(best.Least) == len(chosen[i].Least) {
				break
			}
		}
		tell(fmt.Sprintf("%s: %s", best.life(), worlds.List(best.Least)))
		settled[i] = best
	})
	return settled, errors.Join(errs...)
}

// lowered is the entry of a life that asks for a third of the points that its world has reached.
func (e entry) lowered(l life, w worlds.World) entry {
	least := map[string]int64{}
	for name := range e.Least {
		if n := reached(w, name); n > 0 {
			least[name] = (n + 2) / 3
		}
	}
	return entry{l.Job, l.Seed, l.Schedule, least}
}

// clean lives a life that must not fail.
func (m *machine) clean(ctx context.Context, l life, dir string) (outcome, error) {
	o, err := m.live(ctx, l, dir)
	if err == nil && !o.passed {
		err = fmt.Errorf("%w: %s:\n%s\n%s", errCheck, l, o.problems(), exactly(l))
	}
	return o, err
}

// pointsOf are the points of a job that any of the worlds reaches, each with the least that counts as reaching it.
func pointsOf(job string, all []worlds.World) map[string]int64 {
	names := map[string]bool{}
	for _, count := range wanted {
		names[count] = true
	}
	for _, w := range all {
		for kind := range w.Faults {
			names[faultPoint+kind] = job == ""
		}
		for rule := range w.Acted {
			names[metPoint+rule] = job == ""
		}
	}
	points := map[string]int64{}
	for name, is := range names {
		most := int64(0)
		for _, w := range all {
			most = max(most, reached(w, name))
		}
		if is && most > 0 {
			points[name] = most/2 + 1
		}
	}
	return points
}

// cover chooses worlds until each point is reached by one of them, or by none of those that are left.
func cover(all []worlds.World, points map[string]int64) (entries []entry) {
	open := maps.Clone(points)
	covers := func(w worlds.World) (names []string) {
		for name, least := range open {
			if reached(w, name) >= least {
				names = append(names, name)
			}
		}
		return names
	}
	for len(open) > 0 && len(all) > 0 {
		best := slices.MaxFunc(all, func(a, b worlds.World) int { return len(covers(a)) - len(covers(b)) })
		reaches := covers(best)
		if len(reaches) == 0 {
			break
		}
		e := entry{Job: best.Job, Seed: best.Seed, Schedule: 1, Least: map[string]int64{}}
		for _, name := range reaches {
			e.Least[name] = reached(best, name)
			delete(open, name)
		}
		entries = append(entries, e)
	}
	return entries
}

// Tries of renew: first other schedules of the same world, in which the faults are the same, then other worlds.
const (
	schedulesTried = 3
	seedsTried     = 20
)

// renew finds for each entry that has lost its point a life that has it.
func (m *machine) renew(ctx context.Context, entries []entry, dir string, tell func(string)) ([]entry, error) {
	found, errs := make([]entry, len(entries)), make([]error, len(entries))
	each(len(entries), func(i int) { found[i], errs[i] = m.search(ctx, entries[i], dir, tell) })
	return found, errors.Join(errs...)
}

func (m *machine) search(ctx context.Context, e entry, dir string, tell func(string)) (entry, error) {
	for try := range uint64(schedulesTried + seedsTried) {
		l := e.life()
		if try < schedulesTried {
			l.Schedule += try
		} else {
			l.Seed, l.Schedule = l.Seed+try-schedulesTried+1, 1
		}
		o, err := m.clean(ctx, l, dir)
		if err != nil {
			return e, err
		}
		if len(e.lost(o.world)) == 0 {
			tell(fmt.Sprintf("%s: %s", l, worlds.List(e.Least)))
			return entry{l.Job, l.Seed, l.Schedule, e.Least}, nil
		}
	}
	return e, fmt.Errorf("%w: no life near %s reaches %s: lower it in the corpus, or pick anew", errCheck, e.life(), worlds.List(e.Least))
}
