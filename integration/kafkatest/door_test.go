package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A transact is a client whose every request takes a door, and a topic for its transactions.
type transact struct {
	cluster *Cluster
	door    *Proxy
	cl      *kgo.Client
	topic   string
}

// newTransact has its first transaction behind it, so that only the requests of one remain.
func newTransact(t *testing.T, c *Cluster) transact {
	t.Helper()
	d := c.Door(t, Name(t, "door"))
	x := transact{cluster: c, door: d, topic: Name(t, "t"), cl: Client(t, d.Seeds(), kgo.TransactionalID(Name(t, "id")))}
	CreateTopic(t, Client(t, c.Seeds()), x.topic, 3)
	t.Cleanup(d.Heal) // else a client waits for the answers of a door that gives none
	if err := x.write(t, "first"); err != nil {
		t.Fatal(err)
	}
	return x
}

// write commits one record in each of the three partitions.
func (x transact) write(t *testing.T, value string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := x.begin(ctx, value); err != nil {
		return err
	}
	return x.cl.EndTransaction(ctx, kgo.TryCommit)
}

func (x transact) begin(ctx context.Context, value string) error {
	if err := x.cl.BeginTransaction(); err != nil {
		return err
	}
	for p := range int32(3) {
		if err := x.cl.ProduceSync(ctx, &kgo.Record{Topic: x.topic, Partition: p, Value: []byte(value)}).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// sees waits until committed readers have a value, and wants it in all partitions.
func (x transact) sees(t *testing.T, value string) {
	t.Helper()
	Within(t, 10*time.Second, "all partitions have "+value, func(context.Context) error {
		for p := range int32(3) {
			if got := x.last(t, p); got != value {
				return fmt.Errorf("partition %d has %q", p, got)
			}
		}
		return nil
	})
}

func (x transact) last(t *testing.T, partition int32) string {
	t.Helper()
	got := Committed(t, x.cluster.Seeds(), x.topic, partition)
	return string(got[len(got)-1].Value)
}

func TestAllOfAClientsRequestsTakeItsDoor(t *testing.T) {
	c := Start(t, Options{Brokers: 3, FirstPort: firstPort})
	x := newTransact(t, c)
	for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.Produce, kmsg.EndTxn} {
		if x.door.Passed(key) == 0 {
			t.Errorf("no %s took the door", key.Name())
		}
	}
	if n := len(x.door.Seeds()); n != 3 {
		t.Fatalf("%d seeds", n)
	}
	leaders := map[int32]bool{}
	for p := range int32(3) {
		leaders[c.Leader(t, x.topic, p).ID] = true
	}
	if len(leaders) != 3 {
		t.Fatalf("three partitions are led by %v", leaders)
	}
	known, err := kadm.NewClient(x.cl).ListBrokers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range known {
		if addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))); !slices.Contains(x.door.Seeds(), addr) {
			t.Errorf("the client knows broker %d by %s, which is not the door", b.NodeID, addr)
		}
	}
	x.door.Down()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := x.cl.Ping(ctx); err == nil {
		t.Error("a broker answered through a door that is down")
	}
	x.door.Up()
	if err := x.write(t, "second"); err != nil {
		t.Fatal(err)
	}
	another := c.Door(t, "another")
	if another == x.door || c.Door(t, "another") != another {
		t.Error("a door is not known by its name")
	}
}

// On the wire, what a commit's request and answer meet decides what is true, and what the client hears of it.
func TestDeedsAtTheEndOfATransaction(t *testing.T) {
	c := Start(t, Options{FirstPort: firstPort})
	unknown := kerr.UnknownServerError.Code
	for _, try := range []struct {
		fault     Fault
		committed bool // in truth
		err       error
	}{
		{Fault{Deed: Pass}, true, nil},
		{Fault{Deed: DropRequest, Times: 1}, true, nil}, // the client sends again
		{Fault{Deed: DropResponse, Times: 1}, true, nil},
		{Fault{Deed: Refuse, Times: 1, Code: unknown}, false, kerr.UnknownServerError},
		{Fault{Deed: AnswerError, Times: 1, Code: unknown}, true, kerr.UnknownServerError},
		{Fault{Deed: Hang}, false, context.DeadlineExceeded},
		{Fault{Deed: HangResponse}, true, context.DeadlineExceeded},
		{Fault{Deed: DelayRequest, Delay: 200 * time.Millisecond}, true, nil},
	} {
		t.Run(try.fault.Deed.String(), func(t *testing.T) {
			x := newTransact(t, c)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if err := x.begin(ctx, "second"); err != nil {
				t.Fatal(err)
			}
			then := make(chan struct{}, 10)
			try.fault.Key, try.fault.Then = kmsg.EndTxn, func() { then <- struct{}{} }
			hit := x.door.Inject(try.fault)
			begin := time.Now()
			if err := x.cl.EndTransaction(ctx, kgo.TryCommit); !errors.Is(err, try.err) {
				t.Errorf("EndTransaction: %v, want %v", err, try.err)
			}
			if took := time.Since(begin); took < try.fault.Delay {
				t.Errorf("EndTransaction took %v with its request delayed by %v", took, try.fault.Delay)
			}
			if hit.Hits() == 0 || len(then) != hit.Hits() {
				t.Errorf("%d hits, Then was called %d times", hit.Hits(), len(then))
			}
			if want := map[bool]string{true: "second", false: "first"}[try.committed]; try.committed {
				x.sees(t, want)
			} else if got := x.last(t, 0); got != want {
				t.Errorf("readers have %q, want %q", got, want)
			}
		})
	}
}

func TestAFaultChoosesItsRequests(t *testing.T) {
	x := newTransact(t, Start(t, Options{FirstPort: firstPort}))
	commits := func(req kmsg.Request) bool { return req.(*kmsg.EndTxnRequest).Commit }
	hit := x.door.Inject(Fault{Key: kmsg.EndTxn, If: commits, Skip: 1, Times: 1, Deed: Refuse, Code: kerr.UnknownServerError.Code})
	if err := x.cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := x.cl.ProduceSync(t.Context(), &kgo.Record{Topic: x.topic}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := x.cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil { // not chosen
		t.Fatal(err)
	}
	if err := x.write(t, "second"); err != nil { // skipped
		t.Fatal(err)
	}
	if err := x.write(t, "third"); !errors.Is(err, kerr.UnknownServerError) {
		t.Errorf("the second commit: %v", err)
	}
	if hit.Hits() != 1 {
		t.Errorf("%d hits", hit.Hits())
	}
	if got := x.last(t, 0); got != "second" {
		t.Errorf("readers have %q", got)
	}
}

// The door freezes when the first of two records is in it: that passes, and its answer comes back to a frozen door.
func TestAFrozenDoorStopsItsWayAndLosesNothing(t *testing.T) {
	c := Start(t, Options{FirstPort: firstPort})
	for _, try := range []struct {
		name          string
		way           Way
		passed, acked int // of the two, while the door is frozen
	}{
		{"requests", Requests, 1, 1},
		{"responses", Responses, 2, 0},
		{"both", Both, 1, 0},
	} {
		t.Run(try.name, func(t *testing.T) {
			x := newTransact(t, c)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := x.cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := x.cl.ProduceSync(ctx, &kgo.Record{Topic: x.topic, Partition: 2, Value: []byte("second")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			arrived, passed := x.door.Arrived(kmsg.Produce), x.door.Passed(kmsg.Produce)
			hit := x.door.Inject(Fault{Key: kmsg.Produce, Deed: Pass, Times: 1, Then: func() { x.door.Freeze(try.way) }})
			acks := make(chan error, 2)
			ack := func(_ *kgo.Record, err error) { acks <- err }
			x.cl.Produce(ctx, &kgo.Record{Topic: x.topic, Value: []byte("second")}, ack)
			Within(t, 10*time.Second, "the door is frozen", func(context.Context) error {
				if hit.Hits() == 0 {
					return errors.New("the first record is not there")
				}
				return nil
			})
			x.cl.Produce(ctx, &kgo.Record{Topic: x.topic, Partition: 1, Value: []byte("second")}, ack)
			state := func() [3]int {
				return [3]int{x.door.Arrived(kmsg.Produce) - arrived, x.door.Passed(kmsg.Produce) - passed, len(acks)}
			}
			want := [3]int{2, try.passed, try.acked}
			Within(t, 10*time.Second, "the door is passed one way", func(context.Context) error {
				if got := state(); got != want {
					return fmt.Errorf("%v records have arrived, passed and are acknowledged, want %v", got, want)
				}
				return nil
			})
			<-time.After(300 * time.Millisecond)
			if got := state(); got != want {
				t.Fatalf("%v records have arrived, passed and are acknowledged behind a frozen door, want %v", got, want)
			}
			x.door.Thaw()
			for range 2 {
				if err := <-acks; err != nil {
					t.Fatal(err)
				}
			}
			if err := x.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			x.sees(t, "second")
		})
	}
}

func TestADelayedRequestTakesTheDelayAndArrivesAlthoughItsSenderIsGone(t *testing.T) {
	x := newTransact(t, Start(t, Options{FirstPort: firstPort}))
	if err := x.begin(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	const delay = 2 * time.Second
	var begin time.Time
	passed := x.door.Passed(kmsg.EndTxn)
	x.door.Inject(Fault{Key: kmsg.EndTxn, Deed: DelayRequest, Delay: delay, Times: 1, Then: func() { begin = time.Now() }})
	if err := x.cl.EndTransaction(ctx, kgo.TryCommit); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("EndTransaction with its request delayed: %v", err)
	}
	x.cl.Close()
	Within(t, 10*time.Second, "the request arrives", func(context.Context) error {
		if x.door.Passed(kmsg.EndTxn) == passed {
			return errors.New("not yet")
		}
		return nil
	})
	if took := time.Since(begin); took < delay {
		t.Errorf("a request that is delayed by %v has arrived after %v", delay, took)
	}
	x.sees(t, "second")
}

func TestAHeldRequestArrivesAlthoughItsSenderIsGone(t *testing.T) {
	x := newTransact(t, Start(t, Options{FirstPort: firstPort}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := x.begin(ctx, "second"); err != nil {
		t.Fatal(err)
	}
	before := x.door.Arrived(kmsg.EndTxn)
	x.door.Hold(kmsg.EndTxn)
	if err := x.cl.EndTransaction(ctx, kgo.TryCommit); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("EndTransaction with its request held: %v", err)
	}
	x.cl.Close()
	if x.door.Arrived(kmsg.EndTxn) == before {
		t.Fatal("the request did not arrive at the door")
	}
	if got := x.last(t, 0); got != "first" {
		t.Fatalf("readers have %q while the commit is held", got)
	}
	x.door.Release(kmsg.EndTxn)
	x.sees(t, "second")
}

func TestADelayedDoorIsSlow(t *testing.T) {
	x := newTransact(t, Start(t, Options{FirstPort: firstPort}))
	x.door.Delay(100 * time.Millisecond)
	begin := time.Now()
	if err := x.write(t, "second"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 400*time.Millisecond { // three records and the end, one after the other
		t.Errorf("four requests took %v", took)
	}
}
