package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// pagesOfCommands are the pages that somebody copies command lines from, in an incident or on the first day.
var pagesOfCommands = []string{"docs/operations.md", "docs/eos-boundaries.md", "docs/verify.md", "README.md"}

func TestCommandsOnPagesAreCommandsOfTheTree(t *testing.T) {
	for _, name := range pagesOfCommands {
		lines := commandLines(page(t, name))
		if name == "docs/operations.md" && len(lines) < 40 {
			t.Errorf("%s: %d command lines found: the page shows more", name, len(lines))
		}
		if name == "docs/verify.md" && len(lines) < 8 {
			t.Errorf("%s: %d command lines found: the page shows more", name, len(lines))
		}
		for _, line := range lines {
			if err := parses(line); err != nil {
				t.Errorf("%s: %s: %v", name, line, err)
			}
		}
	}
}

// Who is on call uses each command that there is; a new one wants an entry.
func TestTheRunbookKnowsEachCommand(t *testing.T) {
	shown := map[string]bool{}
	root, lines := newRootForPages(), commandLines(page(t, "docs/operations.md"))
	for _, line := range lines {
		if cmd, _, err := root.Find(words(line)); err == nil {
			shown[cmd.CommandPath()] = true
		}
	}
	spared := []string{"processor demo", "processor version", "processor config init", "processor config schema"} // no incident needs them
	for _, cmd := range leaves(root) {
		if path := cmd.CommandPath(); !shown[path] && !cmd.Hidden && !slices.Contains(spared, path) && cmd.Parent().Name() != "completion" {
			t.Errorf("docs/operations.md does not show %s", path)
		}
	}
}

func TestTheRunbookPointsAtItsOwnEntries(t *testing.T) {
	text := page(t, "docs/operations.md")
	entries := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(text, -1) {
		anchor := strings.Map(func(r rune) rune {
			if r == ',' || r == '/' {
				return -1
			}
			return r
		}, strings.ToLower(m[1]))
		entries[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(text, -1) {
		if !entries[m[1]] {
			t.Errorf("docs/operations.md has no entry #%s", m[1])
		}
	}
}

func TestWrongCommandLinesAreFound(t *testing.T) {
	text := "`processor lag`, `processor tail x --upto`\n```sh\n$ processor dlq list --reason conflict | head   # comment\n" +
		"diff <(old-processor topology) <(processor topologie)\nprocessor fence\n```\n| `processor reset apply --to-marker --yes` | `processor verify --start=0=9` |\n" +
		"`processor tail ledger-updates --to-end\n--uncommitted`\n"
	var wrong []string
	for _, line := range commandLines(text) {
		if err := parses(line); err != nil {
			wrong = append(wrong, line)
		}
	}
	want := []string{"processor topologie", "processor fence", "processor tail x --upto"} // blocks come first
	if !slices.Equal(wrong, want) {
		t.Errorf("got %q, want %q of %q", wrong, want, commandLines(text))
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fence   = regexp.MustCompile("(?ms)^\\s*```(sh|console)\n(.*?)^\\s*```")
	span    = regexp.MustCompile("`(processor [^`]+)`")
	inFence = regexp.MustCompile(`(?m)(?:^\s*(?:\$ )?|[<|;&(] *)(processor [^\n]*)`)
	ends    = regexp.MustCompile(`\s+#\s.*$|\s*[|>;)].*$`) // a comment, a pipe, a redirection, the end of a substitution
)

// commandLines lists the command lines of a page: in fenced blocks of shell, and in spans of code, which may run over two lines.
func commandLines(text string) (lines []string) {
	rest := fence.ReplaceAllStringFunc(text, func(block string) string {
		for _, line := range strings.Split(fence.FindStringSubmatch(block)[2], "\n") {
			for _, m := range inFence.FindAllStringSubmatch(line, -1) {
				lines = append(lines, strings.TrimSpace(ends.ReplaceAllString(m[1], "")))
			}
		}
		return ""
	})
	for _, m := range span.FindAllStringSubmatch(rest, -1) {
		line := strings.Join(strings.Fields(strings.ReplaceAll(m[1], "<partition/offset>", "0/0")), " ")
		lines = append(lines, strings.TrimSpace(ends.ReplaceAllString(line, "")))
	}
	return lines
}

// words splits a line into arguments, without the name of the command. Pages quote nothing with blanks in it.
func words(line string) []string {
	out := strings.Fields(line)[1:]
	for i, w := range out {
		out[i] = strings.Trim(w, `'"`)
	}
	return out
}

// parses finds the command and gives it flags and arguments, without running it.
func parses(line string) error {
	cmd, args, err := newRootForPages().Find(words(line))
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func newRootForPages() *cobra.Command {
	c, _, _ := newTestCLI()
	return newRoot(c)
}

// leaves are the commands that do something.
func leaves(cmd *cobra.Command) (out []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if len(sub.Commands()) == 0 {
			out = append(out, sub)
		}
		out = append(out, leaves(sub)...)
	}
	return out
}
