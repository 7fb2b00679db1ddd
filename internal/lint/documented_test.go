package lint

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryExportedNameIsDocumented(t *testing.T) { report(t, undocumented(open(t))) }

func TestEveryPackageSaysWhatItIs(t *testing.T) { report(t, packagesWithoutText(open(t))) }

func TestDecisionsAreNumberedAndComplete(t *testing.T) { report(t, decisions(t, open(t).fsys)) }

func TestUndocumentedNamesAreFound(t *testing.T) {
	tr := sketch(t, "a/a.go", `package a

// A is documented.
type A struct {
	// B and
	B int
	C int

	D int
	e int
	f int
}

func (A) M() {}
func (*A) Error() string { return "" }
func (x) N() {}
func F()     {}

// Some constants.
const (
	G = 1
)

var H = 1

type I interface{ J() }

// P is documented, and so are its few members.
type P struct{ Q, R int }

type x int
`, "a/a_test.go", "package a\nfunc T() {}\n", "cmd/a.go", "package main\nfunc T() {}\n")
	finds(t, undocumented(tr), "a/a.go:9: D", "a/a.go:14: M", "a/a.go:17: F", "a/a.go:24: H", "a/a.go:26: I", "a/a.go:26: J")
}

func TestAPackageWithoutTextIsFound(t *testing.T) {
	tr := sketch(t, "a/doc.go", "package a\n", "b/doc.go", "// Package b is there.\npackage b\n", "c/c.go", "// Package c is elsewhere.\npackage c\n", "cmd/x/main.go", "// Command x runs.\npackage main\n")
	finds(t, packagesWithoutText(tr), "a: ", "c: ")
}

func TestAnIncompleteDecisionIsFound(t *testing.T) {
	tr := sketch(t,
		"docs/decisions/0001-a.md", "# A\n## Context\n## Decision\n## Consequences\n",
		"docs/decisions/0003-b.md", "# B\n## Context\n## Decision\n")
	finds(t, decisions(t, tr.fsys), "0003-b.md: want number 0002", "0003-b.md: no section Consequences")
}

// undocumented lists exported names of non-test files without a comment. Commands export nothing, whatever the case.
func undocumented(tr *tree) []string {
	var problems []string
	for _, f := range tr.files {
		if f.test || f.syntax.Name.Name == "main" {
			continue
		}
		for _, d := range f.syntax.Decls {
			problems = append(problems, f.bare(d)...)
		}
	}
	return problems
}

func (s *source) bare(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || receiver(d).IsExported() && !wellKnown[d.Name.Name]) {
			return []string{s.undocumented(d.Name)}
		}
	case *ast.GenDecl:
		var problems []string
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				problems = append(problems, s.bareType(d, spec)...)
			case *ast.ValueSpec:
				if d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					problems = append(problems, s.exportedOf(spec.Names)...)
				}
			}
		}
		return problems
	}
	return nil
}

func (s *source) bareType(d *ast.GenDecl, spec *ast.TypeSpec) []string {
	if !spec.Name.IsExported() {
		return nil
	}
	var problems []string
	if d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
		problems = append(problems, s.undocumented(spec.Name))
	}
	switch t := spec.Type.(type) {
	case *ast.StructType:
		problems = append(problems, s.bareMembers(t.Fields, text(d.Doc)+text(spec.Doc))...)
	case *ast.InterfaceType:
		problems = append(problems, s.bareMembers(t.Methods, text(d.Doc)+text(spec.Doc))...)
	}
	return problems
}

// bareMembers lists fields or methods that no comment speaks of: neither one in their paragraph (members without a blank line
// between them), nor the type's, by name in either case. Of a documented type with two or three members that text tells all.
func (s *source) bareMembers(members *ast.FieldList, typeText string) []string {
	if typeText != "" && members.NumFields() <= 3 {
		return nil
	}
	var problems []string
	for _, paragraph := range s.paragraphs(members.List) {
		if slices.ContainsFunc(paragraph, func(m *ast.Field) bool { return m.Doc != nil || m.Comment != nil }) {
			continue
		}
		for _, m := range paragraph {
			for _, name := range m.Names {
				spoken := regexp.MustCompile(`(?i)\b` + name.Name + `s?\b`).MatchString(typeText)
				if name.IsExported() && !spoken {
					problems = append(problems, s.undocumented(name))
				}
			}
		}
	}
	return problems
}

// paragraphs splits members where a blank line stands between them.
func (s *source) paragraphs(members []*ast.Field) [][]*ast.Field {
	var all [][]*ast.Field
	previous := 0
	for _, m := range members {
		start := s.line(m.Pos())
		if m.Doc != nil {
			start = s.line(m.Doc.Pos())
		}
		if len(all) == 0 || start > previous+1 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], m)
		previous = s.line(m.End())
	}
	return all
}

func (s *source) exportedOf(names []*ast.Ident) []string {
	var problems []string
	for _, n := range names {
		if n.IsExported() {
			problems = append(problems, s.undocumented(n))
		}
	}
	return problems
}

func (s *source) undocumented(name *ast.Ident) string {
	return fmt.Sprintf("%s: %s is exported and not documented: what it does, units, who owns slices, blocking, errors", s.at(name), name.Name)
}

// wellKnown are the methods whose text is the standard library's.
var wellKnown = map[string]bool{"Error": true, "Unwrap": true, "String": true}

func receiver(d *ast.FuncDecl) *ast.Ident {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x
		default:
			return ast.NewIdent("_")
		}
	}
}

func text(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	return c.Text()
}

// packagesWithoutText lists packages whose doc.go (a command's any file) does not open with the package text.
func packagesWithoutText(tr *tree) []string {
	var problems []string
	for _, dir := range tr.dirs() {
		found := false
		for _, f := range tr.files {
			at := f.dir == dir && f.syntax.Doc != nil && !f.test
			found = found || at && (f.syntax.Name.Name == "main" || path.Base(f.path) == "doc.go")
		}
		if !found {
			problems = append(problems, dir+": no doc.go with the package text: what the package is for, and what it leaves to others")
		}
	}
	return problems
}

// decisions checks docs/decisions: numbered without a gap, each with what it rests on and what follows.
func decisions(t *testing.T, fsys fs.FS) []string {
	t.Helper()
	names, err := fs.Glob(fsys, "docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	for i, name := range names {
		base := path.Base(name)
		if want := fmt.Sprintf("%04d", i+1); !strings.HasPrefix(base, want+"-") {
			problems = append(problems, fmt.Sprintf("%s: want number %s: decisions are numbered without a gap", base, want))
		}
		body, err := fs.ReadFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"Context", "Decision", "Consequences"} {
			if !strings.Contains(string(body), "\n## "+section+"\n") {
				problems = append(problems, fmt.Sprintf("%s: no section %s", base, section))
			}
		}
	}
	return problems
}
