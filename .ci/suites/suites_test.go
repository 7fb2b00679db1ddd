package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// printed is a step that prints what a go test would.
func printed(exit int, events ...string) step {
	return step{events: true, argv: []string{"sh", "-c", fmt.Sprintf("cat <<'X'\n%s\nX\nexit %d", strings.Join(events, "\n"), exit)}}
}

func ended(action, test string) string {
	return fmt.Sprintf(`{"Action":%q,"Package":%q,"Test":%q}`, action, module+"a", test)
}

func outcome(t *testing.T, suites ...suite) (summary, []result, string) {
	t.Helper()
	var screen bytes.Buffer
	var results []result
	for _, s := range suites {
		if s.limit == 0 {
			s.limit = time.Minute
		}
		results = append(results, run(s, t.TempDir(), &screen))
	}
	judgeSkips(results)
	return summarize("c", time.Now(), results), results, screen.String()
}

func TestASuiteThatRanItsTestsPasses(t *testing.T) {
	sum, _, _ := outcome(t, suite{name: "s", must: []string{"a", "a.TestX"}, steps: []step{printed(0, ended("pass", "TestX"), ended("pass", "TestY/sub"))}})
	if sum.Passed != 2 || sum.Failed != 0 || sum.Skipped != 0 {
		t.Errorf("%+v", sum)
	}
}

func TestASuiteFailsWhen(t *testing.T) {
	pass := ended("pass", "TestX")
	for name, s := range map[string]struct {
		suite   suite
		problem string
	}{
		"it ran no test":              {suite{steps: []step{printed(0)}}, "ran no test"},
		"its package does not exist":  {suite{steps: []step{printed(1)}}, "exit status 1"},
		"a required package ran none": {suite{steps: []step{printed(0, pass)}, must: []string{"b"}}, "ran no test of b"},
		"a required test did not run": {suite{steps: []step{printed(0, pass)}, must: []string{"a.TestZ"}}, "ran no test of a.TestZ"},
		"a test was skipped":          {suite{steps: []step{printed(0, pass, ended("skip", "TestZ"))}}, "skipped a.TestZ"},
		"only a skip met the demand":  {suite{steps: []step{printed(0, pass, ended("skip", "TestZ"))}, must: []string{"a.TestZ"}}, "ran no test of a.TestZ"},
		"a check failed":              {suite{steps: []step{{argv: []string{"false"}}}}, "exit status 1"},
		"the tool is missing":         {suite{steps: []step{{argv: []string{"no-such-tool"}}}}, "not found"},
		"time is over":                {suite{limit: 50 * time.Millisecond, steps: []step{{argv: []string{"sh", "-c", "sleep 60"}}}}, "are over"},
	} {
		t.Run(name, func(t *testing.T) {
			sum, results, _ := outcome(t, s.suite)
			if sum.Failed == 0 || !strings.Contains(strings.Join(results[0].problems, "\n"), s.problem) {
				t.Errorf("failed %d, problems %q, want one with %q", sum.Failed, results[0].problems, s.problem)
			}
		})
	}
}

func TestAPackageThatDidNotBuildCountsAsOneFailure(t *testing.T) {
	sum, results, _ := outcome(t, suite{steps: []step{printed(1, ended("pass", "TestX"), ended("fail", ""))}})
	if sum.Failed != 1 || !slices.Equal(results[0].tally.failed, []string{"a.(package)"}) {
		t.Errorf("%+v", results[0].tally)
	}
}

func TestAFailedTestAndItsPackageCountOnce(t *testing.T) {
	sum, _, _ := outcome(t, suite{steps: []step{printed(1, ended("fail", "TestX"), ended("fail", ""))}})
	if sum.Failed != 1 {
		t.Errorf("%d failed", sum.Failed)
	}
}

func TestASkipThatAnotherSuiteCoversIsAllowedOnlyWhenThatOnePassed(t *testing.T) {
	skipping := suite{name: "unit", steps: []step{printed(0, ended("pass", "TestX"), ended("skip", "TestS"))}, skips: []covered{{"a.TestS", "sim", "tag"}}}
	sum, _, _ := outcome(t, skipping, suite{name: "sim", steps: []step{printed(0, ended("pass", "TestS"))}})
	if sum.Failed != 0 || sum.Skipped != 1 {
		t.Errorf("covered: %+v", sum)
	}
	sum, _, _ = outcome(t, skipping, suite{name: "sim", steps: []step{printed(0)}})
	if sum.Failed != 2 {
		t.Errorf("not covered: %+v", sum)
	}
}

func TestTheScreenShowsFailuresAndTheLogEverything(t *testing.T) {
	out := t.TempDir()
	said := func(test, text string) string {
		return fmt.Sprintf(`{"Action":"output","Package":%q,"Test":%q,"Output":%q}`, module+"a", test, text+"\n")
	}
	events := []string{said("TestX", "quiet"), ended("pass", "TestX"), said("TestY", "loud"), ended("fail", "TestY")}
	var screen bytes.Buffer
	run(suite{name: "s", limit: time.Minute, steps: []step{printed(1, events...)}}, out, &screen)
	if strings.Contains(screen.String(), "quiet") || !strings.Contains(screen.String(), "loud") {
		t.Errorf("screen: %q", screen.String())
	}
	if log, err := os.ReadFile(filepath.Join(out, "s.log")); err != nil || !strings.Contains(string(log), "quiet") {
		t.Errorf("log: %q, %v", log, err)
	}
}

func TestTheEndOfTheReportRepeatsWhatAFailedTestSaid(t *testing.T) {
	said := func(test, text string) string {
		return fmt.Sprintf(`{"Action":"output","Package":%q,"Test":%q,"Output":%q}`, module+"a", test, text+"\n")
	}
	sum, results, _ := outcome(t, suite{name: "s", steps: []step{printed(1,
		said("TestX", "    x_test.go:1: of no interest"), ended("pass", "TestX"),
		said("TestY", "    y_test.go:1: the first"), said("TestY", "    y_test.go:2: want 3"), said("TestY", "=== NAME TestY"), said("TestY", "    y_test.go:3: "+strings.Repeat("x", 2000)), ended("fail", "TestY"))}})
	var screen bytes.Buffer
	sum.print(&screen, results)
	report, _, _ := strings.Cut(screen.String(), "PROBLEM") // which repeats the command, and so its output
	if want := "FAILED  s: a.TestY\n        y_test.go:2: want 3\n        y_test.go:3: xxx"; !strings.HasPrefix(report, want) || len(report) > len(want)+messageLength {
		t.Errorf("%q", report)
	}
}

func TestCountsOfTestsAreAddedUp(t *testing.T) {
	line := `{"Action":"output","Package":"p","Test":"TestX","Output":"    a_test.go:3: counts: commits=10, (false, nil)=2\n"}`
	_, results, _ := outcome(t, suite{steps: []step{printed(0, line, line, ended("pass", "TestX"))}})
	if c := results[0].tally.counts; c["commits"] != 20 || c["(false, nil)"] != 4 || len(c) != 2 {
		t.Errorf("%v", c)
	}
}

func TestThePartialRunKeepsItsOwnFileAndClosesWithTheLine(t *testing.T) {
	sum, results, _ := outcome(t, suite{name: "s", steps: []step{printed(0, ended("pass", "TestX"))}})
	var screen bytes.Buffer
	sum.print(&screen, results)
	if !strings.HasSuffix(screen.String(), "\n1 passed, 0 failed, 0 skipped\n") {
		t.Errorf("%q", screen.String())
	}
	file := filepath.Join(t.TempDir(), fileName([]string{"s"}))
	if err := sum.write(file); err != nil {
		t.Fatal(err)
	}
	var back summary
	if body, err := os.ReadFile(file); err != nil || json.Unmarshal(body, &back) != nil || back.Suites[0].Ran != 1 {
		t.Errorf("%s, %v", body, err)
	}
	if filepath.Base(file) == fileName(nil) {
		t.Error("a partial run passes for a whole one")
	}
}

// A package that no suite must run is one that nobody misses.
func TestEveryPackageOnARealKafkaIsRequiredBySomeSuite(t *testing.T) {
	var must []string
	for _, s := range suites() {
		must = append(must, s.must...)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "integration", "*", "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		dir := "integration/" + filepath.Base(filepath.Dir(f))
		if !slices.ContainsFunc(must, func(m string) bool { return m == dir || strings.HasPrefix(m, dir+".") }) {
			t.Errorf("%s: no suite must run it", f)
		}
	}
}

func TestTheTableIsComplete(t *testing.T) {
	for _, s := range suites() {
		if s.limit <= 0 || len(s.steps) == 0 || s.what == "" {
			t.Errorf("suite %q is incomplete", s.name)
		}
		for _, c := range s.skips {
			if _, err := choose(suites(), []string{c.by}); err != nil {
				t.Errorf("%s: %v", c.test, err)
			}
		}
	}
}
