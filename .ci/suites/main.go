package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	os.Exit(ci(os.Args[1:], filepath.Join(".ci", "out"), os.Stdout))
}

// ci runs the named suites, all without a name, and returns the exit code: 0, 1 when one failed, 2 for a wrong name.
func ci(names []string, out string, w io.Writer) int {
	chosen, err := choose(suites(), names)
	if err == nil {
		err = os.MkdirAll(out, 0o755)
	}
	if err != nil {
		fmt.Fprintln(w, err)
		return 2
	}
	started := time.Now()
	var results []result
	for _, s := range chosen {
		fmt.Fprintf(w, "\n== %s: %s (at most %s)\n", s.name, s.what, s.limit)
		results = append(results, run(s, out, w))
		fmt.Fprintf(w, "== %s took %.1f min\n", s.name, results[len(results)-1].took.Minutes())
	}
	judgeSkips(results)
	sum := summarize(commit(), started, results)
	sum.print(w, results)
	if err := sum.write(filepath.Join(out, fileName(names))); err != nil {
		fmt.Fprintln(w, err)
		return 1
	}
	if sum.Failed > 0 {
		return 1
	}
	return 0
}

func choose(all []suite, names []string) ([]suite, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []suite
	for _, name := range names {
		i := slices.IndexFunc(all, func(s suite) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no suite %q: there are %s", name, suiteNames(all))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func suiteNames(all []suite) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

// fileName keeps a partial run from passing for a whole one.
func fileName(names []string) string {
	if len(names) > 0 {
		return "partial-summary.json"
	}
	return "ci-summary.json"
}

// commit is what was tested; "-dirty" follows when the tree differs from it, "unknown" stands for no repository.
func commit() string {
	id, err := exec.Command("git", "describe", "--always", "--abbrev=40", "--match=-", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}
