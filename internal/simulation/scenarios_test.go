//go:build synctests

package simulation

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/faultnet"
	"github.com/tallystick/tallystick/internal/session"
)

// scenario is a directed story: the least that shows one promise. The engine as it is gets through each without a mark.
type scenario struct {
	name   string
	window time.Duration // dedupe.window; 0 = the default
	job    jobName
	tell   func(w *world)
	alone  func(w *world) []string // instead of tell: a story without the job, which judges itself and closes the world
}

// outcome is what a scenario, or a seed, left behind.
type outcome struct {
	problems string
	marks    []string // verdicts of the judge, and invariants that the engine itself reported
}

// live tells a scenario in a bubble of its own.
func (s scenario) live(t *testing.T, seed uint64) (o outcome) {
	dir := evidence("scenario-" + s.name)
	stop := guard(worldPatience, dir, "go test -tags synctests -run 'TestScenarios/"+s.name+"' ./internal/simulation")
	defer stop()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(jobOf(s.job), t, seed, 2, newJournal())
		w.pace, w.patience = 20*time.Millisecond, 2*time.Minute
		if s.window > 0 {
			w.window = s.window
		}
		if s.alone != nil {
			o.marks = s.alone(w)
			o.problems = w.verdict()
			return
		}
		s.tell(w)
		w.calm()
		w.finish(100)
		o = w.outcome()
		w.close()
		if o.problems != "" && os.Getenv("TALLYSTICK_MUTANT") == "" { // under a mutant it is meant to fail
			w.keep(dir)
		}
	})
	return o
}

// outcome judges the world and collects the marks.
func (w *world) outcome() (o outcome) {
	verdicts := w.judge()
	o.problems = w.verdict()
	w.mu.Lock()
	defer w.mu.Unlock()
	for invariant := range w.findings {
		verdicts = append(verdicts, invariant)
	}
	slices.Sort(verdicts)
	o.marks = slices.Compact(verdicts)
	return o
}

// begin starts one process of one worker and lets it commit some events.
func (w *world) begin() *process {
	p := w.prepare(0, 1, "")
	w.enter(p)
	w.give(150)
	return p
}

// give feeds events and waits until they are committed.
func (w *world) give(n int) {
	w.feeder.orders <- n
	time.Sleep(500 * time.Millisecond)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if lag, _, err := w.lag(); err == nil && lag == 0 && len(w.feeder.orders) == 0 {
			return
		}
	}
}

// restart kills a process and starts its next incarnation.
func (w *world) restart(p *process) *process {
	p.kill()
	w.revive(p)
	time.Sleep(2 * time.Second)
	return w.slots[0]
}

// refuse makes the broker refuse one batch of a topic.
func (w *world) refuse(topic string) {
	w.inject(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.MessageTooLarge, Count: 1, When: ours})
}

func scenarios() []scenario {
	return []scenario{
		{name: "restart", tell: func(w *world) { w.restart(w.begin()); w.give(60) }},
		{name: "killed-before-the-end", tell: killedBeforeTheEnd},
		{name: "dead-letters-killed-before-the-end", tell: func(w *world) { killedAmid(w, func() { w.feeder.only(oddOnes) }) }},
		{name: "restarted-in-time", tell: restartedInTime},
		{name: "readers-freed", tell: readersFreed},
		{name: "readers-freed-of-outputs-alone", tell: outputsFreed},
		{name: "look-up-fails", tell: lookUpFails},
		{name: "output-refused", tell: func(w *world) { outputRefused(w, w.job.output) }},
		{name: "state-refused", tell: func(w *world) { outputRefused(w, w.job.state) }},
		{name: "refused-then-restart", tell: refusedThenRestart},
		{name: "applied-but-unknown", tell: appliedAnsweredUnknown},
		{name: "late-marker", tell: markerIsLate},
		{name: "old-record-after-restart", window: time.Minute, tell: oldRecordAfterRestart},
		{name: "pair-restart", job: ofPairs, tell: func(w *world) { w.restart(w.begin()); w.give(60) }},
		{name: "pair-refused-then-restart", job: ofPairs, tell: refusedThenRestart},
		{name: "task-moves", job: ofPairs, tell: taskMoves},
		{name: "hop-restart", job: ofHops, tell: func(w *world) { w.restart(w.begin()); w.give(60) }},
		{name: "hop-killed-before-the-end", job: ofHops, tell: killedBeforeTheEnd},
		{name: "hop-killed-while-it-purges", job: ofHops, tell: killedWhileItPurges},
		{name: "foreign-handle", alone: foreignHandle},
		{name: "dead-token", alone: deadToken},
		{name: "failed-record", alone: failedRecord},
	}
}

// killedBeforeTheEnd kills a process whose offsets are in the transaction and whose EndTxn never leaves.
func killedBeforeTheEnd(w *world) { killedAmid(w, func() { w.feeder.orders <- 60 }) }

// oddOnes are records that become dead letters.
func oddOnes(f *feeder) (records []*kgo.Record) {
	for len(records) < 12 {
		if r := f.odd(); r != nil {
			records = append(records, r)
		}
	}
	return records
}

// killedAmid does so in the transaction that processes what feed feeds.
func killedAmid(w *world, feed func()) {
	p := w.begin()
	sprung := make(chan struct{})
	p.net.Arm(killsAt(p, kmsg.EndTxn, faultnet.DropRequest, sprung))
	feed()
	await(p, sprung)
	w.revive(p)
	time.Sleep(2 * time.Second)
	w.give(60)
}

// restartBound is how long a restart may take until it commits, whatever an earlier incarnation left open.
const restartBound = 3 * time.Second

// restartedInTime restarts a process that died with an open transaction: the mark is "late" when that is waited for.
func restartedInTime(w *world) {
	p := w.begin()
	sprung := make(chan struct{})
	p.net.Arm(killsAt(p, kmsg.EndTxn, faultnet.DropRequest, sprung))
	w.feeder.orders <- 60
	await(p, sprung)
	commits, began := w.tally.commits.Load(), time.Now()
	for w.revive(p); w.tally.commits.Load() == commits && time.Since(began) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(began); took > restartBound {
		w.found("late")
		w.fail("the restarted process commits after %s, at most %s is allowed", took, restartBound)
	}
}

// takeOverBound is how long readers of the output wait behind an owner that died: its session, and then no longer.
const takeOverBound = 14 * time.Second

// readersFreed kills a process whose transaction is open and has no offsets yet: nobody waits for it but readers of the output.
func readersFreed(w *world) {
	p := w.twoAtWork()
	sprung := make(chan struct{})
	p.net.Arm(killsAt(p, kmsg.TxnOffsetCommit, faultnet.DropRequest, sprung))
	w.feeder.only(eventsAtOnce)
	await(p, sprung)
	w.awaitReaders(p)
}

// outputsFreed kills it when it has sent the first outputs of a transaction, long before the commit: there is no state of it either.
func outputsFreed(w *world) {
	p := w.twoAtWork()
	sprung := make(chan struct{})
	var once sync.Once
	trap := func(at string) {
		if at == "committed" {
			once.Do(func() { p.net.Arm(killsAt(p, kmsg.Produce, faultnet.DropResponse, sprung)) })
		}
	}
	p.hold.Store(&trap)
	for range 20 {
		w.feeder.only(eventsAtOnce)
	}
	await(p, sprung)
	w.awaitReaders(p)
}

// eventsAtOnce are events that are fed in one transaction.
func eventsAtOnce(f *feeder) (records []*kgo.Record) {
	for range 50 {
		records = append(records, f.source.event())
	}
	return records
}

// twoAtWork are two processes that have shared the tasks; it returns the first.
func (w *world) twoAtWork() *process {
	p := w.begin()
	w.enter(w.prepare(1, 1, ""))
	time.Sleep(20 * time.Second)
	w.give(100)
	return p
}

// killsAt kills a process at its next request of a key.
func killsAt(p *process, key kmsg.Key, deed faultnet.Deed, sprung chan<- struct{}) *faultnet.Rule {
	return &faultnet.Rule{Name: "kill", Key: key, Left: 1, Order: faultnet.Order{Deed: deed, Then: func() { p.kill(); close(sprung) }}}
}

// awaitReaders waits until nothing of a dead process holds readers of the output up any more, if anything does: its last request may
// have been one of other records. The mark is "late" when that takes longer than a take-over.
func (w *world) awaitReaders(dead *process) {
	w.remove(dead)
	began := time.Now()
	for partition, stable := range w.held(w.job.output) {
		tp := session.TopicPartition{Topic: w.job.output, Partition: partition}
		for at := stable; at == stable && time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
			at, _ = session.StableOffset(w.ctx, w.admin, tp)
		}
	}
	if took := time.Since(began); took > takeOverBound {
		w.found("late")
		w.fail("readers of the output waited %s for a dead owner's transaction, at most %s is allowed", took, takeOverBound)
	}
}

// held returns the last stable offset of the partitions that have an open transaction.
func (w *world) held(topic string) map[int32]int64 {
	held := map[int32]int64{}
	for partition := range int32(partitions) {
		tp := session.TopicPartition{Topic: topic, Partition: partition}
		stable, err := session.StableOffset(w.ctx, w.admin, tp)
		end, endErr := session.EndOffset(w.ctx, w.admin, tp)
		if err != nil || endErr != nil {
			w.fail("offsets of %v: %v %v", tp, err, endErr)
		}
		if stable < end {
			held[partition] = stable
		}
	}
	return held
}

// lookUpFails restarts a process that is told for a while that the end of its state partitions is not known.
func lookUpFails(w *world) {
	p := w.begin()
	p.kill()
	w.inject(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: w.job.state, Err: kerr.OffsetNotAvailable, Count: 80})
	w.revive(p)
	time.Sleep(3 * time.Second)
}

// outputRefused has a record refused, once: the transaction aborts and its input is processed again.
func outputRefused(w *world, topic string) {
	w.begin()
	w.refuse(topic)
	w.give(60)
	w.give(60)
}

// refusedThenRestart commits a record alone while others of its poll wait, and restarts right after.
func refusedThenRestart(w *world) {
	p := w.begin()
	w.refuse(w.job.output)
	aborted := make(chan struct{})
	sprung := make(chan struct{})
	var once, twice sync.Once
	trap := func(at string) {
		switch at {
		case "aborted":
			once.Do(func() { close(aborted) })
		case "committed":
			select {
			case <-aborted:
				twice.Do(func() { p.kill(); close(sprung) })
			default:
			}
		}
	}
	p.hold.Store(&trap)
	w.feeder.orders <- 120
	await(p, sprung)
	w.revive(p)
	time.Sleep(2 * time.Second)
}

// appliedAnsweredUnknown has the broker commit and answer that it does not know.
func appliedAnsweredUnknown(w *world) {
	p := w.begin()
	p.net.Arm(&faultnet.Rule{Name: "unknown", Key: kmsg.EndTxn, Left: 1, Order: faultnet.Order{Deed: faultnet.AnswerError, Code: kerr.UnknownServerError.Code}})
	w.give(60)
	w.give(60)
}

// markerIsLate restarts a process on brokers where the last transaction's marker has not reached the state partitions.
func markerIsLate(w *world) {
	p := w.begin()
	p.kill()
	w.slots = nil
	next := w.prepare(0, 1, p.dir)
	next.net.Lag.Set(8)
	w.enter(next)
	time.Sleep(5 * time.Second)
	next.net.Lag.Set(0)
	time.Sleep(3 * time.Second)
}

// oldRecordAfterRestart sends records that are older than the window, unknown, and the first of their partitions after a
// restart: only the restored stream time tells that they are too old.
func oldRecordAfterRestart(w *world) {
	p := w.begin()
	w.give(100)
	w.restart(p)
	w.feeder.only(func(f *feeder) (records []*kgo.Record) {
		for i := range int32(partitions) {
			records = append(records, f.stale(i, time.Now().Add(-2*time.Minute)))
		}
		return records
	})
	time.Sleep(2 * time.Second)
}

// TestScenarios shows that the engine as it is gets through the stories that its mutants do not survive.
func TestScenarios(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if o := s.live(t, uint64(envInt("SEED", 1))); o.problems != "" || len(o.marks) > 0 {
				t.Errorf("marks: [%s] %s\nevidence: %s", strings.Join(o.marks, ", "), o.problems, evidence("scenario-"+s.name))
			}
		})
	}
}
