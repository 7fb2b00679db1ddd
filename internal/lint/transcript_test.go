package lint

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// A transcript is a fenced block of README.md under the line "<!-- transcript -->": commands after "$ ", each followed by
// what it prints on standard output. A line "…" stands for any number of lines and "…" within a line for any text; a duration
// (12 ms, 0.4 s) stands for any duration. Everything else is compared letter by letter.
const transcriptMark = "<!-- transcript -->"

// exchange is one command and the lines that the README shows for it.
type exchange struct {
	line    int // of the command in the README
	command string
	shown   []string
}

// transcripts takes the exchanges from a page.
func transcripts(page string) []exchange {
	var all []exchange
	marked, fenced := false, false
	number := 0
	for text := range strings.Lines(page) {
		text = strings.TrimRight(text, "\n")
		number++
		switch command, isCommand := strings.CutPrefix(text, "$ "); {
		case strings.TrimSpace(text) == transcriptMark:
			marked = true
		case strings.HasPrefix(text, "```"):
			fenced = !fenced
			marked = marked && fenced
		case marked && fenced && isCommand:
			all = append(all, exchange{line: number, command: command})
		case marked && fenced && len(all) > 0:
			last := &all[len(all)-1]
			last.shown = append(last.shown, text)
		}
	}
	return all
}

// differs says where printed lines depart from the shown ones, "" when they do not.
func differs(shown, printed []string) string {
	if len(shown) == 0 {
		if len(printed) == 0 {
			return ""
		}
		return fmt.Sprintf("prints more: %q", printed[0])
	}
	if strings.TrimSpace(shown[0]) == "…" {
		return differsAfterGap(shown[1:], printed)
	}
	if len(printed) == 0 {
		return fmt.Sprintf("ends before %q", shown[0])
	}
	if !pattern(shown[0]).MatchString(strings.TrimRight(printed[0], " \r")) {
		return fmt.Sprintf("shows %q, prints %q", shown[0], printed[0])
	}
	return differs(shown[1:], printed[1:])
}

// differsAfterGap skips as few lines as make the rest fit.
func differsAfterGap(shown, printed []string) string {
	for skip := range len(printed) + 1 {
		if differs(shown, printed[skip:]) == "" {
			return ""
		}
	}
	return fmt.Sprintf("nothing after the gap fits from %q on", strings.Join(shown, "\n"))
}

// duration matches one in a quoted line.
var duration = regexp.MustCompile(`[0-9](?:[0-9,]|\\\.)* ?(?:µs|ms|s|min)\b`)

// pattern is a shown line as an expression.
func pattern(shown string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.TrimRight(shown, " "))
	quoted = duration.ReplaceAllString(quoted, `[0-9][0-9.,]* ?(?:µs|ms|s|min)`)
	return regexp.MustCompile("^" + strings.ReplaceAll(quoted, "…", ".*") + "$")
}

func TestTranscriptsAreFoundUnderTheirMark(t *testing.T) {
	page := "```console\n$ not this\n```\n" + transcriptMark + "\n```console\n$ one\na\nb\n$ two\n```\ntext\n```\n$ nor this\n```\n"
	got := transcripts(page)
	if len(got) != 2 || got[0].command != "one" || strings.Join(got[0].shown, ",") != "a,b" || got[1].command != "two" || got[1].line != 9 {
		t.Errorf("%+v", got)
	}
}

func TestATranscriptDiffersWhenALetterDoes(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		same           bool
	}{
		{"a\nb", "a\nb", true},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
		{"fed 5,000 events", "fed 5,001 events", false},
		{"back after 12 ms, restored 3", "back after 340 ms, restored 3", true},
		{"back after 12 ms", "back after 1.2 s", true},
		{"back after 12 ms", "back after all", false},
		{"killed at …", "killed at offset 7", true},
		{"a\n…\nz", "a\nb\nc\nz", true},
		{"a\n…\nz", "a\nz", true},
		{"a\n…\nz", "a\nb", false},
		{"…", "", true},
		{"a.c", "abc", false},
	} {
		why := differs(strings.Split(c.shown, "\n"), strings.Split(c.printed, "\n"))
		if (why == "") != c.same {
			t.Errorf("%q against %q: %q", c.shown, c.printed, why)
		}
	}
}
