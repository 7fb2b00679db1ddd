package faults

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/ledger/generate"
)

const (
	firstPort  = 21200
	input      = "credit-events"
	partitions = 6
	kills      = 10

	faultSeconds = 60  // what the faults take, roughly: the feed is paced to last that long
	reserve      = 10  // the last tenth of the feed waits for the end of the faults…
	trickle      = 100 // …at so many events a second, should they take longer

	killsOpen = 7 // of the kills, at least, hit an open transaction
)

// A workload is the records to feed and what a correct ledger makes of them.
type workload struct {
	records []*kgo.Record
	books   jobtest.Books
}

func TestLedgerSurvivesFaults(t *testing.T) {
	w := newWorkload(t, eventCount(t))
	r := start(t, w, kafkatest.Options{})
	r.scaleUp(t, "p2", "p3")
	for n := range kills {
		r.kill(t, r.instances[n%len(r.instances)])
	}
	r.freeze(t, r.instances[1])
	r.loseBroker(t)
	r.scaleDown(t)
	t.Logf("of %d kills %d hit an open transaction by the look just before, %d left one behind", kills, r.intoOpen, r.leftOpen)
	if r.intoOpen < killsOpen {
		t.Errorf("%d of %d kills hit an open transaction, want at least %d", r.intoOpen, kills, killsOpen)
	}
	r.judge(t, w)
}

// judge ends the feed, waits until all of it is committed, and lets verify and the books say what they think of it.
func (r *run) judge(t *testing.T, w workload, verify ...string) {
	t.Helper()
	r.feed.Finish(t)
	begin := time.Now()
	jobtest.AwaitEnd(t, r.client, input, partitions, r.instances)
	t.Logf("drained %v after the last event", time.Since(begin).Round(time.Millisecond))
	begin = time.Now()
	t.Logf("verify, after %d commits:\n%s", r.commits.Count(), r.command.MustRun(t, 2*time.Minute, append([]string{"verify"}, verify...)...))
	t.Logf("verify took %v", time.Since(begin).Round(time.Millisecond))
	w.books.Judge(t, r.kafka.Seeds(), partitions)
	for _, i := range r.instances {
		i.Drain(t)
	}
	if err := r.commits.Failure(); err != nil {
		t.Error(err)
	}
}

// start brings up brokers, topics, one processor and the feed.
func start(t *testing.T, w workload, o kafkatest.Options) *run {
	t.Helper()
	o.FirstPort = firstPort
	k := kafkatest.Start(t, o)
	cl := kafkatest.Client(t, k.Seeds())
	r := &run{kafka: k, client: cl, adm: kadm.NewClient(cl), command: jobtest.Build(t, k.Seeds())}
	producer := kafkatest.Client(t, k.Seeds(), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(5*time.Millisecond))
	kafkatest.CreateTopic(t, producer, input, partitions)
	r.command.MustRun(t, 30*time.Second, "topics", "apply")
	r.commits = jobtest.FollowCommits(t, k.Seeds())
	first := r.command.NewInstance(t, "p1")
	r.instances = append(r.instances, first)
	first.Start(t)
	r.feed = jobtest.StartFeed(t, producer, w.records, w.pace)
	r.commits.Await(t, 0, recovery, "the first commit", func(jobtest.Commit) bool { return true })
	return r
}

// eventCount is FAULT_EVENTS, or what the full run takes.
func eventCount(t *testing.T) int {
	t.Helper()
	s := os.Getenv("FAULT_EVENTS")
	if s == "" {
		return 200_000
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1000 {
		t.Fatalf("FAULT_EVENTS=%q: give a number of events, at least 1000", s)
	}
	return n
}

// newWorkload makes all events before the first one is sent, and with them the sums that must come out.
func newWorkload(t *testing.T, events int) workload {
	t.Helper()
	g, err := generate.New(generate.Config{Events: events, Accounts: 2000, Duplicates: 0.05, Conflicts: 0.002, Malformed: 0.002, Refused: 0.01, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	w := workload{books: jobtest.Books{Outcomes: map[string]int{}}}
	for e := range g.All() {
		w.records = append(w.records, jobtest.Record(input, e))
		w.books.Outcomes[jobtest.OutcomeTopic(e.Class.Outcome)]++
	}
	w.books.Balances = jobtest.Lines(g.Balances())
	return w
}

// pace is in events a second.
func (w workload) pace(next int) float64 {
	steady := len(w.records) - len(w.records)/reserve
	if next >= steady {
		return trickle
	}
	return float64(steady) / faultSeconds
}
