package soak

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/topics"
)

const (
	firstPort  = 24000
	input      = "credit-events"
	output     = "ledger-updates"
	partitions = 6
	rate       = 400 // events a second: an output in each partition for each commit
	longest    = 300 // seconds that a test may last, so many events are made
	patience   = 2 * time.Minute

	transactionTimeout = 20 * time.Second // the processor's default
)

// A site is a job of two instances on three brokers, fed all the time, and what is seen of it.
type site struct {
	kafka    *kafkatest.Cluster
	client   *kgo.Client
	command  jobtest.Command
	session  time.Duration
	p1, p2   *jobtest.Instance
	door     *kafkatest.Proxy // of p1
	feed     *jobtest.Feed
	commits  *jobtest.Commits
	readers  *readers
	settings string
}

// stock are a broker's own settings where the tests' brokers have others, and the session time-out of a stock client.
var stock = map[string]string{
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",

	"group.initial.rebalance.delay.ms": "3000",
	"group.min.session.timeout.ms":     "6000",

	"replica.fetch.wait.max.ms": "500",
	"replica.lag.time.max.ms":   "30000",
	"replica.socket.timeout.ms": "30000",
	"request.timeout.ms":        "30000",

	"broker.session.timeout.ms":                 "9000",
	"broker.heartbeat.interval.ms":              "2000",
	"controller.quorum.election.timeout.ms":     "1000",
	"controller.quorum.fetch.timeout.ms":        "2000",
	"controller.quorum.election.backoff.max.ms": "1000",
}

// newSite is a job in full swing with the processor's default session time-out.
func newSite(t *testing.T) *site {
	t.Helper()
	return open(t, &site{session: jobtest.SessionTimeout, settings: "tests' brokers"}, nil)
}

// newStockSite is the same as a stock broker and a stock client's session make it.
func newStockSite(t *testing.T) *site {
	t.Helper()
	return open(t, &site{session: 45 * time.Second, settings: "stock brokers, session 45 s"}, stock)
}

func open(t *testing.T, s *site, config map[string]string) *site {
	t.Helper()
	s.kafka = kafkatest.Start(t, kafkatest.Options{Brokers: 3, FirstPort: firstPort, Config: config})
	s.client = kafkatest.Client(t, s.kafka.Seeds())
	s.command = jobtest.Build(t, s.kafka.Seeds())
	kafkatest.CreateTopic(t, s.client, input, partitions)
	s.command.MustRun(t, 30*time.Second, "topics", "apply")
	s.commits = jobtest.FollowCommits(t, s.kafka.Seeds())
	s.readers = followOutput(t, s.kafka.Seeds())
	s.door = s.kafka.Door(t, "p1")
	session := fmt.Sprint(s.session.Milliseconds())
	s.p1 = s.command.NewInstance(t, "p1", "--session-timeout-ms", session, "--bootstrap-servers", strings.Join(s.door.Seeds(), ","))
	s.p2 = s.command.NewInstance(t, "p2", "--session-timeout-ms", session)
	s.p1.Start(t)
	s.p2.Start(t)
	s.feed = jobtest.StartFeed(t, kafkatest.Client(t, s.kafka.Seeds(), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))), events(t),
		func(int) float64 { return rate })
	s.bothCommit(t)
	return s
}

func events(t *testing.T) []*kgo.Record {
	t.Helper()
	g, err := generate.New(generate.Config{Events: rate * longest, Accounts: 2000, Duplicates: 0.05, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for e := range g.All() {
		records = append(records, jobtest.Record(input, e))
	}
	return records
}

// bothCommit waits until each of the four workers commits and every partition moves: the state to be in before the next fault.
// A fault that meets a rebalance is another one: a member that dies with its join unanswered gets a whole new session when
// the group answers, and its tasks are given away only after that.
func (s *site) bothCommit(t *testing.T) {
	t.Helper()
	now := time.Now()
	for _, i := range []*jobtest.Instance{s.p1, s.p2} {
		for worker := range 2 {
			s.committedBy(t, fmt.Sprintf("%s-%d", i.Name, worker), now)
		}
		i.Running(t)
	}
	s.recovered(t, now)
	if !s.feed.Running() {
		t.Fatal("the feed has ended: the faults met an idle job")
	}
}

// recovered waits until every partition has a commit that was begun after a time, and returns when the last one was seen.
func (s *site) recovered(t *testing.T, after time.Time) time.Time {
	t.Helper()
	var last time.Time
	kafkatest.Within(t, patience, "a commit of every partition", func(context.Context) (err error) {
		last, err = s.commits.Recovered(partitions, after)
		return err
	})
	return last
}

// committedBy waits for a commit that an instance, or one worker of it, began after a time, and returns when it was seen.
func (s *site) committedBy(t *testing.T, who string, after time.Time) time.Time {
	t.Helper()
	return s.commits.Await(t, 0, patience, "a commit of "+who, func(k jobtest.Commit) bool {
		return (k.By(who) || k.Writer == jobtest.App+"-"+who) && k.Written.After(after)
	}).At
}

// holds ends the job and lets verify judge all of it: a bound that was kept with wrong figures is worth nothing.
func (s *site) holds(t *testing.T) {
	t.Helper()
	s.feed.Stop(t)
	jobtest.AwaitEnd(t, s.client, input, partitions, []*jobtest.Instance{s.p1, s.p2})
	t.Logf("verify, after %d commits:\n%s", s.commits.Count(), s.command.MustRun(t, 2*time.Minute, "verify"))
	if err := s.commits.Failure(); err != nil {
		t.Error(err)
	}
}

// stateTopic has the partitions whose leaders are hit.
func stateTopic() string { return topics.StateTopic(jobtest.App, "post") }

// long skips what only a run of minutes measures.
func long(t *testing.T) {
	t.Helper()
	if !soaking() {
		t.Skip("a measurement of minutes is not asked for: `make soak` runs it (SOAK=1)")
	}
}

func soaking() bool { return os.Getenv("SOAK") != "" }
