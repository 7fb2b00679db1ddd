//go:build synctests && mutants

package simulation

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/simulation/worlds"
)

// TestSeedsUnderAMutant measures how many seeds convict the mutant that is switched on by luck alone. It has no opinion.
func TestSeedsUnderAMutant(t *testing.T) {
	name := os.Getenv(mutant.Variable)
	if name == "" {
		t.Skip("measures one mutant: TALLYSTICK_MUTANT=client-offsets SEEDS=20 go test -tags synctests,mutants -run TestSeedsUnderAMutant -v ./internal/simulation")
	}
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
	t.Logf("%s: %d of %d seeds convict it: %s", name, caught, seeds, worlds.List(marks))
}
