package worlds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/evidence"
)

// tallied are the counts of the summary's table, in its order.
var tallied = []string{
	"events", "aborted upstream transactions", "commits", "aborts", "(false, nil)", "deadlines", "refused records", "rebuilds", "unknown outcomes",
	"assigned tasks", "interrupted restores", "restores ended by proof", "warm restores", "lost tasks", "tokens lost in a transaction", "fenced ids",
	"answers with a late marker", "stops amid a commit", "restarts by the supervisor", "members evicted by hand", "violations", Longest,
}

// Summary is what worlds of one engine and one judge came to, as Markdown. It refuses a mixture, and a world that is there twice.
func Summary(worlds []World) (string, error) {
	under, err := evidence.Same(worlds, func(w World) evidence.Under { return w.Under })
	if err != nil {
		return "", err
	}
	if err := once(worlds); err != nil {
		return "", err
	}
	jobs := map[string]*Total{}
	commits := map[string]bool{}
	for _, w := range worlds {
		if jobs[w.Job] == nil {
			jobs[w.Job] = &Total{}
		}
		jobs[w.Job].Add(w)
		commits[w.Commit] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (commit %s), %s of wall time, %.1f worlds a second.\n\n", under.Words(), strings.Join(slices.Sorted(maps.Keys(commits)), ", "),
		wall(worlds).Round(time.Second), float64(len(worlds))/max(1, wall(worlds).Seconds()))
	b.WriteString(anomalies(worlds))
	names := slices.Sorted(maps.Keys(jobs))
	b.WriteString(header("", names))
	b.WriteString(row("worlds", names, func(job string) string { return fmt.Sprint(jobs[job].Worlds()) }))
	b.WriteString(row("seeds", names, func(job string) string { return seeds(worlds, job) }))
	b.WriteString(row("simulated hours", names, func(job string) string { return fmt.Sprintf("%.1f", float64(jobs[job].Count(Simulated))/3600) }))
	for _, count := range tallied {
		b.WriteString(row(count, names, func(job string) string { return fmt.Sprint(jobs[job].Count(count)) }))
	}
	b.WriteString("\n" + header("fault", names))
	for _, kind := range kinds(worlds) {
		b.WriteString(row(kind, names, func(job string) string { return fmt.Sprint(jobs[job].Fault(kind)) }))
	}
	return b.String(), nil
}

// once refuses worlds of which one would be counted twice.
func once(worlds []World) error {
	have := map[key]bool{}
	for _, w := range worlds {
		k := key{w.Job, w.Seed}
		if have[k] {
			return fmt.Errorf("%s seed %d is there twice: name each file once, and files that share no seed", jobName(w.Job), w.Seed)
		}
		have[k] = true
	}
	return nil
}

// anomalies says how many worlds were not clean, and which.
func anomalies(worlds []World) string {
	var bad []string
	for _, w := range worlds {
		if len(w.Problems) > 0 {
			bad = append(bad, fmt.Sprintf("- %s seed %d: %s\n", jobName(w.Job), w.Seed, w.Problems[0]))
		}
	}
	return fmt.Sprintf("Anomalies: %d.\n%s\n", len(bad), strings.Join(bad, ""))
}

func jobName(job string) string {
	if job == "" {
		return "ledger"
	}
	return job
}

func header(first string, jobs []string) string {
	rule := "|---"
	for range jobs {
		rule += "|--:"
	}
	return row(first, jobs, jobName) + rule + "|\n"
}

func row(name string, jobs []string, cell func(job string) string) string {
	line := "| " + name
	for _, job := range jobs {
		line += " | " + cell(job)
	}
	return line + " |\n"
}

// seeds are those of a job, as ranges.
func seeds(worlds []World, job string) string {
	have := map[uint64]bool{}
	for _, w := range worlds {
		if w.Job == job {
			have[w.Seed] = true
		}
	}
	var ranges []string
	all := slices.Sorted(maps.Keys(have))
	for i := 0; i < len(all); {
		first := i
		for i++; i < len(all) && all[i] == all[i-1]+1; i++ {
		}
		ranges = append(ranges, span(all[first], all[i-1]))
	}
	return strings.Join(ranges, ", ")
}

func span(first, last uint64) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d–%d", first, last)
}

func kinds(worlds []World) []string {
	found := map[string]bool{}
	for _, w := range worlds {
		for kind := range w.Faults {
			found[kind] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// wall is the time in which at least one world lived.
func wall(worlds []World) (total time.Duration) {
	byStart := slices.SortedFunc(slices.Values(worlds), func(a, b World) int { return a.Began.Compare(b.Began) })
	var until time.Time
	for _, w := range byStart {
		end := w.Began.Add(w.Took)
		if !end.After(until) {
			continue
		}
		if w.Began.After(until) {
			until = w.Began
		}
		total += end.Sub(until)
		until = end
	}
	return total
}
