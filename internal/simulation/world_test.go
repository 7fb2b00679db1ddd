//go:build synctests

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/topics"
)

const (
	app          = "ledger"
	inputTopic   = "credit-events"
	updatesTopic = "ledger-updates"
	skippedTopic = "ledger-skipped"
	deadTopic    = "ledger-dead-letters"
	stateTopic   = "ledger-post-state"
	upstreamID   = "upstream"
	partitions   = 4
)

// world is one bubble: brokers, upstream, processes. Its goroutine is the test's.
type world struct {
	t          *testing.T
	ctx        context.Context
	rng        *rand.Rand
	dir        string
	window     time.Duration
	job        job
	idle       time.Duration // max.task.idle.ms
	pace       time.Duration // upstream waits up to this long between two transactions
	patience   time.Duration // how long, in fake time, the job may need to process everything once the faults are over
	latency    time.Duration // of a process's request, at most
	clientLogs bool
	expect     error // an error that may end a process
	damaged    bool  // tasks may stop
	journal    *journal
	tally      tally

	stack        *kfake.VirtualNetwork
	cluster      *kfake.Cluster
	addrs        []string
	stateID      [16]byte
	admin        *kgo.Client
	feeder       *feeder
	slots        []*process
	all          []*process // every incarnation
	incarnations int
	refusals     int
	injected     []*kfake.FaultHandle

	mu       sync.Mutex
	problems []string
	findings map[string]bool // invariants that the engine itself reported
}

// newWorld makes the world of the ledger job.
func newWorld(t *testing.T, seed uint64, brokers int, j *journal) *world {
	return newWorldOf(ledgerJob(), t, seed, brokers, j)
}

func newWorldOf(which job, t *testing.T, seed uint64, brokers int, j *journal) *world {
	w := &world{
		t: t, job: which, rng: rand.New(rand.NewPCG(seed, 0x3017)), dir: t.TempDir(), window: topology.DefaultDedupeWindow, pace: 400 * time.Millisecond, patience: drainPatience,
		journal: j, stack: &kfake.VirtualNetwork{}, findings: map[string]bool{},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
	t.Cleanup(cancel)
	w.ctx = ctx
	var ports []int
	for i := range brokers {
		ports = append(ports, 9092+i)
	}
	var err error
	w.cluster, err = kfake.NewCluster(kfake.NumBrokers(brokers), kfake.Ports(ports...), kfake.ListenFn(w.stack.Listen),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "31536000000"}))
	if err != nil {
		t.Fatal(err)
	}
	w.addrs = w.cluster.ListenAddrs()
	if w.admin, err = kgo.NewClient(w.direct()...); err != nil {
		t.Fatal(err)
	}
	w.createTopics()
	w.feeder = newFeeder(w, seed)
	go w.feeder.run(w.ctx)
	return w
}

// direct are the options of a client that no fault of the network concerns.
func (w *world) direct() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(w.addrs...), kgo.Dialer(w.stack.DialContext), kgo.DisableClientMetrics()}
}

func (w *world) createTopics() {
	if _, err := topics.NewAdmin(w.admin).Apply(w.ctx, w.job.pipeline(w).Topics(), topics.Rules{Partitions: partitions, RedeliveryHorizon: time.Second}); err != nil {
		w.t.Fatal(err)
	}
	details, err := kadm.NewClient(w.admin).ListTopics(w.ctx, w.job.state)
	if err != nil {
		w.t.Fatal(err)
	}
	w.stateID = details[w.job.state].ID
}

// keep writes schedule, history and logs into dir.
func (w *world) keep(dir string) {
	if err := w.journal.keep(dir); err != nil {
		w.t.Error(err)
	}
}

// fail notes what must not happen.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	w.journal.logf("schedule.txt", "PROBLEM %s", text)
	w.problems = append(w.problems, text)
}

// found notes an invariant that the engine reported as broken.
func (w *world) found(invariant string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings[invariant] = true
}

func (w *world) sleep(most time.Duration) { time.Sleep(time.Duration(w.rng.Int64N(int64(most)))) }

// launch starts a process in a slot that is empty.
func (w *world) launch(slot int) { w.enter(w.prepare(slot, 1+w.rng.IntN(2), "")) }

// enter starts a prepared process.
func (w *world) enter(p *process) {
	p.start()
	w.slots = append(w.slots, p)
}

// revive starts the next incarnation of a process that was killed.
func (w *world) revive(dead *process) {
	workers := dead.workers
	if w.rng.IntN(4) == 0 {
		workers = 1 + w.rng.IntN(2)
	}
	p := w.prepare(dead.slot, workers, dead.dir)
	p.start()
	if i := slices.Index(w.slots, dead); i >= 0 {
		w.slots[i] = p
	}
}

func (w *world) remove(p *process) {
	w.slots = slices.DeleteFunc(w.slots, func(q *process) bool { return q == p })
}

// freeSlot returns a slot that no process is in.
func (w *world) freeSlot() int {
	for slot := range 16 {
		if !slices.ContainsFunc(w.slots, func(p *process) bool { return p.slot == slot }) {
			return slot
		}
	}
	panic("more than 16 processes")
}

// calm ends all faults.
func (w *world) calm() {
	for _, h := range w.injected {
		h.Remove()
	}
	for _, p := range w.slots {
		p.hold.Store(nil)
		p.net.Heal()
	}
}

const drainPatience = 20 * time.Minute

// finish feeds the rest, waits until the job has committed everything, and stops it.
func (w *world) finish(rest int) {
	if rest > 0 {
		w.feeder.orders <- rest
	}
	close(w.feeder.orders)
	<-w.feeder.done
	w.settle()
	for _, p := range w.slots {
		p.leave()
	}
	for _, p := range w.all {
		select {
		case <-p.done:
		case <-time.After(5 * time.Minute):
			w.fail("process %s still runs five minutes after its kill", p.name)
			<-p.done
		}
		w.tally.acted(p.net.Taken())
		w.tally.lagged.Add(p.net.Lag.Hits())
	}
	time.Sleep(30 * time.Second) // transactions of processes that were killed time out
}

// settle waits until the group has committed every offset of the inputs.
func (w *world) settle() {
	began := time.Now()
	deadline := began.Add(w.patience)
	last, moved := int64(-1), began
	for {
		lag, committed, err := w.lag()
		if err == nil && lag == 0 {
			w.journal.logf("schedule.txt", "drained")
			w.tally.drain.Store(int64(time.Since(began).Seconds()))
			return
		}
		if committed != last {
			last, moved = committed, time.Now()
		}
		if time.Since(moved) > 3*time.Minute { // the embedded broker never evicts a member that died while it joined
			w.evict()
			moved = time.Now()
		}
		if time.Now().After(deadline) {
			w.fail("not drained within %s: %d records behind (%v)", w.patience, lag, err)
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// lag returns how far the group's committed offsets are behind the inputs' ends, and their sum.
func (w *world) lag() (lag, committed int64, err error) {
	adm := kadm.NewClient(w.admin)
	ends, err := adm.ListEndOffsets(w.ctx, w.job.inputs...)
	if err != nil {
		return 0, 0, err
	}
	offsets, err := adm.FetchOffsets(w.ctx, app)
	if err != nil {
		return 0, 0, err
	}
	ends.Each(func(end kadm.ListedOffset) {
		at := int64(0)
		if o, ok := offsets.Lookup(end.Topic, end.Partition); ok {
			at = max(0, o.At)
		}
		lag += end.Offset - at
		committed += at
	})
	return lag, committed, nil
}

// evict removes members that the embedded broker forgot. Those of live processes join again at once.
func (w *world) evict() {
	alive := map[string]bool{}
	for _, p := range w.slots {
		for i := range p.workers {
			alive[fmt.Sprintf("%s-%d", p.instance(), i)] = true
		}
	}
	gone, err := devbroker.Evict(w.ctx, w.admin, app, alive)
	w.journal.logf("schedule.txt", "no progress for three minutes: evicted %v: %v", gone, err)
	w.tally.evicted.Add(int64(len(gone)))
}

// close ends the brokers. Every process has ended.
func (w *world) close() {
	w.admin.Close()
	w.cluster.Close()
	time.Sleep(time.Minute) // what still sat in a socket has met a closed door
}
