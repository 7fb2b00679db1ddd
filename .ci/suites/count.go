package main

import (
	"bufio"
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
)

const module = "github.com/tallystick/tallystick/"

// event is one line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// tally is what a suite's tests did, subtests included. Names are "folder.Test".
type tally struct {
	passed  []string
	failed  []string
	skipped []string
	counts  map[string]int64    // what tests count themselves: a log line "counts: name=1, other=2", added up
	said    map[string][]string // the last messages of a test that runs, or has failed
}

// messages is how many of a failed test's last messages the report repeats, each cut after so many bytes.
const (
	messages      = 2
	messageLength = 500
)

var (
	// message matches what a test logs or fails with.
	message = regexp.MustCompile(`^\s+\w+\.go:\d+: `)
	// counts matches what a test reports of its own work, and counted one name and number of it.
	counts  = regexp.MustCompile(`\bcounts: (.+=\d+)`)
	counted = regexp.MustCompile(`([^=]+)=(\d+)(?:, |$)`)
)

// read consumes the output of one command to its end and writes what a person wants to see of it to w: everything that is
// no event, and of the events what the screen lets through.
func (t *tally) read(r io.Reader, screen *screen, w io.Writer) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			_, _ = io.WriteString(w, t.line(line, screen))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) line(line string, screen *screen) string {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		return line
	}
	t.add(e)
	return screen.shows(e)
}

func (t *tally) add(e event) {
	name := folder(e.Package) + "." + e.Test
	switch {
	case e.Action == "output":
		t.count(e.Output)
		t.hear(name, e.Output)
	case e.Test == "" && e.Action == "fail":
		t.packageFailed(folder(e.Package))
	case e.Test == "":
	case e.Action == "pass":
		t.passed = append(t.passed, name)
		delete(t.said, name)
	case e.Action == "fail":
		t.failed = append(t.failed, name)
	case e.Action == "skip":
		t.skipped = append(t.skipped, name)
	}
}

// packageFailed makes a package that failed without a failing test (it did not build, it panicked, it ran out of time) a
// failure of its own.
func (t *tally) packageFailed(dir string) {
	for _, f := range t.failed {
		if strings.HasPrefix(f, dir+".") {
			return
		}
	}
	t.failed = append(t.failed, dir+".(package)")
}

// hear keeps the last messages of a test.
func (t *tally) hear(test, output string) {
	if !message.MatchString(output) {
		return
	}
	if t.said == nil {
		t.said = map[string][]string{}
	}
	text := strings.TrimSpace(output)
	said := append(t.said[test], strings.ToValidUTF8(text[:min(len(text), messageLength)], ""))
	t.said[test] = said[max(0, len(said)-messages):]
}

func (t *tally) count(output string) {
	line := counts.FindStringSubmatch(output)
	if line == nil {
		return
	}
	for _, m := range counted.FindAllStringSubmatch(line[1], -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			continue // more digits than an int64 has: no count of ours
		}
		if t.counts == nil {
			t.counts = map[string]int64{}
		}
		t.counts[m[1]] += n
	}
}

// ran reports whether a test of the folder, or the test with that name, or one below it, passed or failed.
func (t *tally) ran(want string) bool {
	for _, names := range [][]string{t.passed, t.failed} {
		for _, n := range names {
			if n == want || strings.HasPrefix(n, want+"/") && strings.Contains(want, ".Test") || strings.HasPrefix(n, want+".") {
				return true
			}
		}
	}
	return false
}

// folder is a package's folder from the root of the tree.
func folder(pkg string) string {
	return strings.TrimPrefix(pkg, module)
}
