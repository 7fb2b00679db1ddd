package lint

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

// The convention that ties docs/eos-boundaries.md to the tests, over all Go modules of the repository:
//
//	### G3 Outputs, state and offsets commit together          (a heading, or a bold "**G3**" that opens a line or list item)
//	…
//	test: `TestNothingIsLostOrDoubled` (internal/simulation) · sabotage: `offsets-outside`
//
// one or more such lines a guarantee; the brackets name the test's folder. The test carries the way back in its comment:
//
//	// Guarantee: G3, G5
//
// A sabotage is a mutant of the engine (mutant.On("offsets-outside") in a package of ours, switched on by a test that names it)
// or, where a test itself spoils what it then judges, a line of that test's comment:
//
//	// Sabotage: altered-cent
//
// Names go both ways: what the page names exists, and each test that exists is named on the page. Mutants are more than promises:
// internal/mutant has all of them in its table.
const boundaries = "docs/eos-boundaries.md"

var (
	opened     = regexp.MustCompile(`^(?:#+ +|(?:[-*] +)?\*\*)([GN])(\d+)\b`)
	tested     = regexp.MustCompile("^\\W*test: *`?(\\w+)`? *\\(`?([\\w./-]+)`?\\) *· *sabotage: *`?([\\w.-]+)`?")
	tried      = regexp.MustCompile(`^\W*test:`)
	guaranteed = regexp.MustCompile(`(?m)^Guarantee: *(G\d+(?:, *G\d+)*)$`)
	sabotaged  = regexp.MustCompile(`(?m)^Sabotage: *([\w.-]+)$`)
)

func TestGuaranteesAndTestsNameEachOther(t *testing.T) {
	tr := open(t)
	page, err := fs.ReadFile(tr.fsys, boundaries)
	if err != nil {
		t.Fatal(err)
	}
	report(t, guarantees(tr, string(page)))
}

func TestGuaranteesFindEachMismatch(t *testing.T) {
	tr := sketch(t,
		"session/s.go", "package session\nvar a = mutant.On(\"known\") || mutant.On(\"forgotten\") || mutant.On(\"unswitched\")\n",
		"simulation/a_test.go", "package simulation\n"+
			"// TestHeld holds.\n//\n// Guarantee: G1, G2\n// Sabotage: by-hand\nfunc TestHeld(t *testing.T) { run(\"known\") }\n"+
			"// TestUnnamed is nowhere on the page.\n//\n// Guarantee: G1\nfunc TestUnnamed(t *testing.T) {}\n"+
			"func TestUnmarked(t *testing.T) {}\n")
	page := strings.Join([]string{
		"### G1 is claimed", "- test: `TestHeld` (simulation) · sabotage: `known`", "test: TestGone (simulation) · sabotage: nothing",
		"**G2** is claimed", "test: `TestHeld` (`simulation`) · sabotage: `by-hand`", "test: `TestUnmarked` (simulation) · sabotage: `unswitched`",
		"## G4 leaves a gap and has no test", "test: something", "## N1 is not", "## Words"}, "\n")
	finds(t, guarantees(tr, page),
		"G3 is missing",
		`G4: "test: something"`,
		"G4 names no test",
		"G1: TestGone (simulation) does not exist",
		`G1: sabotage "nothing" does not exist`,
		"G2: TestUnmarked (simulation) does not carry",
		`G2: no test switches the mutant "unswitched" on`,
		"simulation/a_test.go:10: TestUnnamed carries G1",
		`no test names mutant "forgotten"`,
		`no test names mutant "unswitched"`)
}

// pair is one line of the page: a test and the sabotage that makes it fail.
type pair struct{ guarantee, test, dir, sabotage string }

// evidence is what the tree holds.
type evidence struct {
	marks     map[string]mark // by folder + " " + test
	sabotages map[string]bool // those that tests carry in their comments
	mutants   map[string]bool // those that engine code asks for
	literals  map[string]bool // the string literals of all test files
}

type mark struct {
	where string
	of    []string // the guarantees in its comment
}

func guarantees(tr *tree, page string) []string {
	pairs, problems := readPage(page)
	found := gather(tr)
	named := map[string]bool{}
	for _, p := range pairs {
		named[p.sabotage] = true
		named[p.dir+" "+p.test+" "+p.guarantee] = true
		problems = append(problems, p.unkept(found)...)
	}
	for _, key := range sorted(found.marks) {
		m := found.marks[key]
		for _, g := range m.of {
			if !named[key+" "+g] {
				problems = append(problems, fmt.Sprintf("%s: %s carries %s, which does not name it in %s", m.where, path.Base(strings.Fields(key)[1]), g, boundaries))
			}
		}
	}
	for _, m := range sorted(found.mutants) {
		if !found.literals[m] {
			problems = append(problems, fmt.Sprintf("no test names mutant %q: add it to the table of internal/mutant, with the test that catches it", m))
		}
	}
	return problems
}

func (p pair) unkept(found evidence) []string {
	var problems []string
	m, ok := found.marks[p.dir+" "+p.test]
	switch {
	case !ok:
		problems = append(problems, fmt.Sprintf("%s: %s (%s) does not exist", p.guarantee, p.test, p.dir))
	case !slices.Contains(m.of, p.guarantee):
		problems = append(problems, fmt.Sprintf("%s: %s (%s) does not carry the comment line Guarantee: %s", p.guarantee, p.test, p.dir, p.guarantee))
	}
	switch {
	case found.sabotages[p.sabotage]:
	case !found.mutants[p.sabotage]:
		problems = append(problems, fmt.Sprintf("%s: sabotage %q does not exist: no mutant.On asks for it and no test's comment carries it", p.guarantee, p.sabotage))
	case !found.literals[p.sabotage]:
		problems = append(problems, fmt.Sprintf("%s: no test switches the mutant %q on", p.guarantee, p.sabotage))
	}
	return problems
}

// readPage takes the pairs from the page, and complains about gaps in the numbers and about guarantees without a pair.
func readPage(page string) (pairs []pair, problems []string) {
	last := map[string]int{}
	current, has := "", true
	closeSection := func() {
		if !has {
			problems = append(problems, current+" names no test: a claim without a test that can fail is not made")
		}
		current, has = "", true
	}
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if m := opened.FindStringSubmatch(line); m != nil {
			closeSection()
			for last[m[1]]++; fmt.Sprint(last[m[1]]) != m[2] && last[m[1]] < 100; last[m[1]]++ {
				problems = append(problems, fmt.Sprintf("%s%d is missing or out of order", m[1], last[m[1]]))
			}
			if m[1] == "G" {
				current, has = "G"+m[2], false
			}
		} else if strings.HasPrefix(line, "#") {
			closeSection()
		}
		if m := tested.FindStringSubmatch(line); m != nil && current != "" {
			pairs, has = append(pairs, pair{current, m[1], m[2], m[3]}), true
		} else if tried.MatchString(line) {
			problems = append(problems, fmt.Sprintf("%s: %q is not of the form test: `TestX` (folder) · sabotage: `name`", current, line))
		}
	}
	closeSection()
	if last["G"] == 0 || last["N"] == 0 {
		problems = append(problems, "no numbered guarantees, or nothing numbered that is not guaranteed")
	}
	return pairs, problems
}

func gather(tr *tree) evidence {
	e := evidence{map[string]mark{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, f := range tr.files {
		if f.dir == "internal/lint" {
			continue // its own examples are not evidence
		}
		if f.test {
			e.gatherMarks(f)
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool { e.gatherNode(f, n); return true })
	}
	return e
}

func (e evidence) gatherMarks(f *source) {
	for _, fn := range f.functions() {
		if !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") || fn.Recv != nil {
			continue
		}
		var of []string
		for _, m := range guaranteed.FindAllStringSubmatch(text(fn.Doc), -1) {
			of = append(of, strings.Split(strings.ReplaceAll(m[1], " ", ""), ",")...)
		}
		e.marks[f.dir+" "+fn.Name.Name] = mark{f.at(fn), of}
		for _, m := range sabotaged.FindAllStringSubmatch(text(fn.Doc), -1) {
			e.sabotages[m[1]] = true
		}
	}
}

func (e evidence) gatherNode(f *source, n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if !f.test && selected(n.Fun, "mutant", "On") && len(n.Args) == 1 {
			e.mutants[literal(n.Args[0])] = true
		}
	case *ast.BasicLit:
		if f.test {
			e.literals[literal(n)] = true
		}
	}
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
