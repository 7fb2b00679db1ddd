package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const user, password = "writer", "pw"

func asUser() kgo.Opt { return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()) }

// A doomed record is one that the broker or the client refuses.
type doomed struct {
	name   string
	config []string // of its topic
	spoil  func(t *testing.T, b bench, topic string)
	record kgo.Record
}

func doomedRecords() []doomed {
	noise := make([]byte, 2<<20) // does not compress below the limits
	for i := range noise {
		noise[i] = byte(rand.N(256))
	}
	return []doomed{
		{name: "larger than the topic allows", config: []string{"max.message.bytes", "2000"}, record: kgo.Record{Value: noise[:5000]}},
		{name: "larger than the client allows", record: kgo.Record{Value: noise}},
		{name: "stamped two hours ahead", record: kgo.Record{Timestamp: time.Now().Add(2 * time.Hour)}},
		{name: "no key on a compacted topic", config: []string{"cleanup.policy", "compact"}},
		{name: "no such partition", record: kgo.Record{Partition: 7}},
		{name: "no such topic", spoil: func(_ *testing.T, _ bench, _ string) {}, record: kgo.Record{Topic: "nowhere"}},
		{name: "topic deleted", spoil: deleteTopic},
		{name: "writing denied", spoil: denyWriting},
	}
}

func deleteTopic(t *testing.T, b bench, topic string) {
	adm := kadm.NewClient(b.admin)
	if _, err := adm.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	kafkatest.Within(t, 5*time.Second, "deletion", func(ctx context.Context) error {
		m, err := adm.Metadata(ctx, topic)
		if err == nil && !errors.Is(m.Topics[topic].Err, kerr.UnknownTopicOrPartition) {
			err = errors.New("still there")
		}
		return err
	})
}

func denyWriting(t *testing.T, b bench, topic string) {
	deny := kadm.NewACLs().Deny("User:" + user).DenyHosts("*").Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite)
	if _, err := kadm.NewClient(b.admin).CreateACLs(t.Context(), deny); err != nil {
		t.Fatal(err)
	}
	probe := kafkatest.Client(t, b.seeds, asUser())
	kafkatest.Within(t, 5*time.Second, "denial", func(ctx context.Context) error {
		err := probe.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("probe")}).FirstErr()
		if errors.Is(err, kerr.TopicAuthorizationFailed) {
			return nil
		}
		return errors.New("still allowed")
	})
}

// The client's End flushes and commits without looking at what became of the records. Only this
// makes the engine's order necessary: flush, look at the promises, then End.
func TestFailedPromiseThenTryCommitCommitsOffsetsWithoutRecords(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort, Users: map[string]string{user: password}})
	for _, d := range doomedRecords() {
		t.Run(d.name, func(t *testing.T) {
			b := newBench(t, c.Seeds())
			topic := kafkatest.Name(t, "doomed")
			kafkatest.CreateTopic(t, b.admin, topic, 1, d.config...)
			b.seeds = []string{c.Brokers[0].SASLAddr}
			s := b.open(t, asUser(), kgo.UnknownTopicRetries(1))
			b.begin(t, s)
			if d.spoil != nil {
				d.spoil(t, b, topic)
			}
			r := d.record
			if r.Topic == "" {
				r.Topic = topic
			}
			var promise error
			s.Produce(t.Context(), &r, func(_ *kgo.Record, err error) { promise = err })
			mustCommit(t, s) // all promises have run when it returns
			if promise == nil {
				t.Fatal("the record was accepted, so the test shows nothing")
			}
			t.Logf("promise: %v", promise)
			if next := b.offset(t); next != 1 {
				t.Errorf("committed offset %d, want 1", next)
			}
			b.seeds = c.Seeds()
			b.settles(t, 1)
		})
	}
}

func TestFailedPromiseIsSeenOnlyAfterTheFlush(t *testing.T) {
	seeds := kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort})
	b := newBench(t, seeds)
	narrow := kafkatest.Name(t, "narrow")
	kafkatest.CreateTopic(t, b.admin, narrow, 1, "max.message.bytes", "2000")
	// Linger stands for whatever delays a send; Flush ends it.
	s := b.open(t, kgo.ProducerLinger(time.Minute), kgo.ProducerBatchCompression(kgo.NoCompression()))
	pollOne(t, s)
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	var failed atomic.Bool
	s.Produce(t.Context(), &kgo.Record{Topic: narrow, Value: make([]byte, 5000)}, func(_ *kgo.Record, err error) { failed.Store(err != nil) })
	if failed.Load() {
		t.Fatal("the promise ran before the flush, so the test shows nothing")
	}
	if err := s.Client().Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !failed.Load() {
		t.Fatal("the promise has not run after the flush")
	}
	if ok, err := s.End(t.Context(), kgo.TryAbort); ok || err != nil {
		t.Fatalf("abort: %v, %v", ok, err)
	}
	if next := b.offset(t); next != -1 {
		t.Errorf("committed offset %d after the abort, want none", next)
	}
}

func TestErrorOfThePreCommitHookRefusesTheCommit(t *testing.T) {
	seeds := kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort})
	b := newBench(t, seeds)
	s := b.open(t)
	b.begin(t, s)
	refusal := errors.New("refused")
	ctx := kgo.PreTxnCommitFnContext(t.Context(), func(*kmsgTxnOffsetCommit) error { return refusal })
	if ok, err := s.End(ctx, kgo.TryCommit); ok || !errors.Is(err, refusal) {
		t.Fatalf("End: %v, %v", ok, err)
	}
	if next := b.offset(t); next != -1 {
		t.Errorf("committed offset %d after the refusal, want none", next)
	}
	b.settles(t, 0)
}
