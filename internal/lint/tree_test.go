package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/tallystick/tallystick"

// source is one Go file.
type source struct {
	path   string // slash-separated, from the root of the tree
	dir    string // its folder, "." for the root: the name of its package in the tables
	test   bool
	text   string
	syntax *ast.File
	fset   *token.FileSet
}

// tree is every Go file of the repository, whatever its build tags, and the files beside them.
type tree struct {
	fsys  fs.FS
	files []*source
}

// open parses the repository that this test stands in.
func open(t *testing.T) *tree {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, os.DirFS(root))
}

// sketch parses a small tree given as path, text, path, text…: the rules' own tests use it.
func sketch(t *testing.T, pathsAndTexts ...string) *tree {
	t.Helper()
	files := fstest.MapFS{}
	for i := 0; i < len(pathsAndTexts); i += 2 {
		files[pathsAndTexts[i]] = &fstest.MapFile{Data: []byte(pathsAndTexts[i+1])}
	}
	return parse(t, files)
}

func parse(t *testing.T, fsys fs.FS) *tree {
	t.Helper()
	tr := &tree{fsys: fsys}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !entered(name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		return tr.add(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// entered reports whether the walk looks into a folder: hidden ones hold no code of ours, except for CI's.
func entered(dir string) bool {
	base := path.Base(dir)
	return dir == "." || dir == ".ci" || !strings.HasPrefix(base, ".") && base != "testdata" && dir != "bin" && dir != ".ci/out"
}

func (tr *tree) add(name string) error {
	text, err := fs.ReadFile(tr.fsys, name)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	tr.files = append(tr.files, &source{
		path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
		text: string(text), syntax: syntax, fset: fset,
	})
	return nil
}

// dirs lists the folders that hold Go files, sorted.
func (tr *tree) dirs() []string {
	var dirs []string
	seen := map[string]bool{}
	for _, f := range tr.files {
		if !seen[f.dir] {
			seen[f.dir] = true
			dirs = append(dirs, f.dir)
		}
	}
	sort.Strings(dirs)
	return dirs
}

// at gives path:line of a node, the form that editors jump to.
func (s *source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.line(n.Pos()))
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

func (s *source) lines() int { return strings.Count(s.text, "\n") }

// functions lists the declared functions and methods.
func (s *source) functions() []*ast.FuncDecl {
	var fns []*ast.FuncDecl
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			fns = append(fns, f)
		}
	}
	return fns
}

// importName is the name under which the file knows an import, "" when it does not import it.
func (s *source) importName(importPath string) string {
	for _, i := range s.syntax.Imports {
		if strings.Trim(i.Path.Value, `"`) != importPath {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// selected reports whether an expression is name.member.
func selected(e ast.Expr, name, member string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != member {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == name
}

// report fails the test once per problem.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// finds fails the test unless exactly one problem is reported for each of the wanted phrases, and no other.
func finds(t *testing.T, problems []string, want ...string) {
	t.Helper()
	if len(problems) != len(want) {
		t.Fatalf("%d problems, want %d: %s", len(problems), len(want), strings.Join(problems, " | "))
	}
	for i, w := range want {
		if !strings.Contains(problems[i], w) {
			t.Errorf("problem %q does not speak of %q", problems[i], w)
		}
	}
}
