package main

import "strings"

// screen decides what of a suite's events a person sees: what its tests log when the suite shows itself, else only the
// output of tests that fail; and always the packages' own lines.
type screen struct {
	all  bool
	held map[string]string // output of tests that have not ended yet, by package and test
}

func (s *screen) shows(e event) string {
	key := e.Package + " " + e.Test
	switch {
	case e.Action == "output" && (framing(e.Output) || strings.Contains(e.Output, "[no test files]")):
		return ""
	case e.Action == "output" && (s.all || e.Test == ""):
		return e.Output
	case e.Action == "output":
		s.held[key] += e.Output
	case e.Action == "build-output":
		return e.Output
	case e.Action == "fail" && e.Test != "":
		return s.held[key]
	case e.Action == "pass" || e.Action == "skip":
		delete(s.held, key)
	}
	return ""
}

// framing reports whether a line only says that a test starts, pauses or passed.
func framing(line string) bool {
	return strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimLeft(line, " "), "--- PASS") || line == "PASS\n"
}
