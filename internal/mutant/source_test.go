package mutant

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var asked = regexp.MustCompile(`mutant\.On\("([^"]+)"\)`)

// engine are the folders that may ask for a mutant.
func engine() []string {
	return []string{"pipeline", "state", "internal/session", "topics", "record", "cmd/processor"}
}

// inSource returns the names that the engine asks the switch for, with a file of each.
func inSource(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range engine() {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range asked.FindAllSubmatch(text, -1) {
				found[string(m[1])] = file
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("the engine asks for no mutant at all: has the switch another name?")
	}
	return found
}

// A mutant in the engine that nothing catches would be a claim without a test.
func TestEveryMutantHasATest(t *testing.T) {
	found := inSource(t)
	seen := map[string]bool{}
	for _, s := range sabotages() {
		if _, ok := found[s.mutant]; !ok {
			t.Errorf("mutant %q is in the table and not in the engine", s.mutant)
		}
		if seen[s.mutant] {
			t.Errorf("mutant %q is in the table twice", s.mutant)
		}
		seen[s.mutant] = true
	}
	for name, file := range found {
		if !seen[name] {
			t.Errorf("%s: mutant %q is not in the table", file, name)
		}
	}
}
