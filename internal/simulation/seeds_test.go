//go:build synctests

package simulation

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallystick/tallystick/internal/simulation/worlds"
	"github.com/tallystick/tallystick/internal/verify"
)

const (
	eventsPerSeed = 2000
	faultsPerSeed = 12
	enoughSeeds   = 100              // from here on a run must have met every kind of fault
	worldPatience = 90 * time.Second // real time
)

// plan is what a seed's world does.
type plan struct {
	seed   uint64
	events int
	steps  int
	kinds  []fault
	job    jobName
}

// world makes the world of a plan.
func (pl plan) world(t *testing.T, j *journal) *world {
	w := newWorldOf(jobOf(pl.job), t, pl.seed, 3, j)
	w.clientLogs = os.Getenv("TRACE") != ""
	w.latency = oneOf(w, 0, time.Millisecond, 5*time.Millisecond, 40*time.Millisecond)
	if pl.job == ofPairs {
		w.idle = oneOf(w, -1, 0, 50*time.Millisecond, time.Second)
	}
	return w
}

// live lives through a plan. What went wrong is in the world, which waits to be judged.
func (pl plan) live(w *world) {
	for range 2 + w.rng.IntN(2) {
		w.launch(w.freeSlot())
		w.sleep(time.Second)
	}
	w.feeder.orders <- 100
	each := (pl.events - 200) / pl.steps
	for range pl.steps {
		w.sleep(3 * time.Second)
		w.feeder.orders <- each / 2
		w.sleep(300 * time.Millisecond)
		f, p := pl.kinds[w.rng.IntN(len(pl.kinds))], w.slots[w.rng.IntN(len(w.slots))]
		w.tally.fault(f.name)
		w.journal.logf("schedule.txt", "fault %q on %s", f.name, p.name)
		w.feeder.orders <- each - each/2
		f.do(w, p)
	}
	w.sleep(3 * time.Second)
	w.calm()
	w.finish(pl.events - 100 - each*pl.steps)
}

// repeat says how to see a seed again: natively, where goroutines run as they like, and as a replay, which is always the same.
func (pl plan) repeat() string {
	return fmt.Sprintf("SEED0=%d SEEDS=1 go test -tags synctests -run '%s$' -count=20 -failfast ./internal/simulation\n"+
		"or make it exact, should it come in one of 20 schedules: make replay SEED=%d JOB=%s SCHEDULES=20", pl.seed, pl.test(), pl.seed, pl.job)
}

// evidence is where a failure keeps what it knows.
func evidence(name string) string {
	return filepath.Join(os.TempDir(), "tallystick-simulation", fmt.Sprintf("%s-%d", strings.ReplaceAll(name, "/", "-"), os.Getpid()))
}

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func TestSeeds(t *testing.T) {
	runSeeds(t, envInt("SEEDS", 20), enoughSeeds, leastOf(), plan{events: eventsPerSeed, steps: faultsPerSeed})
}

// Of the seeds that are asked for, one in pairedShare is also lived by each of the other jobs.
const (
	pairedShare       = 8
	enoughPairedSeeds = 40
)

func TestSeedsOfTwoInputs(t *testing.T) {
	runSeeds(t, max(1, envInt("SEEDS", 20)/pairedShare), enoughPairedSeeds, leastOfPairs(), plan{events: eventsPerSeed, steps: faultsPerSeed, job: ofPairs})
}

func TestSeedsOfTwoHops(t *testing.T) {
	runSeeds(t, max(1, envInt("SEEDS", 20)/pairedShare), enoughPairedSeeds, leastOfPairs(), plan{events: eventsPerSeed, steps: faultsPerSeed, job: ofHops})
}

// runSeeds lives a plan for so many seeds. A run of enough must have met every kind of fault, and least of each count.
func runSeeds(t *testing.T, seeds, enough int, least map[string]int64, pl plan) {
	first, began := envInt("SEED0", 1), time.Now()
	run := &run{file: openResults(t)}
	pl.kinds = chosen(pl.job)
	t.Run("seed", func(t *testing.T) {
		for i := range seeds {
			pl := pl
			pl.seed = uint64(first + i)
			t.Run(strconv.Itoa(first+i), func(t *testing.T) {
				t.Parallel()
				run.seed(t, pl)
			})
		}
	})
	took := time.Since(began)
	if seeds >= enough && os.Getenv("KINDS") == "" && !t.Failed() {
		for _, what := range missing(&run.total, seeds, least, pl.kinds) {
			t.Errorf("the run has not reached: %s", what)
		}
	}
	lived := run.lived.Load()
	if n := run.total.Count(cleanRuns); n > 0 {
		t.Logf("%d clean runs: internal/verify found none of %v in %d inputs", n, verify.Verdicts(true, false), run.total.Count("inputs judged in them"))
	}
	t.Logf("%d seeds, %d of them now in %s, %.2f seeds/s\n%s", seeds, lived, took.Round(time.Second), float64(lived)/took.Seconds(), &run.total)
}

// test is the name of the test that lives the plan.
func (pl plan) test() string {
	return pl.job.test("TestSeeds")
}

// chosen are the kinds named in KINDS, separated by semicolons, or all.
func chosen(of jobName) (kinds []fault) {
	names := os.Getenv("KINDS")
	for _, f := range faults() {
		if of == ofHops && f.name == "leaders move" {
			continue // the embedded broker says that an earlier epoch of a partition which is trimmed to its end ended at 0; Kafka does not
		}
		if names == "" || strings.Contains(";"+names+";", ";"+f.name+";") {
			kinds = append(kinds, f)
		}
	}
	return kinds
}

// try lives a plan in a bubble of its own.
func (pl plan) try(t *testing.T) (came worlds.World) {
	dir := evidence(t.Name())
	stop := guard(worldPatience, dir, pl.repeat())
	defer stop()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		w := pl.world(t, j)
		pl.live(w)
		w.judge()
		w.close()
		came = pl.count(w)
		if d := w.tally.drain.Load(); d > 20 {
			t.Logf("seed %d drained in %d s", pl.seed, d)
		}
		if len(came.Problems) > 0 || os.Getenv("KEEP") != "" {
			j.outcome(came)
			w.keep(dir)
		}
		if v := w.verdict(); v != "" {
			t.Errorf("seed %d: %s\nrepeat: %s\nschedule, history and logs: %s", pl.seed, v, pl.repeat(), dir)
		}
	})
	came.Began, came.Took = began, time.Since(began)
	return came
}

// count sums a world up when everything in it has ended.
func (pl plan) count(w *world) worlds.World {
	w.tally.events.Add(int64(w.feeder.fed))
	w.tally.ghosts.Add(int64(w.feeder.aborted))
	w.tally.seconds.Add(int64(time.Since(w.journal.began).Seconds()))
	if w.feeder.fed < pl.events {
		w.fail("only %d events were fed", w.feeder.fed)
	}
	return w.tally.outcome(pl, w.problems)
}
