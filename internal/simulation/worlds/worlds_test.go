package worlds

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/internal/evidence"
)

const root = "../../.."

func world(job string, seed uint64, counts map[string]int64) World {
	began := time.Date(2026, 1, 1, 0, 0, int(seed), 0, time.UTC)
	return World{Under: evidence.Under{Engine: "e1", Judge: "j1"}, Commit: "c1", Job: job, Seed: seed, Counts: counts, Faults: map[string]int64{"kill": 2}, Began: began, Took: 3 * time.Second}
}

func TestTotalSumsAllCountsButTheLongestDrain(t *testing.T) {
	var total Total
	total.Add(world("", 1, map[string]int64{"commits": 3, Longest: 9}))
	total.Add(world("", 2, map[string]int64{"commits": 4, Longest: 5}))
	if total.Worlds() != 2 || total.Count("commits") != 7 || total.Count(Longest) != 9 || total.Fault("kill") != 4 {
		t.Errorf("got %d worlds: %s", total.Worlds(), &total)
	}
}

func TestFileRemembersWhatAnEarlierRunLived(t *testing.T) {
	name := filepath.Join(t.TempDir(), "worlds")
	first, err := Open(name, root)
	if err != nil {
		t.Fatal(err)
	}
	if _, has := first.Has("", 7); has {
		t.Error("an empty file has a world")
	}
	if err := first.Add(world("", 7, map[string]int64{"commits": 3})); err != nil {
		t.Fatal(err)
	}
	second, err := Open(name, root)
	if err != nil {
		t.Fatal(err)
	}
	if w, has := second.Has("", 7); !has || w.Counts["commits"] != 3 {
		t.Errorf("the second run knows of seed 7: %v, %v", w, has)
	}
	if _, has := second.Has("TwoHops", 7); has {
		t.Error("seed 7 of another job counts as lived")
	}
}

func TestFileOfAnotherEngineOrJudgeIsRefused(t *testing.T) {
	own, err := Open(filepath.Join(t.TempDir(), "worlds"), root)
	if err != nil {
		t.Fatal(err)
	}
	for want, under := range map[string]evidence.Under{
		"two engines, other and " + own.under.Engine:            {Engine: "other", Judge: own.under.Judge},
		"two judges, other and " + own.under.Judge:              {Engine: own.under.Engine, Judge: "other"},
		"two judges, one without a name and " + own.under.Judge: {Engine: own.under.Engine},
	} {
		name := filepath.Join(t.TempDir(), "worlds")
		f := &File{name: name, under: under, commit: "c0", done: map[key]World{}}
		if err := f.Add(world("", 1, nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(name, root); err == nil || !strings.Contains(err.Error(), want+": name another file, or check out commit c0") {
			t.Errorf("opened: %v, want %q", err, want)
		}
	}
}

func TestSummaryCountsSeedsTimeAndAnomalies(t *testing.T) {
	bad := world("TwoHops", 4, map[string]int64{"commits": 5, Simulated: 7200})
	bad.Problems = []string{"lost: event 9", "more"}
	worlds := []World{world("", 1, map[string]int64{"commits": 3}), world("", 2, map[string]int64{"commits": 4}), world("", 9, nil), bad}
	text, err := Summary(worlds)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Engine e1, judge j1 (commit c1), 9s of wall time, 0.4 worlds a second", // 1 to 4, 2 to 5, 4 to 7, 9 to 12: 6 s and 3 s
		"Anomalies: 1.\n- TwoHops seed 4: lost: event 9\n",
		"|  | ledger | TwoHops |\n|---|--:|--:|\n",
		"| worlds | 3 | 1 |", "| seeds | 1–2, 9 | 4 |", "| simulated hours | 0.0 | 2.0 |", "| commits | 7 | 5 |", "| kill | 6 | 2 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestSummaryRefusesAWorldThatIsThereTwice(t *testing.T) {
	_, err := Summary([]World{world("", 1, nil), world("TwoHops", 1, nil), world("", 1, nil)})
	if err == nil || !strings.Contains(err.Error(), "ledger seed 1 is there twice") {
		t.Errorf("a seed was counted twice: %v", err)
	}
}

func TestSummaryRefusesTwoEnginesAndTwoJudges(t *testing.T) {
	for want, under := range map[string]evidence.Under{"two engines": {Engine: "e2", Judge: "j1"}, "two judges": {Engine: "e1", Judge: "j2"}} {
		other := world("", 2, nil)
		other.Under = under
		if _, err := Summary([]World{world("", 1, nil), other}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("worlds of %s were added up: %v", want, err)
		}
	}
}
