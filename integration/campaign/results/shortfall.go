package results

import (
	"fmt"
	"slices"
	"strings"
)

// What a whole campaign must have done.
const (
	leastOfKind  = 20  // faults of each kind that met something
	mostLongOnes = 5.0 // of a hundred faults
	longKind     = "stop-60s"
)

// Shortfall says what a log lacks to be a whole campaign, nil when nothing.
func Shortfall(l Log) error {
	faults := l.Judged()
	met, rare := metSomething(faults), []string{}
	for _, k := range Kinds() {
		if met[k] < leastOfKind {
			rare = append(rare, fmt.Sprintf("%s %d", k, met[k]))
		}
	}
	var lacks []string
	if len(rare) > 0 {
		lacks = append(lacks, fmt.Sprintf("fewer than %d that met something of the kinds %s", leastOfKind, strings.Join(rare, ", ")))
	}
	if share := longShare(faults); share > mostLongOnes {
		lacks = append(lacks, fmt.Sprintf("%.1f %% of the faults are stops of 60 s, of at most %.0f %%", share, mostLongOnes))
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("this is no whole campaign: %s: run more faults (make campaign FAULTS=), or ask for the table alone (PARTIAL=1)", strings.Join(lacks, "; "))
}

// metSomething counts faults by kind, without those that were missed.
func metSomething(faults []Fault) map[string]int {
	n := map[string]int{}
	for _, f := range faults {
		if f.Verdict != Missed {
			n[f.Kind]++
		}
	}
	return n
}

// fewest is how many faults there are of the kind that has met least.
func fewest(faults []Fault) int {
	met := metSomething(faults)
	var n []int
	for _, k := range Kinds() {
		n = append(n, met[k])
	}
	return slices.Min(n)
}

// longShare is how many of a hundred faults are of the kind that lasts.
func longShare(faults []Fault) float64 {
	return 100 * float64(len(byKind(faults)[longKind])) / float64(max(1, len(faults)))
}
