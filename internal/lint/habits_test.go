package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestSkipsSayWhatIsMissingAndWhichCommandBringsIt(t *testing.T) { report(t, silentSkips(open(t))) }

func TestTestsDoNotSleepOutsideBubbles(t *testing.T) { report(t, sleeps(open(t))) }

func TestSilentSkipsAreFound(t *testing.T) {
	tr := sketch(t, "a/a_test.go", "package a\nfunc f(t *testing.T) {\n"+
		"\tf.Skip()\n"+
		"\tt.SkipNow()\n"+
		"\tt.Skip(\"no broker on this machine today, sorry\")\n"+
		"\tt.Skip(\"the clients' mutexes need a tag: `go test -tags synctests ./internal/simulation` runs it\")\n"+
		"\tt.Skipf(\"no Java here (%v): \"+\"`apt-get install openjdk-17-jre-headless` brings it\", err)\n"+
		"\tt.Skip(cause)\n"+
		"\tbuffer.Skip(3)\n}\n")
	finds(t, silentSkips(tr), "a/a_test.go:3", "a/a_test.go:4", "a/a_test.go:5", "a/a_test.go:8")
}

func TestSleepsAreFound(t *testing.T) {
	tr := sketch(t,
		"a/a_test.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n",
		"a/b_test.go", "package a\nimport \"time\"\nimport _ \"testing/synctest\"\nfunc g() { time.Sleep(1) }\n",
		"a/c_test.go", "//go:build synctests\n\npackage a\nimport \"time\"\nfunc h() { time.Sleep(1) }\n",
		"a/d.go", "package a\nimport \"time\"\nfunc i() { time.Sleep(1) }\n")
	finds(t, sleeps(tr), "a/a_test.go:3")
}

// brings matches a command or a variable that a reader can type.
var brings = regexp.MustCompile("`[^`]{4,}`|\\b(go (test|run|install) |make [a-z]|apt-get install|[A-Z][A-Z_]+=)")

// silentSkips lists skips in tests that do not say what is missing and how to get it. The sentence stands where the skip
// stands: a variable could be anything.
func silentSkips(tr *tree) []string {
	var problems []string
	for _, f := range tr.files {
		if !f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && skips(call) && !explained(call) {
				problems = append(problems, f.at(call)+": a skip says, in a literal, what is missing and which command brings it")
			}
			return true
		})
	}
	return problems
}

// skips reports whether a call is Skip, Skipf or SkipNow of a test's, benchmark's or fuzz target's usual name.
func skips(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && strings.Contains(" t b f tb ", " "+id.Name+" ") && strings.HasPrefix(sel.Sel.Name, "Skip") && sel.Sel.Name != "Skipped"
}

func explained(call *ast.CallExpr) bool {
	if len(call.Args) == 0 {
		return false
	}
	sentence := literal(call.Args[0])
	return len(strings.Fields(sentence)) >= 6 && brings.MatchString(sentence)
}

// literal is the text of a string literal or of a sum of them, "" for anything else.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	case *ast.ParenExpr:
		return literal(e.X)
	}
	return ""
}

// bubble matches files whose clock is a bubble's: sleeping there costs nothing and orders what follows.
var bubble = regexp.MustCompile(`(?m)^//go:build .*\bsynctests\b|"testing/synctest"`)

func sleeps(tr *tree) []string {
	outside := func(f *source) bool { return f.test && !bubble.MatchString(f.text) }
	return uses(tr, outside, "time", func(name string) string {
		if name != "Sleep" {
			return ""
		}
		return "a test that sleeps is slow or flaky: poll with a deadline, or run in a synctest bubble"
	})
}
