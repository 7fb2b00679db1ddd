package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

type kmsgTxnOffsetCommit = kmsg.TxnOffsetCommitRequest

// It is a barrier: when it returns, every earlier marker of the id is in every partition. So after
// it, and only after it, the committed offset and the applied marker tell what happened.
func TestInitProducerIDOfTheSameIDWaitsForItsMarkers(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort, Proxied: true})
	b := newBench(t, c.Seeds())
	s := b.open(t)
	b.begin(t, s)
	markers := c.Brokers[0].Between
	markers.Hold(kmsg.WriteTxnMarkers)
	mustCommit(t, s)
	if err := b.fence(t, time.Second); err == nil {
		t.Fatal("InitProducerID returned while the markers were held")
	}
	if lso, hw := b.outputEnds(t); lso >= hw {
		t.Fatalf("output is stable up to %d of %d while its marker is held", lso, hw)
	}
	markers.Release(kmsg.WriteTxnMarkers)
	begin := time.Now()
	if err := b.fence(t, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("InitProducerID returned %v after the release", time.Since(begin).Round(time.Millisecond))
	b.decided(t, 1)
	if next := b.offset(t); next != 1 {
		t.Errorf("committed offset %d, want 1", next)
	}
}

func TestInitProducerIDAbortsTheOpenTransactionOfTheID(t *testing.T) {
	b := newBench(t, kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort}))
	b.begin(t, b.open(t))
	if lso, hw := b.outputEnds(t); lso >= hw {
		t.Fatalf("output is stable up to %d of %d: no transaction is open", lso, hw)
	}
	begin := time.Now()
	if err := b.fence(t, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("aborted in %v", time.Since(begin).Round(time.Millisecond))
	b.decided(t, 0)
	if next := b.offset(t); next != -1 {
		t.Errorf("committed offset %d, want none", next)
	}
}

func TestInitProducerIDShowsThatACommitWithoutAnAnswerHappened(t *testing.T) {
	b, cut := throughProxy(t)
	s := b.open(t, kgo.Dialer(cut.Dial))
	b.begin(t, s)
	cut.Inject(kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.HangResponse})
	if ok, err := commit(t, s, time.Second); ok || err == nil {
		t.Fatalf("End without an answer: %v, %v", ok, err)
	}
	if err := b.fence(t, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if next := b.offset(t); next != 1 {
		t.Errorf("committed offset %d, want 1", next)
	}
	b.decided(t, 1)
}

// A commit that End has given up can sit in a socket and arrive later: nothing but InitProducerID
// ends that.
//
// Guarantee: G3
// Sabotage: not-fenced
func TestGivenUpCommitHappensLaterUnlessInitProducerIDCameFirst(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		t.Run(map[bool]string{false: "not fenced", true: "fenced"}[fenced], func(t *testing.T) {
			b, cut := throughProxy(t)
			s := b.open(t, kgo.Dialer(cut.Dial))
			b.begin(t, s)
			cut.Hold(kmsg.EndTxn)
			if ok, err := commit(t, s, time.Second); ok || err == nil {
				t.Fatalf("End with its request held: %v, %v", ok, err)
			}
			if fenced {
				if err := b.fence(t, 10*time.Second); err != nil {
					t.Fatal(err)
				}
				b.decided(t, 0)
			}
			cut.Release(kmsg.EndTxn)
			if !fenced {
				kafkatest.Within(t, 10*time.Second, "late commit", b.committed(1))
				b.settles(t, 1)
				return
			}
			kafkatest.Within(t, 10*time.Second, "late request", func(context.Context) error {
				if cut.Passed(kmsg.EndTxn) == 0 {
					return errors.New("not passed on")
				}
				return nil
			})
			if err := b.fence(t, 10*time.Second); err != nil { // whatever the late request did is done now
				t.Fatal(err)
			}
			b.decided(t, 0)
		})
	}
}

// throughProxy puts a proxy between the broker and the client that dials through it.
func throughProxy(t *testing.T) (bench, *kafkatest.Proxy) {
	t.Helper()
	c := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort})
	p, err := kafkatest.NewProxy("127.0.0.1:0", c.Brokers[0].Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return newBench(t, c.Seeds()), p
}

func (b bench) committed(want int64) func(context.Context) error {
	return func(ctx context.Context) error {
		next, err := kafkatest.StableOffset(ctx, b.admin, b.group, b.in, 0)
		if err == nil && next != want {
			err = errors.New("another offset")
		}
		return err
	}
}

// So verifying an outcome by InitProducerID from a second client ends the first one: the engine
// replaces the client that it verifies for.
func TestInitProducerIDByAnotherClientFencesTheLiveOne(t *testing.T) {
	b := newBench(t, kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort}))
	live := kafkatest.Client(t, b.seeds, kgo.TransactionalID(b.id))
	record := func() *kgo.Record { return &kgo.Record{Topic: b.out, Value: []byte("v")} }
	ctx := t.Context()
	if err := live.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := live.ProduceSync(ctx, record()).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := b.fence(t, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := live.ProduceSync(ctx, record()).FirstErr(); !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
		t.Errorf("produce of the fenced client: %v", err)
	}
	if err := live.EndTransaction(ctx, kgo.TryCommit); err == nil {
		t.Error("the fenced client committed")
	}
	if err := live.EndTransaction(ctx, kgo.TryAbort); err == nil {
		t.Error("the fenced client aborted")
	}
	if err := live.BeginTransaction(); err == nil {
		t.Error("the fenced client began another transaction")
	}
	b.decided(t, 0)
}

// The broker fences a timed-out transaction like a taken-over one; the engine rolls back and
// rebuilds in both cases.
func TestTimedOutTransactionRefusesItsNextRecord(t *testing.T) {
	b := newBench(t, kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort}).Seeds())
	s := b.open(t, kgo.TransactionTimeout(time.Second))
	b.begin(t, s)
	kafkatest.Within(t, 10*time.Second, "abort by the broker", b.stable)
	err := s.ProduceSync(t.Context(), &kgo.Record{Topic: b.out, Value: []byte("late")}).FirstErr()
	if !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Errorf("late record: %v", err)
	}
	if ok, _ := commit(t, s, 10*time.Second); ok {
		t.Error("a timed-out transaction committed")
	}
	b.decided(t, 0)
	if next := b.offset(t); next != -1 {
		t.Errorf("committed offset %d, want none", next)
	}
}
