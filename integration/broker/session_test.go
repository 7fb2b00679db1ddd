package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const firstPort = 21000

// A bench is one input with one record, one output, and the names that a transaction needs.
type bench struct {
	seeds              []string
	admin              *kgo.Client
	in, out, group, id string
}

func newBench(t *testing.T, seeds []string) bench {
	t.Helper()
	b := bench{seeds: seeds, admin: kafkatest.Client(t, seeds)}
	b.in, b.out = kafkatest.Name(t, "in"), kafkatest.Name(t, "out")
	b.group, b.id = kafkatest.Name(t, "group"), kafkatest.Name(t, "id")
	kafkatest.CreateTopic(t, b.admin, b.in, 1)
	kafkatest.CreateTopic(t, b.admin, b.out, 1)
	b.feed(t)
	return b
}

// feed adds one input record.
func (b bench) feed(t *testing.T) {
	t.Helper()
	if err := b.admin.ProduceSync(t.Context(), &kgo.Record{Topic: b.in, Value: []byte("event")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// open joins the group with the options that the engine's worker uses.
func (b bench) open(t *testing.T, opts ...kgo.Opt) *kgo.GroupTransactSession {
	t.Helper()
	s, err := kgo.NewGroupTransactSession(append(b.options(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseAllowingRebalance)
	return s
}

func (b bench) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(b.seeds...),
		kgo.TransactionalID(b.id),
		kgo.ConsumerGroup(b.group),
		kgo.ConsumeTopics(b.in),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(250 * time.Millisecond),
		kgo.SessionTimeout(10 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond), // how soon a rebalance is heard of
		kgo.RebalanceTimeout(15 * time.Second),
		kgo.TransactionTimeout(20 * time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}
}

// begin polls one input record and opens a transaction with one output record, on the broker.
func (b bench) begin(t *testing.T, s *kgo.GroupTransactSession) {
	t.Helper()
	pollOne(t, s)
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := s.ProduceSync(t.Context(), &kgo.Record{Topic: b.out, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func pollOne(t *testing.T, s *kgo.GroupTransactSession) *kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		s.AllowRebalance()
		if rs := s.PollRecords(ctx, 1).Records(); len(rs) == 1 {
			return rs[0]
		}
	}
	t.Fatal("no input record within 20 s")
	return nil
}

// commit ends the transaction within the limit.
func commit(t *testing.T, s *kgo.GroupTransactSession, limit time.Duration) (bool, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return s.End(ctx, kgo.TryCommit)
}

func mustCommit(t *testing.T, s *kgo.GroupTransactSession) {
	t.Helper()
	if ok, err := commit(t, s, 10*time.Second); !ok || err != nil {
		t.Fatalf("commit: %v, %v", ok, err)
	}
}

// fence initializes the id from another client, as a new incarnation of its owner does.
func (b bench) fence(t *testing.T, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, _, err := kafkatest.Client(t, b.seeds, kgo.TransactionalID(b.id)).ProducerID(ctx)
	return err
}

// offset is the stable committed offset: it waits for a commit that is still pending.
func (b bench) offset(t *testing.T) (next int64) {
	t.Helper()
	kafkatest.Within(t, 10*time.Second, "stable offset", func(ctx context.Context) (err error) {
		next, err = kafkatest.StableOffset(ctx, b.admin, b.group, b.in, 0)
		return err
	})
	return next
}

// outputEnds are last stable offset and high watermark of the output.
func (b bench) outputEnds(t *testing.T) (lastStable, highWatermark int64) {
	t.Helper()
	lso, hw, err := kafkatest.Ends(t.Context(), b.admin, b.out, 0)
	if err != nil {
		t.Fatal(err)
	}
	return lso, hw
}

// settles waits until the output's markers are written, then says what decided says.
func (b bench) settles(t *testing.T, visible int) {
	t.Helper()
	kafkatest.Within(t, 10*time.Second, "last marker", b.stable)
	b.decided(t, visible)
}

func (b bench) stable(ctx context.Context) error {
	lso, hw, err := kafkatest.Ends(ctx, b.admin, b.out, 0)
	if err == nil && lso < hw {
		err = fmt.Errorf("output is stable up to %d of %d", lso, hw)
	}
	return err
}

// decided fails the test unless the output has no open transaction now and shows n records.
func (b bench) decided(t *testing.T, visible int) {
	t.Helper()
	if lso, hw := b.outputEnds(t); lso != hw {
		t.Errorf("output is stable up to %d of %d: a transaction is still open", lso, hw)
	}
	if got := kafkatest.Committed(t, b.seeds, b.out, 0); len(got) != visible {
		t.Errorf("a committed reader sees %d output records, want %d", len(got), visible)
	}
}
