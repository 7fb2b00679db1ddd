package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/internal/evidence"
)

var under = evidence.Under{Engine: "e", Judge: "j"}

func fault(round string, n int, kind string, recovery time.Duration, verdict string) Fault {
	return Fault{Under: under, Seed: 7, Number: n, Round: round, Kind: kind, Recovery: recovery, Cost: time.Second, Verdict: verdict}
}

func TestARunGoesOnBehindTheLastJudgedFault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.jsonl")
	for n := range 3 {
		if err := AppendFault(file, fault("a", n, "kill", 0, Survived)); err != nil {
			t.Fatal(err)
		}
	}
	if err := AppendRound(file, Round{Under: under, ID: "a", Holds: true}); err != nil {
		t.Fatal(err)
	}
	if err := AppendFault(file, fault("b", 3, "kill", 0, Survived)); err != nil { // its round was never judged
		t.Fatal(err)
	}
	l, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := l.Next(under, 7); n != 3 || err != nil {
		t.Errorf("goes on with fault %d, %v, want 3", n, err)
	}
	if n, err := l.Next(under, 8); n != 0 || err != nil {
		t.Errorf("another seed goes on with %d, %v, want 0", n, err)
	}
	if n := len(l.Judged()); n != 3 {
		t.Errorf("%d faults count, want 3", n)
	}
}

func TestSummaryCountsByKindAndGivesQuantiles(t *testing.T) {
	l := Log{Rounds: []Round{{Under: under, ID: "a", Commit: "c", Events: 10, Holds: true}, {Under: under, ID: "b", Commit: "d"}}}
	for n := range 100 {
		l.Faults = append(l.Faults, fault("a", n, "kill", time.Duration(n+1)*100*time.Millisecond, Survived))
	}
	l.Faults = append(l.Faults, fault("b", 100, "freeze", time.Minute, Failed), fault("b", 101, "late", time.Hour, Missed))
	text, err := Summary(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"102 faults in 2 rounds", "Engine e, judge j (commit c, d), seeds 7", "0.0 % of them stops of 60 s; at least 0 of each kind met something", "1 histories violated, 1 faults not survived, 1 that met nothing", "| late | 1 | 0 | 0 | 0 | 1 | – | – | – | 0.0 |", "| kill | 100 | 100 | 0 | 0 | 0 | 5.0 | 9.9 | 10.0 | 0.0 |", "| freeze | 1 | 0 | 0 | 1 | 0 | – | – | – | 0.0 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestMixedResultsAreRefused(t *testing.T) {
	for want, of := range map[string]evidence.Under{
		"two engines, e and f":                 {Engine: "f", Judge: "j"},
		"two judges, j and k":                  {Engine: "e", Judge: "k"},
		"two judges, j and one without a name": {Engine: "e"},
	} {
		other := fault("a", 0, "kill", 0, Survived)
		other.Under = of
		rounds := []Round{{Under: under, ID: "a"}}
		for where, l := range map[string]Log{
			"a round":                     {Rounds: append(rounds, Round{Under: of, ID: "b"})},
			"a fault":                     {Rounds: rounds, Faults: []Fault{other}},
			"a fault that was not judged": {Rounds: rounds, Faults: []Fault{{Under: of, Round: "c"}}},
		} {
			if _, err := Summary(l); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: summed up: %v, want %q", where, err, want)
			}
			if _, err := l.Next(under, 7); err == nil || !strings.Contains(err.Error(), want+": name another file") {
				t.Errorf("%s: goes on: %v, want %q", where, err, want)
			}
		}
	}
}

func TestSummaryRefusesNothing(t *testing.T) {
	for _, l := range []Log{{}, {Faults: []Fault{fault("a", 0, "kill", 0, Survived)}}} {
		if _, err := Summary(l); err == nil || !strings.Contains(err.Error(), "no results") {
			t.Errorf("got %v", err)
		}
	}
}

// whole is the least that is a whole campaign.
func whole() Log {
	l := Log{Rounds: []Round{{Under: under, ID: "a"}}}
	for _, k := range Kinds() {
		for range leastOfKind {
			l.Faults = append(l.Faults, fault("a", len(l.Faults), k, time.Second, Survived))
		}
	}
	return l
}

func TestAWholeCampaignHasEnoughOfEachKindAndFewLongOnes(t *testing.T) {
	if err := Shortfall(whole()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Log){
		"of the kinds kill 19: run more":             func(l *Log) { l.Faults[0].Verdict = Missed },
		"of the kinds group-gone 0: run more":        func(l *Log) { l.Faults = l.Faults[:len(l.Faults)-leastOfKind] },
		"of the kinds kill 19, restart 19: run more": func(l *Log) { l.Faults[0].Kind, l.Faults[8*leastOfKind].Kind = "poison", "poison" },
		"of the kinds kill 18: run more":             func(l *Log) { l.Faults[0].Round, l.Faults[1].Round = "b", "b" }, // which was never judged
		"5.7 % of the faults are stops of 60 s":      func(l *Log) { l.add("stop-60s", 38) },
		"restart 19; 5.7 % of the faults are":        func(l *Log) { l.Faults[8*leastOfKind].Kind = "stop-60s"; l.add("stop-60s", 37) },
	} {
		l := whole()
		spoil(&l)
		if err := Shortfall(l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	l := whole()
	l.add("stop-60s", 30) // 50 of 1,010: 4.95 %
	if err := Shortfall(l); err != nil {
		t.Error(err)
	}
}

func (l *Log) add(kind string, n int) {
	for range n {
		l.Faults = append(l.Faults, fault("a", len(l.Faults), kind, time.Second, Survived))
	}
}

func TestSummaryRefusesAFaultThatIsThereTwice(t *testing.T) {
	l := Log{Rounds: []Round{{Under: under, ID: "a"}, {Under: under, ID: "b"}}, Faults: []Fault{fault("a", 1, "kill", 0, Survived), fault("b", 1, "kill", 0, Survived)}}
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
