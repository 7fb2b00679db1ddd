package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// The lengths at which code wants a reason. They are tripwires, not limits: most functions here have under 13 lines.
const (
	functionLines = 70
	fileLines     = 400
	packageLines  = 2500 // without tests
	packageNames  = 30   // exported top-level names; constants of a type of the package's count with their type
)

// crossings are the tripwires that are crossed on purpose: where → why it is better long. A function is path:Name, a file
// its path, a package its folder, its exports folder:exports. An entry whose tripwire is no longer crossed fails.
var crossings = map[string]string{
	"cmd/processor":            "one command a file, each a thin layer of flags and words over the engine; the command's words belong together",
	"internal/verify":          "writes decoders, formats and models a second time on purpose: it shares no code with what it judges",
	"internal/session:exports": "the transaction protocol, fences, look-ups and balancer are one contract that only pipeline and cmd read",
	"state":                    "handles, view, base and formats of one commit: a store's write, its undo, its record and its proof are one contract",
	"pipeline":                 "the declaration, the pure task and the worker that commits it stand and fall together: each half is unsafe alone",
	"internal/mutant/further_test.go:further": "one row a mutant, and their number only grows: see planned",
	"internal/mutant/table_test.go:planned":   "one row a mutant, and their number only grows: it is a table in the form of a function, so that nothing global can be changed",
	"state:exports":                           "handles, bases, markers and entries: what the engine, the commands and tests read of one log",
	"pipeline:exports":                        "what users declare with, and what cmd and tests watch it by: events, status, errors to test for",
}

// spawns are the files outside tests (and outside integration/, which is all test) that may start goroutines → who ends them. One goroutine owns a worker, so that
// nothing inside needs a lock; a go statement elsewhere is a second owner.
var spawns = map[string]string{
	"cmd/processor/admin.go":        "serves the admin port; ends with its listener",
	"cmd/processor/demo_child.go":   "reads the demo's orders from standard input; ends with the child",
	"internal/faultnet/conn.go":     "delivers what sat in a socket; ends when it has",
	"pipelinetest/crash_process.go": "one process of a crash run; ends with its context, and Crash waits for it",
	"internal/session/assign.go":    "the watchdog over offsets that stay unstable; ends when none waits or the session closes",
	"internal/session/commit.go":    "lets a rebalance run while the end of a transaction hangs; ends with the end",
	"internal/session/session.go":   "closes a client that may hang, bounded by the caller's context; the census of the group's tasks, ended by Close",
	"pipeline/gate.go":              "one restore a task; ends with the assignment's token, or hands the task over",
	".ci/suites/run.go":             "reads what a suite prints; ends with the pipe that the suite's command writes to",
	"cmd/processor/main.go":         "waits for the second signal; ends with the process",
	"cmd/processor/progress.go":     "draws while work goes on elsewhere; ended by its stop function, which waits for it",
}

func TestLongCodeCarriesAReason(t *testing.T) { report(t, tripwires(open(t), crossings)) }

func TestGoroutinesStartInNamedFilesOnly(t *testing.T) { report(t, goStatements(open(t), spawns)) }

func TestNothingRunsBeforeMain(t *testing.T) { report(t, inits(open(t))) }

func TestTripwiresFindEachKind(t *testing.T) {
	long := strings.Repeat("\t_ = 0\n", functionLines)
	tr := sketch(t,
		"a/f.go", "package a\nfunc F() {\n"+long+"}\n",
		"a/file.go", "package a\n"+strings.Repeat("// line\n", fileLines),
		"b/a.go", "package b\n"+exportedConsts(packageNames+1),
		"c/a.go", "package c\n"+strings.Repeat("// line\n", fileLines-1),
		"d/short.go", "package d\n",
	)
	for i := range packageLines / fileLines {
		tr.files = append(tr.files, sketch(t, fmt.Sprintf("c/a%d.go", i), tr.files[3].text).files...)
	}
	finds(t, tripwires(tr, map[string]string{"a/file.go": "because it is one table", "d/short.go": "x y z x y z"}),
		"a/f.go:F", "b:exports", "c has", "d/short.go")
}

func TestACrossingWithoutASentenceIsFound(t *testing.T) {
	tr := sketch(t, "a/file.go", "package a\n"+strings.Repeat("// line\n", fileLines))
	finds(t, tripwires(tr, map[string]string{"a/file.go": "long"}), "no sentence")
}

func TestAGoStatementElsewhereIsFound(t *testing.T) {
	tr := sketch(t, "a/a.go", "package a\nfunc f() { go f() }\n", "a/b.go", "package a\nfunc g() { go g() }\n", "a/a_test.go", "package a\nfunc h() { go h() }\n")
	finds(t, goStatements(tr, map[string]string{"a/b.go": "ended by its caller's context"}), "a/a.go:2")
}

func TestAnInitIsFound(t *testing.T) {
	tr := sketch(t, "a/a.go", "package a\nfunc init() {}\ntype t int\nfunc (t) init() {}\n")
	finds(t, inits(tr), "a/a.go:2")
}

func exportedConsts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "const C%d = 0\n", i)
	}
	return b.String()
}

func tripwires(tr *tree, crossings map[string]string) []string {
	var problems []string
	crossed := map[string]bool{}
	trip := func(where string, size, limit int, unit string) {
		if size <= limit {
			return
		}
		crossed[where] = true
		if reason, ok := crossings[where]; !ok {
			problems = append(problems, fmt.Sprintf("%s has %d %s, the tripwire is %d: shorten it, or give crossings in internal/lint a sentence why it is better long", where, size, unit, limit))
		} else if len(strings.Fields(reason)) < 5 {
			problems = append(problems, fmt.Sprintf("%s: %q is no sentence of reason", where, reason))
		}
	}
	for _, f := range tr.files {
		trip(f.path, f.lines(), fileLines, "lines")
		for _, fn := range f.functions() {
			trip(f.path+":"+fn.Name.Name, f.line(fn.End())-f.line(fn.Pos())+1, functionLines, "lines")
		}
	}
	for _, dir := range tr.dirs() {
		lines, names := tr.size(dir)
		trip(dir, lines, packageLines, "lines")
		trip(dir+":exports", names, packageNames, "exported names")
	}
	for where := range crossings {
		if !crossed[where] {
			problems = append(problems, where+" no longer crosses its tripwire: take its entry out of crossings")
		}
	}
	return problems
}

// size counts a package without its tests: lines, and exported top-level names (methods and fields not among them).
func (tr *tree) size(dir string) (lines, names int) {
	seen := map[string]bool{}
	for _, f := range tr.files {
		if f.dir != dir || f.test {
			continue
		}
		lines += f.lines()
		for _, d := range f.syntax.Decls {
			for _, name := range topLevel(d) {
				seen[name] = seen[name] || ast.IsExported(name)
			}
		}
	}
	for _, exported := range seen {
		if exported {
			names++
		}
	}
	return lines, names
}

// topLevel lists the names that a declaration makes in its package's scope; an enumeration's values are not among them.
func topLevel(d ast.Decl) []string {
	var names []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				if named, ok := s.Type.(*ast.Ident); d.Tok == token.CONST && ok && named.IsExported() {
					return names // the values of an enumeration
				}
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

func goStatements(tr *tree, spawns map[string]string) []string {
	var problems []string
	spawning := map[string]bool{}
	for _, f := range tr.files {
		if f.test || under(f.dir, []string{"integration"}) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			g, ok := n.(*ast.GoStmt)
			if !ok {
				return true
			}
			spawning[f.path] = true
			if spawns[f.path] == "" {
				problems = append(problems, f.at(g)+": starts a goroutine: do the work in the owner's loop, or name the file in spawns in internal/lint and say who ends it")
			}
			return true
		})
	}
	for where := range spawns {
		if !spawning[where] {
			problems = append(problems, where+" starts no goroutine: take its entry out of spawns")
		}
	}
	return problems
}

func inits(tr *tree) []string {
	var problems []string
	for _, f := range tr.files {
		for _, fn := range f.functions() {
			if fn.Recv == nil && fn.Name.Name == "init" {
				problems = append(problems, f.at(fn)+": init runs before anyone can decide: make it a value that its user is given")
			}
		}
	}
	return problems
}
