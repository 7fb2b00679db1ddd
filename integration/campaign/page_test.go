package campaign

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/integration/campaign/results"
)

const page = "../../docs/verification.md"

var named = regexp.MustCompile("`(Test\\w+)` \\(([\\w/]+)\\)")

// What the page says of a fault is what the campaign expects of it, and the tests that it names for other faults are there.
func TestThePageHasEveryKindAndEveryTestThatItNames(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		if row := fmt.Sprintf("| %s | %s |\n", k.name, k.expect); !strings.Contains(string(text), row) {
			t.Errorf("docs/verification.md has no row\n%s", row)
		}
	}
	tests := named.FindAllStringSubmatch(string(text), -1)
	for _, m := range tests {
		if !defined(t, m[2], m[1]) {
			t.Errorf("docs/verification.md names %s, which is not in %s", m[1], m[2])
		}
	}
	if len(tests) == 0 {
		t.Error("docs/verification.md names no test for what the campaign does not do")
	}
}

// The summary, which cannot import a test, asks for enough of each kind by a list of its own.
func TestTheSummaryKnowsEveryKind(t *testing.T) {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	if !slices.Equal(names, results.Kinds()) {
		t.Errorf("results.Kinds has\n%v\nthe bag holds\n%v", results.Kinds(), names)
	}
}

func defined(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+test+"(") {
			return true
		}
	}
	return false
}

func TestAFaultOfASeedIsAlwaysTheSame(t *testing.T) {
	seen := map[string]int{}
	bag := len(bagOf(kinds()))
	for n := range bag {
		a, b := planOf(kinds(), 7, n), planOf(kinds(), 7, n)
		if a.kind.name != b.kind.name || (a.with == nil) != (b.with == nil) || a.rng.Uint64() != b.rng.Uint64() {
			t.Errorf("fault %d is %s once and %s then", n, a.kind.name, b.kind.name)
		}
		seen[a.kind.name]++
	}
	for _, k := range kinds() {
		if seen[k.name] != k.weight {
			t.Errorf("%s comes %d times in a bag of %d, want %d", k.name, seen[k.name], bag, k.weight)
		}
	}
}

func TestARunThatMeetsNothingIsNoRun(t *testing.T) {
	kinds := []kind{{name: "kill", weight: 2}, {name: "twin", weight: 1}}
	var all []results.Fault
	for range 10 {
		for _, k := range bagOf(kinds) {
			all = append(all, results.Fault{Kind: k.name, Verdict: results.Survived})
		}
	}
	if short := tooFew(kinds, all); len(short) > 0 {
		t.Errorf("a run that met everything: %v", short)
	}
	all[2].Verdict = results.Missed
	if short := tooFew(kinds, all); len(short) > 0 {
		t.Errorf("a run that missed one in ten: %v", short)
	}
	all[5].Verdict = results.Missed
	if short := tooFew(kinds, all); len(short) != 1 || !strings.Contains(short[0], "8 faults of kind twin") {
		t.Errorf("a run that missed two in ten of a kind: %v", short)
	}
	all = all[:3]
	if short := tooFew(kinds, all); len(short) != 1 || !strings.Contains(short[0], "0 faults of kind twin") {
		t.Errorf("a bag of which one kind missed: %v", short)
	}
	if short := tooFew(kinds, all[:2]); len(short) > 0 {
		t.Errorf("less than a bag: %v", short)
	}
}

func TestAFaultOfEachSortComesJustBeforeAnother(t *testing.T) {
	for sort, kinds := range map[string][]kind{"process": processKinds(), "network": networkKinds(), "broker": brokerKinds(), "group": groupKinds()} {
		if len(quickOnes(kinds)) == 0 {
			t.Errorf("no fault of a %s is quick", sort)
		}
	}
}

func TestARunGoesOnBehindTheHighestNumber(t *testing.T) {
	all := []results.Fault{{Number: 1}, {Number: 2}, {Number: 0}} // 0 was a long stop
	if n := (campaign{}).first(0, all); n != 3 {
		t.Errorf("a run with faults 1, 2 and 0 goes on with %d, want 3", n)
	}
}
