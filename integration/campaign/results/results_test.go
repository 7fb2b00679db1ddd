package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func fault(round string, n int, kind string, recovery time.Duration, verdict string) Fault {
	return Fault{Engine: "e", Seed: 7, Number: n, Round: round, Kind: kind, Recovery: recovery, Cost: time.Second, Verdict: verdict}
}

func TestARunGoesOnBehindTheLastJudgedFault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.jsonl")
	for n := range 3 {
		if err := AppendFault(file, fault("a", n, "kill", 0, Survived)); err != nil {
			t.Fatal(err)
		}
	}
	if err := AppendRound(file, Round{Engine: "e", ID: "a", Holds: true}); err != nil {
		t.Fatal(err)
	}
	if err := AppendFault(file, fault("b", 3, "kill", 0, Survived)); err != nil { // its round was never judged
		t.Fatal(err)
	}
	l, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Next("e", 7); n != 3 {
		t.Errorf("goes on with fault %d, want 3", n)
	}
	if n := l.Next("another", 7) + l.Next("e", 8); n != 0 {
		t.Errorf("another engine or seed goes on with %d, want 0", n)
	}
	if n := len(l.Judged()); n != 3 {
		t.Errorf("%d faults count, want 3", n)
	}
}

func TestSummaryCountsByKindAndGivesQuantiles(t *testing.T) {
	l := Log{Rounds: []Round{{Engine: "e", ID: "a", Commit: "c", Events: 10, Holds: true}, {Engine: "e", ID: "b", Commit: "c"}}}
	for n := range 100 {
		l.Faults = append(l.Faults, fault("a", n, "kill", time.Duration(n+1)*100*time.Millisecond, Survived))
	}
	l.Faults = append(l.Faults, fault("b", 100, "freeze", time.Minute, Failed), fault("b", 101, "late", time.Hour, Missed))
	text, err := Summary(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"102 faults in 2 rounds", "0.0 % of them stops of 60 s; at least 1 of each kind", "1 histories violated, 1 faults not survived, 1 that met nothing", "| late | 1 | 0 | 0 | 0 | 1 | – | – | – | 0.0 |", "| kill | 100 | 100 | 0 | 0 | 0 | 5.0 | 9.9 | 10.0 | 0.0 |", "| freeze | 1 | 0 | 0 | 1 | 0 | – | – | – | 0.0 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestSummaryRefusesMixedEnginesAndNothing(t *testing.T) {
	for want, l := range map[string]Log{
		"results of two engines, e and f": {Rounds: []Round{{Engine: "e"}, {Engine: "f"}}},
		"no results":                      {Faults: []Fault{fault("a", 0, "kill", 0, Survived)}},
	} {
		if _, err := Summary(l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestSummaryRefusesAFaultThatIsThereTwice(t *testing.T) {
	l := Log{Rounds: []Round{{Engine: "e", ID: "a"}, {Engine: "e", ID: "b"}}, Faults: []Fault{fault("a", 1, "kill", 0, Survived), fault("b", 1, "kill", 0, Survived)}}
	if _, err := Summary(l); err == nil || !strings.Contains(err.Error(), "fault 1 of seed 7 is there twice") {
		t.Errorf("a fault was counted twice: %v", err)
	}
}

func TestAnotherToolsFileIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.jsonl")
	if err := os.WriteFile(file, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "result 1") {
		t.Errorf("got %v", err)
	}
}
