package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/internal/simulation/worlds"
)

func world(seed uint64, counts, faults, acted map[string]int64) worlds.World {
	return worlds.World{Seed: seed, Counts: counts, Faults: faults, Acted: acted}
}

func TestAnEntryNamesThePointsThatItsWorldHasLost(t *testing.T) {
	e := entry{Least: map[string]int64{"rebuilds": 3, "fault kill": 2, "met EndTxn": 1}}
	w := world(1, map[string]int64{"rebuilds": 3}, map[string]int64{"kill": 1}, nil)
	want := []string{"fault kill=1 (at least 2)", "met EndTxn=0 (at least 1)"}
	if got := e.lost(w); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCoverReachesEachPointByMoreThanHalfOfTheMost(t *testing.T) {
	all := []worlds.World{
		world(1, map[string]int64{"rebuilds": 8}, nil, nil),
		world(2, map[string]int64{"rebuilds": 7, "deadlines": 2}, map[string]int64{"kill": 1}, nil),
		world(3, nil, nil, map[string]int64{"EndTxn": 5}),
	}
	points := pointsOf("", all)
	got := cover(all, points)
	if len(got) != 2 || got[0].Seed != 2 || got[1].Seed != 3 {
		t.Fatalf("chose %v: want seed 2, which reaches most points, and seed 3", got)
	}
	for point, least := range points {
		if got[0].Least[point] < least && got[1].Least[point] < least {
			t.Errorf("%s is not covered", point)
		}
	}
	if points := pointsOf("TwoHops", all); points["fault kill"] != 0 || points["rebuilds"] != 5 {
		t.Errorf("of a job that is not the ledger: %v, want counts alone", points)
	}
}

func TestCoverLeavesAPointThatNoWorldReachesAnyMore(t *testing.T) {
	chosen := world(1, map[string]int64{"rebuilds": 8}, nil, nil)
	others := []worlds.World{world(2, map[string]int64{"rebuilds": 1, "deadlines": 1}, nil, nil), world(3, nil, nil, nil)}
	points := pointsOf("", append(others, chosen))
	got := cover(others, points)
	if len(got) != 1 || got[0].Seed != 2 || len(got[0].Least) != 1 {
		t.Errorf("chose %v of two worlds, of which one reaches a deadline and none enough rebuilds", got)
	}
	if got := cover(nil, points); len(got) != 0 {
		t.Errorf("chose %v of no worlds", got)
	}
}

func TestALoweredEntryAsksForAThirdOfWhatItsReplayReached(t *testing.T) {
	e := entry{Least: map[string]int64{"rebuilds": 9, "deadlines": 4, "aborts": 2}}
	got := e.lowered(life{Seed: 5, Schedule: 2}, world(5, map[string]int64{"rebuilds": 7, "deadlines": 1}, nil, nil))
	if got.Seed != 5 || got.Schedule != 2 || got.Least["rebuilds"] != 3 || got.Least["deadlines"] != 1 || len(got.Least) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestTheCorpusHasOfEachJobAndPoint(t *testing.T) {
	entries, err := readCorpus(corpusFile)
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]bool{}
	of := map[string]int{}
	for _, e := range entries {
		of[e.Job]++
		for point := range e.Least {
			points[point] = true
		}
		if len(e.Least) == 0 {
			t.Errorf("%s asks for nothing", e.life())
		}
	}
	for _, job := range jobs {
		if of[job] < 3 {
			t.Errorf("%d lives of %s", of[job], life{Job: job}.jobName())
		}
	}
	for _, point := range []string{"(false, nil)", "rebuilds", "interrupted restores", "deadlines", "fenced ids", "refused records", "restores ended by proof", "answers with a late marker"} {
		if !points[point] {
			t.Errorf("no life is there for its %s", point)
		}
	}
	kinds := 0
	for point := range points {
		if strings.HasPrefix(point, faultPoint) {
			kinds++
		}
	}
	if kinds < 30 {
		t.Errorf("lives for %d kinds of fault", kinds)
	}
}
