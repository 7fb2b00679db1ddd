package lint

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageHasAnImportLawAndKeepsIt(t *testing.T) { report(t, floors(open(t))) }

func TestTheLawsThemselvesPointDown(t *testing.T) { report(t, tableErrors(laws)) }

func TestEngineBuildsWithoutTheLedger(t *testing.T) { report(t, ledgerInEngine(open(t))) }

func TestPipelineLeavesTheClientToTheSession(t *testing.T) { report(t, clientInPipeline(open(t))) }

func TestPurePackagesReadNoClock(t *testing.T) { report(t, clocks(open(t))) }

func TestFloorsFindEachBreach(t *testing.T) {
	tr := sketch(t,
		"record/a.go", "package record\nimport _ \""+module+"/pipeline\"\n",
		"record/b.go", "package record\nimport _ \"os\"\n",
		"record/b_test.go", "package record\nimport _ \"os\"\nimport _ \""+module+"/pipeline\"\n",
		"state/a.go", "package state\nimport _ \""+kgo+"\"\n",
		"util/a.go", "package util\n",
		"topics/a.go", "package topics\nimport _ \""+module+"/state\"\n",
	)
	finds(t, floors(tr),
		`record/a.go:2: record may not import pipeline`,
		`record/b.go:2: record may not import os`,
		`state/a.go:2: state may not import `+kgo,
		`topics/a.go:2: topics may not import state`,
		`util has no import law`)
}

func TestLedgerInEngineIsFoundInTestsToo(t *testing.T) {
	tr := sketch(t, "pipeline/a_test.go", "package pipeline\nimport _ \""+module+"/ledger/money\"\n")
	finds(t, ledgerInEngine(tr), "pipeline/a_test.go:2")
}

func TestClientInPipelineIsFound(t *testing.T) {
	tr := sketch(t, "pipeline/a.go", "package pipeline\nimport \""+kgo+"\"\nvar o kgo.Opt\nvar r kgo.GroupTransactSession\n")
	finds(t, clientInPipeline(tr), "pipeline/a.go:4: kgo.GroupTransactSession")
}

func TestClockInAPurePackageIsFound(t *testing.T) {
	tr := sketch(t, "state/a.go", "package state\nimport \"time\"\nvar now = time.Now\nvar d = time.Second\n")
	finds(t, clocks(tr), "state/a.go:3: time.Now")
}

func TestAnUpwardLawIsFound(t *testing.T) {
	bad := []law{{dir: "a", floor: 1, ours: []string{"b"}, reason: "r"}, {dir: "b", floor: 1}}
	finds(t, tableErrors(bad), "a: b is not below it", "b: the law has no reason")
}

// lawOf finds the law of a folder; "dir/..." covers all below dir.
func lawOf(dir string) (law, bool) {
	for _, l := range laws {
		under, tree := strings.CutSuffix(l.dir, "/...")
		if l.dir == dir || tree && (dir == under || strings.HasPrefix(dir, under+"/")) {
			return l, true
		}
	}
	return law{}, false
}

func floors(tr *tree) []string {
	var problems []string
	for _, dir := range tr.dirs() {
		l, ok := lawOf(dir)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s has no import law: give it one in internal/lint/laws_test.go with its reason, or put the code where its law is", dir))
			continue
		}
		problems = append(problems, breaches(tr, dir, l)...)
	}
	return problems
}

func breaches(tr *tree, dir string, l law) []string {
	var problems []string
	for _, f := range tr.files {
		if f.dir != dir {
			continue
		}
		for _, i := range f.syntax.Imports {
			if p := strings.Trim(i.Path.Value, `"`); !l.allows(p, f.test) {
				problems = append(problems, fmt.Sprintf("%s: %s may not import %s: %s", f.at(i), dir, strings.TrimPrefix(p, module+"/"), l.reason))
			}
		}
	}
	return problems
}

// allows judges one import. Test files may look up (a driver above tests what is below), but not at other libraries.
func (l law) allows(importPath string, test bool) bool {
	if ours, ok := strings.CutPrefix(importPath, module+"/"); ok {
		return test || l.allowsOurs(ours)
	}
	if !strings.Contains(strings.SplitN(importPath, "/", 2)[0], ".") {
		return test || !l.pure || !under(importPath, impure)
	}
	return under(importPath, l.third) || test && (under(importPath, testLibraries) || l.knowsKafka() && under(importPath, []string{kafka}))
}

// knowsKafka reports whether the package may name a client: then its tests may use the embedded broker.
func (l law) knowsKafka() bool {
	return l.floor > 2 || slices.ContainsFunc(l.third, func(p string) bool { return under(p, []string{kafka}) })
}

func (l law) allowsOurs(dir string) bool {
	if slices.Contains(l.ours, dir) || slices.Contains(l.beside, dir) {
		return true
	}
	target, known := lawOf(dir)
	return known && slices.Contains(l.ours, "*") && target.floor < l.floor || strings.HasSuffix(l.dir, "/...") && target.dir == l.dir
}

// under reports whether a path is one of the roots or below one.
func under(importPath string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return importPath == root || strings.HasPrefix(importPath, root+"/")
	})
}

func tableErrors(laws []law) []string {
	floorOf := map[string]int{}
	for _, l := range laws {
		floorOf[l.dir] = l.floor
	}
	var problems []string
	for _, l := range laws {
		if l.reason == "" {
			problems = append(problems, l.dir+": the law has no reason")
		}
		for _, o := range l.ours {
			if floor, ok := floorOf[o]; o != "*" && (!ok || floor >= l.floor) {
				problems = append(problems, fmt.Sprintf("%s: %s is not below it", l.dir, o))
			}
		}
		for _, b := range l.beside {
			if floorOf[b] != l.floor {
				problems = append(problems, fmt.Sprintf("%s: %s is not on its floor", l.dir, b))
			}
		}
	}
	return problems
}

func ledgerInEngine(tr *tree) []string {
	var problems []string
	for _, f := range tr.files {
		for _, i := range f.syntax.Imports {
			if under(f.dir, engine) && under(strings.Trim(i.Path.Value, `"`), []string{module + "/ledger"}) {
				problems = append(problems, f.at(i)+": the engine, tests included, must build when ledger/ is deleted: use a pipeline of the test's own")
			}
		}
	}
	return problems
}

func clientInPipeline(tr *tree) []string {
	return uses(tr, func(f *source) bool { return f.dir == "pipeline" && !f.test && f.path != optionNames }, kgo, func(name string) string {
		if passedThrough[name] != "" {
			return ""
		}
		return "the client belongs to internal/session; pipeline names of it only what passedThrough lists"
	})
}

func clocks(tr *tree) []string {
	pure := func(f *source) bool {
		l, _ := lawOf(f.dir)
		return l.pure && !f.test
	}
	return uses(tr, pure, "time", func(name string) string {
		if !slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc"}, name) {
			return ""
		}
		return "this package is pure: time is a parameter"
	})
}

// uses lists what the chosen files name of an imported package and the judge objects to.
func uses(tr *tree, chosen func(*source) bool, importPath string, judge func(name string) string) []string {
	var problems []string
	for _, f := range tr.files {
		local := f.importName(importPath)
		if local == "" || !chosen(f) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || !selected(sel, local, sel.Sel.Name) {
				return true
			}
			if why := judge(sel.Sel.Name); why != "" {
				problems = append(problems, fmt.Sprintf("%s: %s.%s: %s", f.at(sel), local, sel.Sel.Name, why))
			}
			return true
		})
	}
	return problems
}
