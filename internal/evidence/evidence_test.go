package evidence

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type result struct {
	Engine string           `json:"engine"`
	Counts map[string]int64 `json:"counts"`
}

func TestEngineIsThatOfTheSourcesAndNotOfTheTests(t *testing.T) {
	root := copyOfEngine(t)
	engine := func() string {
		name, err := Engine(root)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	was := engine()
	edit(t, filepath.Join(root, "pipeline", "other_test.go"), "package pipeline\n")
	edit(t, filepath.Join(root, "docs.md"), "words\n")
	if now := engine(); now != was {
		t.Errorf("a test and a page made engine %s of %s", now, was)
	}
	edit(t, filepath.Join(root, "pipeline", "engine.go"), "package pipeline\n\nvar changed int\n")
	changed := engine()
	if changed == was {
		t.Error("a changed source is still the same engine")
	}
	edit(t, filepath.Join(root, "go.mod"), "require github.com/twmb/franz-go v1.99.0\n")
	if engine() == changed {
		t.Error("another client is still the same engine")
	}
	if err := os.RemoveAll(filepath.Join(root, "state")); err != nil {
		t.Fatal(err)
	}
	if _, err := Engine(root); err == nil || !strings.Contains(err.Error(), "root of the tree") {
		t.Errorf("a tree without a state package: %v", err)
	}
}

// copyOfEngine makes a tree with one file in each package of the engine.
func copyOfEngine(t *testing.T) (root string) {
	root = t.TempDir()
	for _, dir := range enginePackages {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		edit(t, filepath.Join(root, dir, "engine.go"), "package "+filepath.Base(dir)+"\n")
	}
	edit(t, filepath.Join(root, "go.mod"), "require github.com/twmb/franz-go v1.22.3\n")
	return root
}

func edit(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEngineOfThisTreeHasAName(t *testing.T) {
	name, err := Engine("../..")
	if err != nil || len(name) != 12 {
		t.Errorf("engine %q, %v", name, err)
	}
}

func TestLinesOutliveARunThatDiedWhileItWrote(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	first, second := result{"e1", map[string]int64{"a": 1}}, result{"e1", map[string]int64{"a": 2}}
	whole := `{"engine":"e1","counts":{"a":1}}`
	for cut := 1; cut < len(whole); cut++ {
		edit(t, file, "")
		if err := Append(file, first); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(whole[:cut])
		f.Close()
		if err := Append(file, second); err != nil {
			t.Fatal(err)
		}
		got, err := Read[result](file)
		if err != nil || len(got) != 2 || got[0].Counts["a"] != 1 || got[1].Counts["a"] != 2 {
			t.Fatalf("after a line cut at %d: %v, %v", cut, got, err)
		}
	}
}

func TestReadNamesALineThatIsNoResult(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	if got, err := Read[result](file); err != nil || got != nil {
		t.Errorf("a missing file: %v, %v", got, err)
	}
	edit(t, file, `{"engine":"e1"}`+"\n"+`{"engine":7}`+"\n")
	if _, err := Read[result](file); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a number for an engine: %v", err)
	}
}

func TestResultsOfTwoEnginesAreRefused(t *testing.T) {
	engineOf := func(r result) string { return r.Engine }
	same := []result{{Engine: "e1"}, {Engine: "e1"}}
	if engine, err := OneEngine(same, engineOf); engine != "e1" || err != nil {
		t.Errorf("two results of one engine: %q, %v", engine, err)
	}
	if _, err := OneEngine(slices.Concat(same, []result{{Engine: "e2"}}), engineOf); err == nil || !strings.Contains(err.Error(), "e1 and e2") {
		t.Errorf("results of two engines: %v", err)
	}
	if _, err := OneEngine[result](nil, engineOf); err == nil {
		t.Error("no results have an engine")
	}
}
