package results

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/evidence"
)

// Summary is the table of a log as Markdown. It refuses results of more than one engine or judge: they say nothing about either.
// Several commits may have made them, which it names.
func Summary(l Log) (string, error) {
	if len(l.Rounds) == 0 {
		return "", errors.New("no results of a round that was judged: run the campaign first")
	}
	if _, err := evidence.Same(l.under(), func(u evidence.Under) evidence.Under { return u }); err != nil {
		return "", err
	}
	faults := l.Judged()
	if err := once(faults); err != nil {
		return "", err
	}
	return head(l, faults) + "\n" + table(faults), nil
}

// once refuses faults of which one would be counted twice.
func once(faults []Fault) error {
	type number struct {
		seed uint64
		n    int
	}
	have := map[number]bool{}
	for _, f := range faults {
		k := number{f.Seed, f.Number}
		if have[k] {
			return fmt.Errorf("fault %d of seed %d is there twice: name each file once, and files that share no fault", f.Number, f.Seed)
		}
		have[k] = true
	}
	return nil
}

// head says what was run and what came of it.
func head(l Log, faults []Fault) string {
	var events, aborted, commits, violated, failed, missed, combined int
	var cost time.Duration
	commitsOf, seeds := map[string]bool{}, map[string]bool{}
	for _, r := range l.Rounds {
		events, aborted, commits = events+r.Events, aborted+r.Aborted, commits+r.Commits
		commitsOf[r.Commit] = true
		if !r.Holds {
			violated++
		}
	}
	for _, f := range faults {
		cost += f.Cost
		seeds[fmt.Sprint(f.Seed)] = true
		switch f.Verdict {
		case Failed:
			failed++
		case Missed:
			missed++
		}
		if f.With != "" {
			combined++
		}
	}
	mean := cost / time.Duration(max(1, len(faults)))
	return fmt.Sprintf("%d faults in %d rounds, %d of them combined with a second one; %d histories violated, %d faults not survived, %d that met nothing. %s (commit %s), seeds %s. "+
		"%d events, %d more in transactions that the upstream aborted, %d commits. Mean cost of a fault %.1f s; %.1f %% of them stops of 60 s; at least %d of each kind met something.\n",
		len(faults), len(l.Rounds), combined, violated, failed, missed, l.Rounds[0].Words(), strings.Join(slices.Sorted(maps.Keys(commitsOf)), ", "),
		strings.Join(slices.Sorted(maps.Keys(seeds)), ", "), events, aborted, commits, mean.Seconds(),
		longShare(faults), fewest(faults))
}

func byKind(faults []Fault) map[string][]Fault {
	kinds := map[string][]Fault{}
	for _, f := range faults {
		kinds[f.Kind] = append(kinds[f.Kind], f)
	}
	return kinds
}

// table has one row a kind; times are in seconds.
func table(faults []Fault) string {
	kinds := byKind(faults)
	var b strings.Builder
	b.WriteString("| fault | n | survived | helped | failed | missed | recovery p50 | p99 | max | stood max |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		b.WriteString(row(k, kinds[k]))
	}
	b.WriteString(row("all", faults))
	return b.String()
}

func row(name string, faults []Fault) string {
	verdicts := map[string]int{}
	var recovery []time.Duration
	var stood time.Duration
	for _, f := range faults {
		verdicts[f.Verdict]++
		stood = max(stood, f.Stood)
		if f.Verdict == Survived || f.Verdict == Helped {
			recovery = append(recovery, f.Recovery)
		}
	}
	slices.Sort(recovery)
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %s | %s | %s | %.1f |\n", name, len(faults), verdicts[Survived], verdicts[Helped], verdicts[Failed], verdicts[Missed],
		quantile(recovery, 50), quantile(recovery, 99), quantile(recovery, 100), stood.Seconds())
}

// quantile is the smallest of the sorted values that so many percent do not exceed.
func quantile(sorted []time.Duration, percent int) string {
	if len(sorted) == 0 {
		return "–"
	}
	i := (len(sorted)*percent + 99) / 100
	return fmt.Sprintf("%.1f", sorted[max(0, i-1)].Seconds())
}
