package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
)

// start runs a processor that can be asked. wait returns Run's error.
func (w *world) start(ctx context.Context, p *pipeline.Pipeline, cfg pipeline.Config) (*pipeline.Processor, func() error) {
	w.t.Helper()
	cfg.Brokers = w.broker.Addrs()
	processor, err := pipeline.NewProcessor(cfg, p)
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- processor.Run(ctx) }()
	return processor, func() error { return <-done }
}

// total asks for a key's total and where the answer is as of.
func total(ctx context.Context, processor *pipeline.Processor, p *pipeline.Pipeline, key string) (n int64, seq uint64, err error) {
	sums := p.Stages()[0].Stores()[0].Table()
	id, ok := processor.TaskOf("sum", []byte(key))
	if !ok {
		return 0, 0, errors.New("not running")
	}
	err = processor.Query(ctx, id, func(s *pipeline.Snapshot) {
		seq = s.TxnSeq
		if value, ok := sums.Get(s, []byte(key)); ok {
			n, _ = record.Int64.Decode(value)
		}
	})
	return n, seq, err
}

// poll asks until the total is there; the answers on the way must never go back.
func (w *world) awaitTotal(processor *pipeline.Processor, p *pipeline.Pipeline, key string, want int64) {
	w.t.Helper()
	var last int64
	var lastSeq uint64
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(time.Millisecond) {
		n, seq, err := total(w.t.Context(), processor, p, key)
		if err == nil && (n < last || seq < lastSeq) {
			w.t.Fatalf("%q was %d in transaction %d and then %d in %d", key, last, lastSeq, n, seq)
		}
		if err == nil {
			last, lastSeq = n, seq
		}
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%q is %d, want %d: %v", key, n, want, err)
		}
	}
}

func TestQuerySeesWhatIsCommittedAndNeverGoesBack(t *testing.T) {
	p := totalPerKey("ask")
	w := newWorld(t, p)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	processor, wait := w.start(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 2, CommitInterval: 5 * time.Millisecond})
	const rounds = 30
	for range rounds {
		w.click(20)
	}
	w.awaitTotal(processor, p, "k7", rounds)
	if n, _, err := total(ctx, processor, p, "nobody"); n != 0 || err != nil {
		t.Errorf("a key without a row: %d, %v", n, err)
	}
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	var notReady *pipeline.NotReadyError
	if err := processor.Query(t.Context(), pipeline.TaskID{Stage: "sum"}, func(*pipeline.Snapshot) { t.Error("read after the end") }); !errors.As(err, &notReady) {
		t.Errorf("after the end: %v", err)
	}
}

func TestQueryWritesNothingAndKnowsItsTasks(t *testing.T) {
	p := totalPerKey("bounds")
	w := newWorld(t, p)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	processor, wait := w.start(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1})
	w.click(20)
	w.awaitTotal(processor, p, "k7", 1)
	sums := p.Stages()[0].Stores()[0].Table()
	id, _ := processor.TaskOf("sum", []byte("k7"))
	err := processor.Query(ctx, id, func(s *pipeline.Snapshot) { sums.Put(s, []byte("k7"), []byte("12345678")) })
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a write: %v", err)
	}
	if n, _, err := total(ctx, processor, p, "k7"); n != 1 || err != nil {
		t.Errorf("after a refused write: %d, %v", n, err)
	}
	for _, id := range []pipeline.TaskID{{Stage: "sum", Partition: 99}, {Stage: "sum", Partition: -1}, {Stage: "other"}} {
		if err := processor.Query(ctx, id, func(*pipeline.Snapshot) {}); err == nil || !strings.Contains(err.Error(), "there is no task") {
			t.Errorf("task %s: %v", id, err)
		}
	}
	if n := len(processor.TasksOf("sum")); n == 0 || len(processor.TasksOf("other")) != 0 {
		t.Errorf("%d tasks", n)
	}
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
}

func TestQueryNamesTheOwnerOfATaskElsewhere(t *testing.T) {
	p := totalPerKey("owners")
	w := newWorld(t, p)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first, wait1 := w.start(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1, InstanceID: "east-1"})
	w.settle("owners", 1)
	second, wait2 := w.start(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1, InstanceID: "west-1"})
	w.settle("owners", 2)
	for deadline := time.Now().Add(20 * time.Second); len(first.Status().Tasks) != len(second.Status().Tasks) && time.Now().Before(deadline); {
		<-time.After(10 * time.Millisecond)
	}
	for i, processor := range []*pipeline.Processor{first, second} {
		var mine, theirs int
		for _, id := range processor.TasksOf("sum") {
			var elsewhere *pipeline.ElsewhereError
			switch err := ask(t, processor, id); {
			case err == nil:
				mine++
			case errors.As(err, &elsewhere) && elsewhere.Instance == []string{"west-1", "east-1"}[i] && elsewhere.Host != "":
				theirs++
			default:
				t.Errorf("process %d, task %s: %v", i, id, err)
			}
		}
		if mine == 0 || theirs == 0 {
			t.Errorf("process %d has %d tasks and knows the owner of %d", i, mine, theirs)
		}
	}
	stop()
	if err := errors.Join(wait1(), wait2()); err != nil {
		t.Fatal(err)
	}
}

// ask repeats a query while the task is between two owners.
func ask(t *testing.T, processor *pipeline.Processor, id pipeline.TaskID) error {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		err := processor.Query(t.Context(), id, func(*pipeline.Snapshot) {})
		if !errors.As(err, new(*pipeline.NotReadyError)) || time.Now().After(deadline) {
			return err
		}
	}
}

func TestQueryTellsHowFarARestoreIs(t *testing.T) {
	p := totalPerKey("slow")
	w := newWorld(t, p)
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	processor, wait := w.start(ctx, p, pipeline.Config{StateDir: dir, Workers: 1})
	w.click(20)
	w.awaitTotal(processor, p, "k7", 1)
	id, _ := processor.TaskOf("sum", []byte("k7"))
	abort := w.holdOpen("slow-sum-state", id.Partition) // what is committed behind it cannot be read before it ends
	w.click(20)
	w.awaitTotal(processor, p, "k7", 2)
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}

	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	processor, wait = w.start(ctx, p, pipeline.Config{StateDir: dir, Workers: 1})
	var notReady *pipeline.NotReadyError
	for deadline := time.Now().Add(20 * time.Second); notReady == nil || notReady.Restore == nil || notReady.Restore.Records == 0; <-time.After(5 * time.Millisecond) {
		err := processor.Query(ctx, id, func(*pipeline.Snapshot) { t.Error("read before it was proven") })
		if !errors.As(err, &notReady) && time.Now().After(deadline) {
			t.Fatalf("while it is restored: %v", err)
		}
	}
	r := notReady.Restore
	if r.Percent() <= 0 || r.Percent() >= 100 || r.Next >= r.Target || !strings.Contains(notReady.Error(), "left") {
		t.Errorf("progress %+v: %v", r, notReady)
	}
	abort()
	w.awaitTotal(processor, p, "k7", 2)
	if s := processor.Status(); s.Tasks[0].Restore != nil {
		t.Errorf("a running task still shows its restore: %+v", s.Tasks[0])
	}
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
}

// holdOpen leaves a stranger's transaction open in a partition until the function it returns is called.
func (w *world) holdOpen(topic string, partition int32) (abort func()) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Addrs()...), kgo.TransactionalID("stranger"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	if err := client.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	if err := client.ProduceSync(w.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Key: []byte("\x04sumsx"), Value: []byte("x")}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		if err := client.EndTransaction(w.t.Context(), kgo.TryAbort); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestQueryThatIsGivenUpIsNeverAnswered(t *testing.T) {
	p := pipeline.New("busy")
	entered, leave := make(chan struct{}), make(chan struct{})
	pipeline.Handle(p.Stage("s"), clicks, func(*pipeline.Ctx, pipeline.Record[string, int64]) error {
		entered <- struct{}{}
		<-leave
		return nil
	})
	w := newWorld(t, p)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	processor, wait := w.start(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1})
	w.click(1)
	<-entered
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	id, _ := processor.TaskOf("s", []byte("k0"))
	err := processor.Query(short, id, func(*pipeline.Snapshot) { t.Error("read after it was given up") })
	if !errors.As(err, new(*pipeline.NotReadyError)) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "a handler or a commit takes long") {
		t.Errorf("got %v", err)
	}
	close(leave)
	if err := ask(t, processor, id); err != nil { // the worker has been at a loop point since
		t.Error(err)
	}
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
}
