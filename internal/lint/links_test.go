package lint

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

func TestPagesPointAtWhatExists(t *testing.T) { report(t, deadLinks(t, open(t).fsys)) }

func TestDeadLinksAreFound(t *testing.T) {
	tr := sketch(t,
		"Makefile", "quick: ## fast\n\t:\n",
		"docs/a.md", "[here](b.md#part) and [there](../README.md), [web](https://example.org/x)\n[gone](c.md)\n",
		"docs/b.md", "`make quick`, `make slow`, make believe\n",
		"README.md", "")
	finds(t, deadLinks(t, tr.fsys), "docs/a.md:2: c.md", "docs/b.md:1: make slow")
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	makes   = regexp.MustCompile("`make ([a-z]+)[^`]*`")
	scheme  = regexp.MustCompile(`^[a-z]+:`)
	targets = regexp.MustCompile(`(?m)^([a-z]+):`)
)

// deadLinks lists what pages point at and is not there: files by relative links, and targets of the Makefile.
func deadLinks(t *testing.T, fsys fs.FS) []string {
	t.Helper()
	makefile, err := fs.ReadFile(fsys, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range targets.FindAllStringSubmatch(string(makefile), -1) {
		known[m[1]] = true
	}
	var problems []string
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !entered(name):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		page, err := fs.ReadFile(fsys, name)
		problems = append(problems, deadIn(fsys, name, string(page), known)...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

func deadIn(fsys fs.FS, name, page string, targets map[string]bool) []string {
	var problems []string
	number := 0
	for line := range strings.Lines(page) {
		number++
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			if _, err := fs.Stat(fsys, path.Join(path.Dir(name), m[1])); err != nil && !scheme.MatchString(m[1]) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s is not there", name, number, m[1]))
			}
		}
		for _, m := range makes.FindAllStringSubmatch(line, -1) {
			if !targets[m[1]] {
				problems = append(problems, fmt.Sprintf("%s:%d: make %s is no target", name, number, m[1]))
			}
		}
	}
	return problems
}
