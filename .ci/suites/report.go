package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// budget is what a whole run may take on two cores. A run over it says so and does not fail: a machine may be busy. Each
// suite has a limit of its own, which does fail.
const budget = 45 * time.Minute

// summary is ci-summary.json.
type summary struct {
	Commit  string  `json:"commit"`
	Started string  `json:"started"`
	Suites  []row   `json:"suites"`
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Skipped int     `json:"skipped"`
	Seconds float64 `json:"seconds"`
}

type row struct {
	Suite    string           `json:"suite"`
	Ran      int              `json:"ran"`
	Passed   int              `json:"passed"`
	Failed   int              `json:"failed"`
	Skipped  int              `json:"skipped"`
	Seconds  float64          `json:"seconds"`
	Counts   map[string]int64 `json:"counts,omitempty"`
	Problems []string         `json:"problems,omitempty"`
}

// summarize adds the suites up. A problem that no test stands for (nothing ran, time was over) counts as a failure.
func summarize(commit string, started time.Time, results []result) summary {
	s := summary{Commit: commit, Started: started.UTC().Format(time.RFC3339), Suites: []row{}}
	for _, r := range results {
		t := r.tally
		failed := len(t.failed)
		if failed == 0 && len(r.problems) > 0 {
			failed = 1
		}
		s.Suites = append(s.Suites, row{
			Suite: r.suite.name, Ran: len(t.passed) + len(t.failed), Passed: len(t.passed), Failed: failed,
			Skipped: len(t.skipped), Seconds: seconds(r.took), Counts: t.counts, Problems: r.problems,
		})
		s.Passed, s.Failed, s.Skipped = s.Passed+len(t.passed), s.Failed+failed, s.Skipped+len(t.skipped)
		s.Seconds = seconds(r.took) + s.Seconds
	}
	return s
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*10) / 10 }

func (s summary) write(file string) error {
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(body, '\n'), 0o644)
}

// print writes what was counted, why skips are no loss, what failed and what it said, the table, and the closing line that any CI
// can read. A reader who has the end of the output alone has all of that.
func (s summary) print(w io.Writer, results []result) {
	for _, r := range s.Suites {
		if len(r.Counts) > 0 {
			fmt.Fprintf(w, "counted %s: %s\n", r.Suite, ownCounts(r.Counts))
		}
	}
	for _, r := range results {
		for _, skipped := range r.tally.skipped {
			if c, ok := r.suite.covers(skipped); ok {
				fmt.Fprintf(w, "skipped %s: %s (%s runs it)\n", skipped, c.reason, c.by)
			}
		}
	}
	for _, r := range results {
		for _, f := range r.tally.failed {
			fmt.Fprintf(w, "FAILED  %s: %s\n", r.suite.name, f)
			for _, said := range r.tally.said[f] {
				fmt.Fprintf(w, "        %s\n", said)
			}
		}
		for _, p := range r.problems {
			fmt.Fprintf(w, "PROBLEM %s: %s\n", r.suite.name, p)
		}
	}
	fmt.Fprintf(w, "\n%-12s %6s %7s %7s %8s\n", "suite", "ran", "failed", "skipped", "minutes")
	for _, r := range s.Suites {
		fmt.Fprintf(w, "%-12s %6d %7d %7d %8.1f\n", r.Suite, r.Ran, r.Failed, r.Skipped, r.Seconds/60)
	}
	fmt.Fprintf(w, "%-12s %6s %7s %7s %8.1f", "total", "", "", "", s.Seconds/60)
	if over := s.Seconds - budget.Seconds(); over > 0 {
		fmt.Fprintf(w, "  over the budget of %s by %.1f: take work out of the slowest suite", budget, over/60)
	}
	fmt.Fprint(w, "\n\n")
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", s.Passed, s.Failed, s.Skipped)
}

func ownCounts(counts map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
