//go:build synctests && mutants

package simulation

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
)

// sabotage is a mutant of the engine and the story that gives it away.
type sabotage struct {
	mutant string
	story  string   // name of a scenario
	marks  []string // any of these, by the judge or by the engine, convicts it
}

// sabotages are all mutants of the engine.
func sabotages() []sabotage {
	return []sabotage{
		{"offsets-outside-transaction", "killed-before-the-end", []string{"I1", "I2", "lost", "offset"}},
		{"client-offsets", "refused-then-restart", []string{"I1", "lost", "offset"}},
		{"check-before-flush", "output-refused", []string{"lost", "chain", "I5"}},
		{"restore-to-last-stable-offset", "late-marker", []string{"I1", "chain", "state"}},
		{"merge-before-commit", "output-refused", []string{"I5", "I1", "chain", "lost"}},
		{"no-verification-after-false-nil", "applied-but-unknown", []string{"duplicate", "state", "I1", "I2"}},
		{"commit-for-dead-token", "dead-token", []string{"dead token"}},
		{"split-task", "task-moves", []string{"I2", "I1", "chain", "duplicate", "lost", "state"}},
		{"purge-above-committed", "hop-killed-while-it-purges", []string{"I4"}},
		{"timer-outside-savepoint", "hop-restart", []string{"timer"}},
		{"foreign-handle", "foreign-handle", []string{"foreign"}},
		{"dedupe-not-rolled-back", "failed-record", []string{"rolled back"}},
		{"stream-time-not-restored", "old-record-after-restart", []string{"ghost", "lost", "state", "duplicate"}},
		{"digest-without-old-value", "restart", []string{"I3", "state"}},
		{"delta-instead-of-absolute", "restart", []string{"I3", "state"}},
	}
}

// TestMutants shows for each mutant that its story passes without it and convicts it with it, with the same seed.
//
// Guarantee: G1, G2, G3, G4, G5, G6, G7, G10, G11, G12, G13
func TestMutants(t *testing.T) {
	defer mutant.Switch("")
	only := os.Getenv("MUTANT")
	var rows []string
	for _, s := range sabotages() {
		if only != "" && only != s.mutant {
			continue
		}
		t.Run(s.mutant, func(t *testing.T) { rows = append(rows, s.try(t)) })
	}
	t.Logf("mutant → verdict ← story, seed, time\n%s", strings.Join(rows, "\n"))
}

// mutantSeeds is how many seeds a story may need: goroutines are scheduled by the machine.
const mutantSeeds = 10

func (s sabotage) try(t *testing.T) (row string) {
	story := s.find(t)
	began := time.Now()
	var with outcome
	for seed := uint64(1); seed <= mutantSeeds; seed++ {
		mutant.Switch("")
		if clean := story.live(t, seed); clean.problems != "" || len(clean.marks) > 0 {
			t.Errorf("without the mutant, seed %d: %v %s", seed, clean.marks, clean.problems)
			return "FAILED " + s.mutant
		}
		mutant.Switch(s.mutant)
		sabotaged := story
		sabotaged.failing = true
		with = sabotaged.live(t, seed)
		mutant.Switch("")
		for _, m := range s.marks {
			if with.has(m) {
				return fmt.Sprintf("%-32s → %-10s ← %s, seed %d, %s", s.mutant, m, s.story, seed, time.Since(began).Round(time.Millisecond))
			}
		}
		t.Logf("seed %d of %s does not convict %s: marks %v, %s", seed, s.story, s.mutant, with.marks, with.problems)
	}
	t.Errorf("mutant %s survived %d seeds of %s: marks %v, problems %s", s.mutant, mutantSeeds, s.story, with.marks, with.problems)
	return "SURVIVED " + s.mutant
}

func (s sabotage) find(t *testing.T) scenario {
	for _, sc := range scenarios() {
		if sc.name == s.story {
			return sc
		}
	}
	t.Fatalf("no story %q", s.story)
	return scenario{}
}

// A mutant in the engine that no story convicts would be a claim without a test.
func TestEveryMutantHasAStory(t *testing.T) {
	found := sabotagesInSource(t)
	for _, s := range sabotages() {
		if _, ok := found[s.mutant]; !ok {
			t.Errorf("mutant %q has a story and is not in the engine", s.mutant)
		}
		delete(found, s.mutant)
	}
	for name, file := range found {
		t.Errorf("%s: mutant %q has no story in sabotages()", file, name)
	}
}

// TestSeedsUnderAMutant measures how many seeds convict the mutant named in MUTANT by luck alone. It has no opinion.
func TestSeedsUnderAMutant(t *testing.T) {
	name := os.Getenv("MUTANT")
	if name == "" {
		t.Skip("measures one mutant: MUTANT=client-offsets SEEDS=20 go test -tags synctests,mutants -run TestSeedsUnderAMutant -v ./internal/simulation")
	}
	mutant.Switch(name)
	defer mutant.Switch("")
	seeds, caught, marks := envInt("SEEDS", 20), 0, map[string]int64{}
	for i := range seeds {
		of := jobName(os.Getenv("JOB"))
		pl := plan{uint64(envInt("SEED0", 1) + i), eventsPerSeed, faultsPerSeed, chosen(of), of}
		stop := guard(worldPatience, evidence(t.Name()), pl.repeat())
		synctest.Test(t, func(t *testing.T) {
			w := pl.world(t, newJournal())
			w.patience = 2 * time.Minute
			pl.live(w)
			o := w.outcome()
			w.close()
			if len(o.marks) > 0 {
				caught++
			}
			for _, m := range o.marks {
				marks[m]++
			}
		})
		stop()
	}
	t.Logf("%s: %d of %d seeds convict it: %s", name, caught, seeds, table(marks))
}
