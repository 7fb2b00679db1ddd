package lint

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// pagesOfCode are the pages whose every Go block stands, line by line, in a Go file of the tree: what compiles and is tested
// there is what a reader copies.
var pagesOfCode = []string{"README.md", "docs/library.md"}

func TestGoOnPagesIsGoOfTheTree(t *testing.T) { report(t, inventedCode(t, open(t), pagesOfCode)) }

func TestInventedCodeIsFound(t *testing.T) {
	tr := sketch(t, "a/a_test.go", "package a\n\nfunc f() {\n\tg()\n\n\th()\n}\n",
		"page.md", "```go\ng()\n\nh()\n```\n```sh\ninvented\n```\n- a list\n\n  ```go\n  h()\n  g()\n  ```\n```go\n```\n")
	finds(t, inventedCode(t, tr, []string{"page.md"}), "page.md:11: the Go block", "page.md:15: the Go block")
}

// block is a fenced block of Go, its lines without indentation.
type block struct {
	line int // of its fence
	text string
}

func goBlocks(page string) (blocks []block) {
	open := false
	number := 0
	for line := range strings.Lines(page) {
		number++
		line = strings.TrimSpace(line)
		switch {
		case line == "```go":
			open = true
			blocks = append(blocks, block{line: number})
		case strings.HasPrefix(line, "```"):
			open = false
		case open:
			blocks[len(blocks)-1].text += line + "\n"
		}
	}
	return blocks
}

// inventedCode lists the blocks that are in no file. Indentation does not count: a page shows bodies without it.
func inventedCode(t *testing.T, tr *tree, pages []string) (problems []string) {
	t.Helper()
	var code []string
	for _, f := range tr.files {
		var text strings.Builder
		text.WriteByte('\n')
		for line := range strings.Lines(f.text) {
			text.WriteString(strings.TrimSpace(line) + "\n")
		}
		code = append(code, text.String())
	}
	for _, name := range pages {
		page, err := fs.ReadFile(tr.fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range goBlocks(string(page)) {
			found := false
			for _, text := range code {
				found = found || b.text != "" && strings.Contains(text, "\n"+b.text)
			}
			if !found {
				problems = append(problems, fmt.Sprintf("%s:%d: the Go block is in no Go file of the tree: copy it from one that is built and tested, such as examples/shop", name, b.line))
			}
		}
	}
	return problems
}
