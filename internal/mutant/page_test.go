package mutant

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	page  = "../../docs/verification.md"
	begin = "<!-- mutants: begin -->\n"
	end   = "<!-- mutants: end -->\n"
)

// pageTable is what the page says of the mutants. Seed and time are a run's: `make mutants` prints them.
func pageTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d mutants.\n\n| mutant: the engine … | verdict | test |\n| --- | --- | --- |\n", len(sabotages()))
	all := sabotages()
	slices.SortFunc(all, func(x, y sabotage) int { return strings.Compare(x.mutant, y.mutant) })
	for _, s := range all {
		verdict := strings.Join(s.catcher.verdicts, ", ")
		switch {
		case s.bound:
			verdict = "too late"
		case !s.catcher.story:
			verdict = "the test's"
		}
		fmt.Fprintf(&b, "| `%s` %s | %s | `%s` (%s) |\n", s.mutant, s.does, verdict, strings.TrimPrefix(s.catcher.test, "TestScenarios/"), s.catcher.dir)
	}
	return b.String()
}

// The page holds the table of this package. UPDATE=1 writes it.
func TestPageShowsEveryMutant(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	from, to := strings.Index(text, begin), strings.Index(text, end)
	if from < 0 || to < from {
		t.Fatalf("%s has no place for the mutants: the lines %q and %q", page, begin, end)
	}
	is, want := text[from+len(begin):to], pageTable()
	if is == want {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("%s does not show the mutants as they are: UPDATE=1 go test -run TestPageShowsEveryMutant ./internal/mutant", page)
	}
	if err := os.WriteFile(page, []byte(text[:from+len(begin)]+want+text[to:]), 0o644); err != nil {
		t.Fatal(err)
	}
}
