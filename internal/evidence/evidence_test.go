package evidence

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type result struct {
	Engine string           `json:"engine"`
	Counts map[string]int64 `json:"counts"`
}

// sketch makes a tree of files given as name, text, name, text…
func sketch(t *testing.T, files ...string) (root string) {
	t.Helper()
	root = t.TempDir()
	for i := 0; i < len(files); i += 2 {
		edit(t, filepath.Join(root, files[i]), files[i+1])
	}
	return root
}

func edit(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func source(name string, imports ...string) string {
	text := "package " + name + "\n"
	for _, dir := range imports {
		text += "import _ \"" + module + dir + "\"\n"
	}
	return text
}

// smallTree has one of each: the command, what it is linked from, the checker, tests that judge, and what none of them imports.
func smallTree(t *testing.T) (root string) {
	return sketch(t,
		"go.mod", "require github.com/twmb/franz-go v1.22.3\n",
		"cmd/processor/main.go", source("main", "internal/connect", "internal/verify"),
		"internal/connect/connect.go", source("connect", "pipeline"),
		"pipeline/pipeline.go", source("pipeline"),
		"internal/verify/verify.go", source("verify"),
		"internal/simulation/doc.go", source("simulation"),
		"internal/simulation/seeds_test.go", "//go:build synctests\n\n"+source("simulation", "internal/faultnet", "internal/verify", "pipeline", "internal/simulation/worlds"),
		"internal/simulation/worlds/worlds.go", source("worlds"),
		"internal/faultnet/faultnet.go", source("faultnet"),
		"integration/go.mod", "module integration\n",
		"integration/pom.xml", "<version>4.4.0</version>\n",
		"integration/campaign/kinds_test.go", source("campaign", "integration/kafkatest"),
		"integration/kafkatest/proxy.go", source("kafkatest", "internal/faultnet"),
		"bench/main.go", source("main", "pipeline"))
}

type names struct{ engine, simulation, campaign string }

func namesOf(t *testing.T, root string) names {
	t.Helper()
	engine, err := Engine(root)
	simulation, err2 := SimulationJudge(root)
	campaign, err3 := CampaignJudge(root)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	return names{engine, simulation, campaign}
}

func TestAChangedFileChangesTheNamesOfWhatItIsPartOf(t *testing.T) {
	const engine, simulation, campaign = "engine ", "simulation ", "campaign "
	for file, want := range map[string]string{
		"go.mod":                               engine,
		"cmd/processor/main.go":                engine,
		"cmd/processor/main_test.go":           "",
		"internal/connect/connect.go":          engine,
		"pipeline/pipeline.go":                 engine,
		"pipeline/pipeline_test.go":            "",
		"internal/verify/verify.go":            simulation + campaign,
		"internal/verify/verify_test.go":       "",
		"internal/simulation/seeds_test.go":    simulation,
		"internal/simulation/another_test.go":  simulation,
		"internal/simulation/worlds/worlds.go": "",
		"internal/faultnet/faultnet.go":        simulation + campaign,
		"integration/go.mod":                   campaign,
		"integration/pom.xml":                  campaign,
		"integration/campaign/kinds_test.go":   campaign,
		"integration/kafkatest/proxy.go":       campaign,
		"integration/kafkatest/proxy_test.go":  "",
		"bench/main.go":                        "",
		"docs/page.md":                         "",
	} {
		root := smallTree(t)
		was := namesOf(t, root)
		text, _ := os.ReadFile(filepath.Join(root, file)) // a new file has none
		if text == nil {
			text = []byte(source("new"))
		}
		edit(t, filepath.Join(root, file), string(text)+"// changed\n")
		now, got := namesOf(t, root), ""
		for _, n := range []struct{ what, was, now string }{{engine, was.engine, now.engine}, {simulation, was.simulation, now.simulation}, {campaign, was.campaign, now.campaign}} {
			if n.was != n.now {
				got += n.what
			}
		}
		if got != want {
			t.Errorf("%s changed the names of %q, want %q", file, got, want)
		}
	}
}

func TestATreeWithoutAPackageHasNoEngine(t *testing.T) {
	root := smallTree(t)
	if err := os.RemoveAll(filepath.Join(root, "pipeline")); err != nil {
		t.Fatal(err)
	}
	if _, err := Engine(root); err == nil || !strings.Contains(err.Error(), "root of the tree") {
		t.Errorf("a tree without a pipeline package: %v", err)
	}
}

const here = "../.."

func TestTheEngineOfThisTreeIsAllThatTheCommandIsLinkedFromButTheChecker(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./"+command)
	cmd.Dir = here
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for path := range strings.FieldsSeq(string(out)) {
		if dir, ours := strings.CutPrefix(path, module); ours && dir != checker {
			want = append(want, dir)
		}
	}
	got, err := engineOf(here)
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) || !slices.Contains(got, "internal/connect") {
		t.Errorf("got %v, %v\nthe command is linked from %v", got, err, want)
	}
}

func TestThisTreeHasThreeNames(t *testing.T) {
	n := namesOf(t, here)
	if len(n.engine) != 12 || len(n.simulation) != 12 || len(n.campaign) != 12 || n.engine == n.simulation || n.simulation == n.campaign {
		t.Errorf("got %+v", n)
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

func TestResultsOfTwoEnginesOrJudgesAreRefused(t *testing.T) {
	under := func(u Under) Under { return u }
	first := Under{"e1", "j1"}
	if got, err := Same([]Under{first, first}, under); got != first || err != nil {
		t.Errorf("two results under the same: %v, %v", got, err)
	}
	for want, other := range map[string]Under{
		"two engines, e1 and e2":                {"e2", "j1"},
		"two judges, j1 and j2":                 {"e1", "j2"},
		"two judges, j1 and one without a name": {"e1", ""},
		"two engines, e1 and e2, and of two judges, j1 and one without a name": {"e2", ""},
	} {
		if _, err := Same([]Under{first, first, other}, under); err == nil || !strings.Contains(err.Error(), want+" say nothing") || !strings.Contains(err.Error(), "keep one file for each") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := Same(nil, under); err == nil {
		t.Error("no results were made under something")
	}
}
