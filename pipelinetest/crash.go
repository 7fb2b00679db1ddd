package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/topics"
)

// CrashConfig says how much Crash does. The zero value is the default named with each field.
type CrashConfig struct {
	Seeds      int           // how many ways the inputs are cut into transactions, each with all crash points; 1
	Partitions int32         // of every topic; 2
	Timeout    time.Duration // of one run, of which there is one for each crash point; 30 s
}

func (c CrashConfig) withDefaults() CrashConfig {
	if c.Seeds == 0 {
		c.Seeds = 1
	}
	if c.Partitions == 0 {
		c.Partitions = 2
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	return c
}

// kit is one call of Crash.
type kit struct {
	t           testing.TB
	cfg         CrashConfig
	build       func() *pipeline.Pipeline
	pipe        *pipeline.Pipeline // one that is only asked
	app         string
	inputs      []put
	inputTopics []string
	outputs     []string        // topics that are compared
	inner       map[string]bool // topics that a stage writes
	turns       turns
	writers     *writers
	clock       func() time.Time // the wall clock of all processes
	dir         string
	ended       sync.WaitGroup // processes that were killed
}

// Crash runs a pipeline over inputs on an embedded broker, once for each crash point of the commit protocol and for each seed, and
// fails the test unless every run leaves what an undisturbed run leaves. build is called for each process: a process that
// starts again knows nothing but its topics, so build must make everything anew that its handlers use.
//
// A process is struck at each request that it sends: it is killed before the request leaves, or when the broker has acted and the
// answer is lost; its connection is cut and it lives on; the request arrives late, when its sender is gone and the next
// incarnation works; it dies a second time while it restores; another instance takes over; it stands still, is taken over,
// and goes on.
//
// Compared are the committed records of every topic that the pipeline writes (key, value, headers, timestamp), the dead
// letters without their time of writing, and what each store holds. The order within a partition is compared where one task
// writes it and what this task reads comes in a fixed order; else the records of each partition are compared as a multiset, and in
// order for each key that one task writes; times are left out where the order of what was read is open. With one partition and stages in a chain everything is in order. A stage that reads
// what several tasks write sees another order in each run, as in production: if its results may depend on that, use
// Partitions: 1. If a stage has several inputs, records of one topic are fed and processed before
// those of the next. Not compared: offsets in topics that the
// pipeline writes itself, since each transaction takes some, and repartition topics, which are trimmed.
//
// Before that the pipeline runs undisturbed, and a handler that is no function of record, stores and record time is told so: each
// record is processed twice; the same inputs run twice, in one transaction and in one for each record (fifty at most); and the process is
// restarted in between. What gives the same each time within a test is not noticed: the current day, an answer from a network that
// does not change, a goroutine that is always in time.
//
// It needs Go alone: no build tag, no container. A few dozen inputs take some ten seconds; more inputs reach no other crash points; with -short, every fourth crash point is
// tried. t may be nil, in an Example: then what would fail the test panics.
func Crash(t testing.TB, build func() *pipeline.Pipeline, in *Inputs, cfg CrashConfig) {
	if t == nil {
		t = panics{}
	}
	t.Helper()
	k, err := newKit(t, build, in, cfg.withDefaults())
	if err != nil {
		t.Fatalf("crash: %v", err)
	}
	defer k.close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if failure := k.judge(ctx); failure != "" {
		t.Fatalf("crash: pipeline %q: %s", k.app, failure)
	}
}

func newKit(t testing.TB, build func() *pipeline.Pipeline, in *Inputs, cfg CrashConfig) (*kit, error) {
	if cfg.Seeds < 0 || cfg.Partitions < 0 || cfg.Timeout < 0 {
		return nil, fmt.Errorf("%+v: use positive numbers, or 0 for the defaults", cfg)
	}
	k := &kit{t: t, cfg: cfg, build: build, pipe: build(), inner: map[string]bool{}}
	if err := k.pipe.Validate(); err != nil {
		return nil, fmt.Errorf("pipeline %q: %w", k.pipe.App(), err)
	}
	k.app = k.pipe.App()
	var err error
	if k.inputs, err = in.place(k.pipe, cfg.Partitions); err != nil {
		return nil, err
	}
	k.writers, k.clock = newWriters(k.inputs), clockFrom(in.Now())
	k.look()
	k.dir, err = os.MkdirTemp("", "tallystick-crash-")
	return k, err
}

// clockFrom returns a clock that goes on from a time.
func clockFrom(start time.Time) func() time.Time {
	began := time.Now()
	return func() time.Time { return start.Add(time.Since(began)) }
}

// look learns what the pipeline reads and writes.
func (k *kit) look() {
	compared := []string{topics.DeadLetters(k.app)}
	for _, s := range k.pipe.Stages() {
		k.inputTopics = append(k.inputTopics, s.Inputs()...)
		for _, name := range s.Outputs() {
			k.inner[name] = true
			if !repartitions(k.pipe, name) {
				compared = append(compared, name)
			}
		}
	}
	k.turns = k.orderOfInputs()
	slices.Sort(compared)
	k.outputs = slices.Compact(compared)
}

func (k *kit) stateTopics() (names []string) {
	for _, s := range k.pipe.Stages() {
		names = append(names, s.StateTopic())
	}
	return names
}

func (k *kit) close() {
	k.ended.Wait()
	_ = os.RemoveAll(k.dir)
}

// The words for each finding. What a later one says is only said when the earlier ones are ruled out.
const (
	impure      = "the handler is impure: it must depend on its record, the stores and the record's time alone"
	unsettled   = "the handler is not deterministic: two undisturbed runs over the same inputs differ"
	boundaries  = "the handler depends on where transactions end: the same inputs in one transaction and in one for each differ"
	forgetful   = "the handler keeps something outside its stores: a restart between two transactions changes the result"
	crashed     = "a crash changes the result"
	afterCrash  = "the pipeline passes without a crash, also when its process is restarted: either a handler keeps something outside its stores and only loses it when a transaction is undone, or the engine broke its promise: then please report it with this text"
	forgetCause = "what a handler remembers in a variable is gone with the process, and what it counted for a transaction that aborted stays: put it into a store"
)

// judge returns what fails the test, "" if nothing does.
func (k *kit) judge(ctx context.Context) string {
	if failure := k.rehearse(); failure != "" {
		return impureOrStopped(failure)
	}
	calm, failure := k.undisturbed(ctx)
	if failure != "" {
		return failure
	}
	for seed := range k.cfg.Seeds {
		if failure := k.crashes(ctx, uint64(seed+1), calm); failure != "" {
			return failure
		}
	}
	return ""
}

func impureOrStopped(failure string) string {
	if strings.Contains(failure, "wrote something else") || strings.Contains(failure, "after an abort") {
		return impure + "\n" + failure
	}
	return "without a broker: " + failure
}

// undisturbed runs the pipeline without a crash, in every way that must not make a difference.
func (k *kit) undisturbed(ctx context.Context) (calm outcome, failure string) {
	all, each := k.cut(1, nil), k.cut(oneByOne, nil)
	calm, err := k.carry(ctx, plan{cuts: all, workers: 1})
	if err != nil {
		return calm, "undisturbed run: " + err.Error()
	}
	for _, other := range []struct {
		plan       plan
		words, why string
		first, got string // names of the two sides
	}{
		{plan{cuts: all, workers: 1}, unsettled, "", "first run: ", "second run:"},
		{plan{cuts: each, workers: 1, quick: true}, boundaries, "", "at once:   ", "one by one:"},
		{plan{cuts: k.cut(4, nil), workers: 1, restart: true}, forgetful, forgetCause, "without a restart:", "with restarts:    "},
	} {
		out, err := k.carry(ctx, other.plan)
		if err != nil {
			return calm, fmt.Sprintf("undisturbed run, %s %v", other.got, err)
		}
		if d := k.writers.compare(calm, out); d != nil {
			return calm, k.tell(other.words, d.show(other.first, other.got), d, other.why)
		}
	}
	return calm, ""
}

// tell puts a finding into words.
func (k *kit) tell(words, shown string, d *difference, why string) string {
	if why == "" {
		why = suspect(d.permuted)
	}
	text := fmt.Sprintf("%s\n%s\n%s", words, shown, why)
	if stages := k.writers.unsteady(); len(stages) > 0 {
		text += fmt.Sprintf("\n(stages %s read what several tasks write, in another order in each run, here as in production: if their results may depend on that order, test with CrashConfig.Partitions: 1)", strings.Join(stages, ", "))
	}
	return text
}

// cut splits the inputs into about n groups: equal ones, or as rng will. Where a stage has several inputs, a group has records of one
// topic alone, so that their order among the topics is the same in each run.
func (k *kit) cut(n int, rng *rand.Rand) (ends []int) {
	total := len(k.inputs)
	for i := 1; i <= total; i++ {
		switch {
		case i == total, n >= total, k.turns == eachRecord, k.turns == eachTopic && k.inputs[i-1].topic != k.inputs[i].topic:
			ends = append(ends, i)
		case rng == nil && i*n/total != (i-1)*n/total:
			ends = append(ends, i)
		case rng != nil && rng.IntN(total) < n-1:
			ends = append(ends, i)
		}
	}
	return ends
}

// turns says which inputs may come together.
type turns uint8

const (
	anyInputs  turns = iota // every stage has one input
	eachTopic               // a stage has several
	eachRecord              // a stage has several that the pipeline writes
)

// turns finds out what the order among the inputs of a stage needs.
func (k *kit) orderOfInputs() (t turns) {
	for _, s := range k.pipe.Stages() {
		inner := 0
		for _, name := range s.Inputs() {
			if k.inner[name] {
				inner++
			}
		}
		switch {
		case inner > 1:
			return eachRecord
		case len(s.Inputs()) > 1:
			t = eachTopic
		}
	}
	return t
}

// crashes strikes at every point of a seed's run.
func (k *kit) crashes(ctx context.Context, seed uint64, calm outcome) string {
	began, rng := time.Now(), rand.New(rand.NewPCG(seed, 0x7a11))
	base := plan{cuts: k.cut(transactions, rng), workers: 1 + int(seed+1)%2, quick: k.turns != anyInputs}
	out, err := k.carry(ctx, base)
	if err != nil {
		return fmt.Sprintf("undisturbed run, seed %d: %v", seed, err)
	}
	if d := k.writers.compare(calm, out); d != nil {
		return k.tell(boundaries, d.show("at once:  ", "in groups:"), d, "")
	}
	all := points(out.sent, rng)
	if testing.Short() {
		all = quarter(all, rng)
	}
	reached, failures := k.strike(ctx, base, all, seed, calm)
	if len(failures) > 0 {
		return strings.Join(failures, "\n\n")
	}
	if reached*2 < len(all) {
		return fmt.Sprintf("seed %d: only %d of %d crash points were reached: give it more inputs", seed, reached, len(all))
	}
	k.t.Logf("crash: pipeline %q, seed %d: %d crash points, %d reached, in %s", k.app, seed, len(all), reached, time.Since(began).Round(time.Millisecond))
	return ""
}

// oneByOne is how many transactions are one for each input; more inputs than that share them.
const oneByOne = 50

// transactions is how many groups the inputs come in.
const transactions = 3

func quarter(all []point, rng *rand.Rand) (some []point) {
	for i := rng.IntN(4); i < len(all); i += 4 {
		some = append(some, all[i])
	}
	return some
}

// maxFailures is how many crash points a failure shows.
const maxFailures = 2

// strike carries the plan out once for each point, several at a time: most of a run is waiting.
func (k *kit) strike(ctx context.Context, base plan, all []point, seed uint64, calm outcome) (reached int, failures []string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan point)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range min(len(all), 4*runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for at := range next {
				out, failure := k.strikeAt(ctx, base, at, seed, calm)
				mu.Lock()
				if out.reached {
					reached++
				}
				if failure != "" && ctx.Err() == nil {
					failures = append(failures, failure)
				}
				enough := len(failures) >= maxFailures
				mu.Unlock()
				if enough {
					cancel()
				}
			}
		})
	}
	for _, at := range all {
		select {
		case next <- at:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return reached, failures
}

func (k *kit) strikeAt(ctx context.Context, base plan, at point, seed uint64, calm outcome) (outcome, string) {
	base.point = &at
	where := fmt.Sprintf("%s\ncrash point: %s; seed %d", crashed, at, seed)
	out, err := k.carry(ctx, base)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return out, ""
		}
		return out, fmt.Sprintf("%s\n%v", where, err)
	}
	if d := k.writers.compare(calm, out); d != nil {
		return out, k.tell(where, d.show("expected:", "got:     "), d, afterCrash)
	}
	return out, ""
}
