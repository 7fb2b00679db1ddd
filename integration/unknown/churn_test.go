package unknown

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// churn is three members that come and go by a seed, while markers are held at random.
type churn struct {
	*site
	rng     *rand.Rand
	members []*coming
	next    []string       // kinds of the faults to come
	count   map[string]int // faults by kind
	late    int            // requests with markers that waited while they were held
}

// coming is a member that is there, or away until a time.
type coming struct {
	*member
	kind  string    // of the last fault
	back  time.Time // when it is to come back; zero: it is there
	ended bool      // it is away because its process ended
}

// The kinds of fault. A crash and a zombie leave an open transaction behind, with all its records written.
const (
	leaves = "leave"
	zombie = "zombie"
	crash  = "crash"
)

// session is how long a silent member keeps its tasks.
const session = 3 * time.Second

// number is a setting of the environment, or what a quick run takes.
func number(t *testing.T, name string, usual int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: give a number from 1 on", name, s)
	}
	return n
}

// Members leave in order, crash and fall asleep with open transactions, and the markers of all transactions come when they like. No
// anomaly: the checker finds none, no invariant is violated, no task stops. Told of the restores: how many were proven below an open
// transaction, and how many read to the high watermark.
//
// CHURN_SECONDS and CHURN_SEED make another run of it.
func TestNothingGoesWrongUnderChurnWithLateMarkers(t *testing.T) {
	seed := number(t, "CHURN_SEED", 1)
	lasts := time.Duration(number(t, "CHURN_SECONDS", 25)) * time.Second
	s := newSite(t, kafkatest.Options{Brokers: 3, Proxied: true, Config: map[string]string{"broker.session.timeout.ms": "6000"}}, 6)
	c := &churn{site: s, rng: rand.New(rand.NewPCG(uint64(seed), 1)), count: map[string]int{}}
	for i := range 3 {
		m := &coming{member: s.member(settings{Name: fmt.Sprintf("m%d", i), Leaves: true, Session: session, Timeout: 8 * time.Second, Interval: 50 * time.Millisecond})}
		c.members = append(c.members, m)
		m.start(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	ups := []*upstream{s.startUpstream(ctx, uint64(seed), false), s.startUpstream(ctx, uint64(seed)+1_000_000, true)}
	late := s.holdAtRandom(ctx, rand.New(rand.NewPCG(uint64(seed), 2)))
	for next := time.Now().Add(3 * time.Second); ctx.Err() == nil; pause(ctx, 20*time.Millisecond) {
		c.revive(t, false)
		if time.Now().After(next) && c.fault(t) {
			next = time.Now().Add(between(c.rng, 400*time.Millisecond, 1600*time.Millisecond))
		}
	}
	c.late = <-late
	for _, up := range ups {
		if err := <-up.ended; err != nil {
			t.Fatalf("upstream: %v", err)
		}
	}
	t.Logf("seed %d: events fed %d, and %d in transactions, and %d in transactions that aborted", seed, ups[0].fed, ups[1].fed, ups[1].ghosts)
	c.finish(t)
}

func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)))
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// fault befalls a member that is there, and reports whether it could. One is always left, and both others while a zombie's tasks are
// nobody's.
func (c *churn) fault(t *testing.T) bool {
	t.Helper()
	if len(c.next) == 0 {
		c.next = []string{leaves, zombie, crash}
		c.rng.Shuffle(len(c.next), func(i, j int) { c.next[i], c.next[j] = c.next[j], c.next[i] })
	}
	m, kind, away := c.members[c.rng.IntN(len(c.members))], c.next[0], c.away()
	if !m.back.IsZero() || away == len(c.members)-1 || away > 0 && kind == zombie {
		return false
	}
	c.next = c.next[1:]
	m.kind = kind
	c.count[kind]++
	switch kind {
	case leaves:
		m.ended, m.back = true, time.Now().Add(between(c.rng, 500*time.Millisecond, 2*time.Second))
		go func() { _ = m.Terminate(context.Background()) }() // whether it has ended is looked at when it is to come back
	case zombie:
		m.back = time.Now().Add(between(c.rng, session+500*time.Millisecond, 2*session)) // others have its tasks by then
		m.order(t, orderFreeze)
	case crash:
		m.ended, m.back = true, time.Now().Add(between(c.rng, 300*time.Millisecond, 2*session))
		m.order(t, orderDie)
	}
	return true
}

func (c *churn) away() (n int) {
	for _, m := range c.members {
		if !m.back.IsZero() {
			n++
		}
	}
	return n
}

// revive brings members back whose time has come, or all of them. A member that ended without being told to fails the test.
func (c *churn) revive(t *testing.T, all bool) {
	t.Helper()
	for _, m := range c.members {
		select {
		case <-m.Done():
			if !m.ended {
				t.Fatalf("%s ended by itself with exit code %d: see %s", m.settings.Name, m.ExitCode(), m.log)
			}
		default:
		}
		if m.back.IsZero() || !all && time.Now().Before(m.back) {
			continue
		}
		m.revive(t)
	}
}

// drainLimit is how long a leaving member is waited for: it waits for its last commit, whose markers may be held.
const drainLimit = 10 * time.Second

func (m *coming) revive(t *testing.T) {
	t.Helper()
	switch m.kind {
	case zombie:
		m.order(t, "") // it had no transaction to fall asleep in
		m.Resume()
	case leaves:
		if !m.gone() && time.Since(m.back) < drainLimit {
			return
		}
		fallthrough
	default:
		m.Kill() // a crash without a transaction to crash in
		m.start(t)
	}
	m.back, m.ended = time.Time{}, false
}

func (m *coming) gone() bool {
	select {
	case <-m.Done():
		return true
	default:
		return false
	}
}

// holdAtRandom holds the markers that go to one broker after the other, each for a while. When none is held any more the channel gives
// how many requests with markers have waited.
func (s *site) holdAtRandom(ctx context.Context, rng *rand.Rand) <-chan int {
	late := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			b := s.Brokers[rng.IntN(len(s.Brokers))].Between
			waiting := func() int { return b.Arrived(kmsg.WriteTxnMarkers) - b.Passed(kmsg.WriteTxnMarkers) }
			b.Hold(kmsg.WriteTxnMarkers)
			before := waiting()
			pause(ctx, between(rng, 200*time.Millisecond, 1200*time.Millisecond))
			n += max(0, waiting()-before)
			b.Release(kmsg.WriteTxnMarkers)
			pause(ctx, between(rng, 100*time.Millisecond, 1500*time.Millisecond))
		}
		late <- n
	}()
	return late
}

// finish lets the job come to its end and judges it.
func (c *churn) finish(t *testing.T) {
	t.Helper()
	for c.away() > 0 {
		c.revive(t, true)
		pause(t.Context(), 20*time.Millisecond)
	}
	for _, m := range c.members { // an order that came too late to be taken back
		m.Resume()
	}
	c.awaitEnd(t, 60*time.Second)
	c.awaitMarkers(t, 30*time.Second)
	c.holds(t)
	told := c.told(t)
	t.Logf("faults %v; requests with markers that were held %d; %s", c.count, c.late, told)
	if c.late == 0 {
		t.Error("no marker has come late")
	}
	for kind, least := range map[string]int{leaves: 2, zombie: 2, crash: 2} {
		if c.count[kind] < least {
			t.Errorf("%d faults of kind %s, want %d at least", c.count[kind], kind, least)
		}
	}
	if told.byProof.n() == 0 || told.toTheEnd.n() == 0 || told.commits < 20 || told.crashed == 0 || told.asleep == 0 {
		t.Errorf("the run has not tried what it is for: %s", told)
	}
}
