package campaign

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/campaign/results"
	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

const (
	firstPort = 22600
	instances = 4 // at most
	// patience is how long anything may take before it counts as not survived.
	patience = 40 * time.Second
)

// A round is one cluster, one job and its upstream, and what is seen of them.
type round struct {
	kafka   *kafkatest.Cluster
	client  *kgo.Client // of the test: writes each record to the partition that it names
	adm     *kadm.Client
	command jobtest.Command
	all     []*instance // running or not
	commits commits
	books   *books
	up      *upstream
	rng     *rand.Rand // of the fault at hand
	frozen  *frozen    // who is in a long stop while other faults go on
	over    func(results.Fault)
}

// startRound brings up brokers, topics, three processors and the upstream.
func startRound(t *testing.T, c jobtest.Command, seed uint64) *round {
	t.Helper()
	k := kafkatest.Start(t, kafkatest.Options{Brokers: 3, FirstPort: firstPort})
	cl := kafkatest.Client(t, k.Seeds(), kgo.DialTimeout(2*time.Second))
	r := &round{kafka: k, client: cl, adm: kadm.NewClient(cl), command: c.For(k.Seeds()), books: newBooks(t, seed)}
	kafkatest.CreateTopic(t, cl, input, partitions, "message.timestamp.after.max.ms", "9223372036854775807")
	kafkatest.CreateTopic(t, cl, journal, 1)
	r.command.MustRun(t, patience, "topics", "apply", "--topics-allow", allowed)
	r.commits = commits{jobtest.FollowCommits(t, k.Seeds())}
	for n := range instances {
		name := fmt.Sprintf("p%d", n+1)
		r.all = append(r.all, newInstance(t, c, name, k.Door(t, name)))
	}
	for _, i := range r.all[:3] {
		i.start(t)
	}
	from := time.Now()
	r.up = startUpstream(t, k.Seeds(), r.books, seed)
	r.awaitRecovery(t, from)
	return r
}

// awaitRecovery waits until each partition has committed what was written after from, and returns when it had.
func (r *round) awaitRecovery(t *testing.T, from time.Time) (at time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := kafkatest.Poll(ctx, func(context.Context) (err error) {
		r.allRunning(t)
		at, err = r.commits.recovered(from)
		return err
	})
	if err != nil {
		r.autopsy(t)
		t.Fatalf("not recovered within %v: %v", patience, err)
	}
	return at
}

// allRunning fails the test when a processor that is meant to run has ended.
func (r *round) allRunning(t *testing.T) {
	t.Helper()
	for _, i := range r.all {
		i.running(t)
	}
}

// running are the instances that are up and not in a long stop.
func (r *round) running() (list []*instance) {
	for _, i := range r.all {
		if i.up() && !r.stopped(i) {
			list = append(list, i)
		}
	}
	return list
}

// victim is one of the running instances.
func (r *round) victim() *instance {
	list := r.running()
	return list[r.rng.IntN(len(list))]
}

// broker is one of the brokers.
func (r *round) broker() *kafkatest.Broker {
	return r.kafka.Brokers[r.rng.IntN(len(r.kafka.Brokers))]
}

// pause lets a seeded time between the two durations go by.
func (r *round) pause(least, most time.Duration) {
	<-time.After(least + time.Duration(r.rng.Int64N(int64(most-least))))
}

// tries is how often a fault is made that meets nothing.
const tries = 3

// fault breaks one thing; the subtest of its name tells whether it was survived. Its line is over with it, or, of a long stop,
// with the thaw.
func (r *round) fault(t *testing.T, p plan) {
	t.Helper()
	began := time.Now()
	r.rng = p.rng
	f := results.Fault{Seed: p.seed, Number: p.number, Kind: p.kind.name, At: began.UTC(), Verdict: results.Failed}
	lasts := func() bool { return r.frozen != nil && r.frozen.line == nil }
	t.Run(fmt.Sprintf("%04d-%s", p.number, p.kind.name), func(t *testing.T) {
		r.strike(t, p, &f)
		for n := 1; n < tries && f.Verdict == results.Missed && !lasts(); n++ {
			r.strike(t, p, &f)
		}
	})
	f.Cost = time.Since(began)
	if lasts() && !t.Failed() {
		r.frozen.line = &f
		return
	}
	r.over(f)
}

// strike makes the fault once and fills in its line. What the first one of a pair is to lead to is asked for when the second
// one is over and everything runs again.
func (r *round) strike(t *testing.T, p plan, f *results.Fault) {
	t.Helper()
	began := time.Now()
	o := &outcome{from: began, verdict: results.Survived, combined: p.with != nil}
	first := &outcome{from: began, verdict: results.Survived, first: true}
	f.With = ""
	if p.with != nil {
		p.with.do(t, r, first)
		if first.verdict != results.Missed {
			f.With = p.with.name
		}
	}
	p.kind.do(t, r, o)
	at := r.awaitRecovery(t, o.from)
	f.Recovery, f.Stood, f.Detail = at.Sub(o.from), r.commits.stood(began, at), o.detail
	if f.Recovery > patience {
		t.Fatalf("recovered %v after the fault, want at most %v", f.Recovery, patience)
	}
	o.led(t)
	r.whole(t)
	if z := r.frozen; z != nil && z.line == nil {
		z.first = first // its victim may be the one that stands still
	} else {
		first.led(t)
	}
	f.Verdict, f.Detail = o.verdict, o.detail
}

// whole brings back what the fault left down: the next one is to meet a cluster and three processors in order.
func (r *round) whole(t *testing.T) {
	t.Helper()
	r.kafka.Ready(t)
	for _, i := range r.all[:3] {
		if !i.up() {
			i.start(t)
		}
	}
}

// judge ends the stream and lets verify and the books judge all of it.
func (r *round) judge(t *testing.T) (holds bool) {
	t.Helper()
	if t.Failed() {
		return false // the processors are dead by then, and the topics are kept
	}
	return t.Run("judge", func(t *testing.T) {
		r.up.finish(t)
		r.settled(t)
		t.Log(r.command.MustRun(t, 2*patience, "verify", "--raw"))
		r.books.judge(t, r.kafka.Seeds())
		if err := r.commits.Failure(); err != nil {
			t.Error(err)
		}
		for _, i := range r.running() {
			i.drain(t)
		}
		t.Log(r.up.figures())
	})
}
