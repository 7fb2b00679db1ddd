package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

// loop is a worker whose turns the test takes. Its transactions end when the test says so, unless the engine must end them:
// neither time nor idleness does.
type loop struct {
	*worker
	t       *testing.T
	cluster *kfake.Cluster
	commits []Transaction
	aborts  int
}

// newLoop has a worker join, and takes turns until it runs both partitions of "in".
func newLoop(t *testing.T, policy Policy, handle func(*Ctx, *Input) error, declare ...func(*Stage)) *loop {
	t.Helper()
	l := &loop{t: t}
	var err error
	if l.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in", "table", "out", "app-s-state", "app-dead-letters")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.cluster.Close)
	pipe := New("app")
	stage := pipe.Stage("s")
	stage.inputs = []input{{"in", handle}}
	stage.OnError(policy)
	for _, d := range declare {
		d(stage)
	}
	events := Events{Committed: func(x Transaction) { l.commits = append(l.commits, x) }, Aborted: func(Transaction, error) { l.aborts++ }}
	p, err := NewProcessor(Config{Brokers: l.cluster.ListenAddrs(), CommitInterval: 9 * time.Second, Events: events}, pipe)
	if err != nil {
		t.Fatal(err)
	}
	if p.admin, err = kgo.NewClient(append(p.clientOptions(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.admin.Close)
	p.instance, p.partitions, p.maxRecordBytes, p.maxIDs = "i", map[string]int32{"s": 2}, 1_000_012, 1_000
	l.worker = &worker{p: p}
	sess, err := session.Open(t.Context(), l.sessionConfig())
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.sess = sess
	l.mu.Unlock()
	t.Cleanup(l.close)
	sess.Wake()
	l.until("both tasks run", func() bool {
		return len(l.tasks) == 2 && !slices.ContainsFunc(l.tasks, func(o *ownedTask) bool { return !o.runs() })
	})
	l.commits = nil
	return l
}

func (l *loop) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if l.sess.InTransaction() {
		l.sess.Abort(ctx)
	}
	l.closeSession(l.sess)
}

// until takes turns until something holds.
func (l *loop) until(what string, holds func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 20*time.Second)
	defer cancel()
	for !holds() {
		l.averageEnd = time.Hour // no commit for being idle
		if err := l.turn(ctx); err != nil {
			l.t.Fatalf("%s: %v", what, err)
		}
		if ctx.Err() != nil {
			l.t.Fatalf("not reached: %s", what)
		}
	}
}

// feed produces n records to a partition whose keys belong there.
func (l *loop) feed(partition int32, n int) {
	l.t.Helper()
	var records []*kgo.Record
	for i := 0; len(records) < n; i++ {
		if key := fmt.Appendf(nil, "k%d", i); Murmur2.Partition(key, 2) == partition {
			records = append(records, &kgo.Record{Topic: "in", Partition: partition, Key: key, Value: key})
		}
	}
	if err := l.p.admin.ProduceSync(l.t.Context(), records...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// next waits until a task is processed up to an offset, committed or not.
func (l *loop) next(partition int32, offset int64) {
	l.t.Helper()
	l.until(fmt.Sprintf("partition %d at %d", partition, offset), func() bool { return l.tasks[partition].task.Next("in") >= offset })
}

func (l *loop) groupOffset(partition int32) int64 {
	l.t.Helper()
	tp := session.TopicPartition{Topic: "in", Partition: partition}
	got, err := session.FetchCommitted(l.t.Context(), l.p.admin, "app", []session.TopicPartition{tp})
	if err != nil {
		l.t.Fatal(err)
	}
	return got[tp].Next
}

func accept(*Ctx, *Input) error { return nil }

func TestCommitIsDue(t *testing.T) {
	l := newLoop(t, Fail, accept)
	if l.commitDue(t.Context()) {
		t.Error("due without a transaction")
	}
	if err := l.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	l.p.cfg.Clock = func() time.Time { return now }
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		set  func()
		ctx  context.Context
		want bool
	}{
		{"nothing says so", func() {}, t.Context(), false},
		{"commit interval", func() { l.lastCommit = now.Add(-9 * time.Second) }, t.Context(), true},
		{"records", func() { l.txn.used = 100_000 }, t.Context(), true},
		{"bytes", func() { l.txn.bytes = 64 << 20 }, t.Context(), true},
		{"half the transaction timeout", func() { l.txn.began = now.Add(-10 * time.Second) }, t.Context(), true},
		{"shutdown", func() {}, cancelled, true},
		{"a record that must be alone", func() { l.commitNow = true }, t.Context(), true},
		{"idle", func() { l.averageEnd, l.lastCommit = time.Second, now.Add(-4*time.Second) }, t.Context(), true},
		{"idle, but a fifth of the time went into commits", func() { l.averageEnd, l.lastCommit = time.Second, now.Add(-3*time.Second) }, t.Context(), false},
		{"records wait", func() {
			l.averageEnd, l.lastCommit, l.tasks[0].inputs[0].queue = time.Second, now.Add(-4*time.Second), make([]*kgo.Record, 1)
		}, t.Context(), false},
	} {
		l.lastCommit, l.averageEnd, l.commitNow, l.tasks[0].inputs[0].queue = now, time.Hour, false, nil
		l.txn.reset(now)
		c.set()
		if got := l.commitDue(c.ctx); got != c.want {
			t.Errorf("%s: due %v, want %v", c.name, got, c.want)
		}
	}
	l.tasks[0].inputs[0].queue = nil
}

// A transaction that holds work of a lost task is aborted whole, and the base is free for whoever restores it next.
func TestLostTaskTakesItsTransactionWithIt(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.feed(0, 3)
	l.next(0, 3)
	lost, kept := l.tasks[0], l.tasks[1]
	lost.token.Kill()
	if err := l.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.sess.InTransaction() || l.aborts != 1 {
		t.Errorf("open %v, %d aborts: the lost task's work must go", l.sess.InTransaction(), l.aborts)
	}
	if len(l.tasks) != 1 || l.tasks[0] != kept {
		t.Errorf("%d tasks are left, want the kept one", len(l.tasks))
	}
	select {
	case <-lost.lease.released:
	default:
		t.Error("the lease was not given back: the next restore in this process would wait for it")
	}
	if lost.task.Touched() || l.groupOffset(0) != 0 {
		t.Errorf("touched %v, group offset %d: nothing of it may remain", lost.task.Touched(), l.groupOffset(0))
	}
}

func TestLossOfAnUntouchedTaskLeavesTheTransactionAlone(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.feed(0, 3)
	l.next(0, 3)
	l.tasks[1].token.Kill()
	if err := l.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !l.sess.InTransaction() || len(l.tasks) != 1 {
		t.Errorf("open %v, %d tasks", l.sess.InTransaction(), len(l.tasks))
	}
	if committed, err := l.commit(t.Context()); err != nil || !committed || l.groupOffset(0) != 3 {
		t.Errorf("committed %v, %v, group offset %d, want 3", committed, err, l.groupOffset(0))
	}
}

// Restores that ended after their token died are not the worker's any more.
func TestTaskThatArrivesWithADeadTokenIsGivenBack(t *testing.T) {
	l := newLoop(t, Fail, accept)
	id := TaskID{Stage: "s", Partition: 7}
	token := session.NewToken()
	lease, err := l.p.bases.lease(t.Context(), id, token, l.p.bases.turn(), memory)
	if err != nil {
		t.Fatal(err)
	}
	token.Kill()
	l.arrive(&ownedTask{id: id, token: token, lease: lease, fresh: true})
	l.admitArrivals()
	if len(l.tasks) != 2 {
		t.Errorf("%d tasks, want the two that live", len(l.tasks))
	}
	select {
	case <-lease.released:
	default:
		t.Error("the lease was not given back")
	}
}

func TestAbortUndoesWhatWasProcessedAndForgetsWhatWasPolled(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.feed(1, 5)
	l.next(1, 5)
	o := l.tasks[1]
	o.inputs[0].queue = make([]*kgo.Record, 1)
	if err := l.abort(t.Context(), errors.New("test")); err != nil {
		t.Fatal(err)
	}
	if o.task.Touched() || o.task.Next("in") != 0 || len(o.inputs[0].queue) != 0 || o.inputs[0].again != 0 {
		t.Fatalf("touched %v, next %d, %d queued, to come again from %d: want false, 0, 0, 0", o.task.Touched(), o.task.Next("in"), len(o.inputs[0].queue), o.inputs[0].again)
	}
	l.next(1, 5) // they come again
	if committed, err := l.commit(t.Context()); err != nil || !committed || l.groupOffset(1) != 5 {
		t.Errorf("committed %v, %v, group offset %d, want 5", committed, err, l.groupOffset(1))
	}
}

// A base holds what is proven: the position behind the marker, and nothing of a task that was lost during the commit.
func TestCommitMovesTheBasesOfLiveTokensOnly(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.feed(0, 2)
	l.feed(1, 2)
	l.next(0, 2)
	l.next(1, 2)
	lost, kept := l.tasks[0], l.tasks[1]
	before := lost.lease.base.Position()
	l.p.cfg.Events.Committed = nil
	seals, err := l.seal()
	if err != nil {
		t.Fatal(err)
	}
	if out := l.sess.Commit(t.Context(), offsets(seals), nil); out.Result != session.Committed {
		t.Fatal(out.Err)
	}
	lost.token.Kill()
	if err := l.merge(seals); err != nil {
		t.Fatal(err)
	}
	if got := lost.lease.base.Position(); got != before {
		t.Errorf("the lost task's base moved from %d to %d", before, got)
	}
	end, err := session.EndOffset(t.Context(), l.p.admin, session.TopicPartition{Topic: "app-s-state", Partition: 1})
	if got := kept.lease.base.Position(); err != nil || got != end-1 { // the last record of the log is the transaction's marker
		t.Errorf("position %d of a log that ends at %d (%v), want the offset behind the applied marker", got, end, err)
	}
}

// Control records and aborted ones are input, too: else lag never reaches zero.
func TestControlRecordsCountAsProcessed(t *testing.T) {
	l := newLoop(t, Fail, accept)
	upstream, err := kgo.NewClient(append(l.p.clientOptions(), kgo.TransactionalID("upstream"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	if err := upstream.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := upstream.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Key: []byte("k")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := upstream.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	l.next(0, 2)
}

// What a stopped task did in the open transaction goes with it.
func TestStoppedTaskCommitsNothing(t *testing.T) {
	l := newLoop(t, Fail, func(_ *Ctx, in *Input) error {
		if in.Offset == 2 {
			return errors.New("no")
		}
		return nil
	})
	l.feed(0, 5)
	l.until("the task stops", func() bool { return l.tasks[0].stopped != nil })
	if l.sess.InTransaction() || l.groupOffset(0) != 0 {
		t.Errorf("open %v, group offset %d", l.sess.InTransaction(), l.groupOffset(0))
	}
}

// A task whose transaction cannot be sealed is stopped like any other: the status says so, and a query does not go on asking.
func TestTaskThatCannotBeSealedIsShownStopped(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.feed(0, 1)
	l.until("it is processed", func() bool { return l.tasks[0].task.Next("in") == 1 })
	l.tasks[0].task.committed.TxnSeq += 5
	if committed, err := l.commit(t.Context()); committed || err != nil {
		t.Fatal(committed, err)
	}
	_, tasks := l.p.board.snapshot()
	if tasks[0].State != Stopped || !strings.Contains(tasks[0].Error, "I2") || l.aborts != 1 {
		t.Errorf("shown as %s %q after %d aborts, want stopped, I2, one", tasks[0].State, tasks[0].Error, l.aborts)
	}
	if tasks[1].State != Running || l.tasks[1].stopped != nil {
		t.Errorf("the other task is %s", tasks[1].State)
	}
}

// No transaction holds more new ids than one packed record takes.
func TestTransactionEndsWhenItsNewIDsFillARecord(t *testing.T) {
	var seen state.Dedupe
	l := newLoop(t, Fail, func(c *Ctx, in *Input) error {
		seen.Check(c, fmt.Sprint(in.Offset), c.Time(), state.Fingerprint{})
		return nil
	}, func(s *Stage) { seen = state.NewDedupe(s, "seen", time.Hour) })
	l.p.maxIDs = 4
	l.feed(0, 10)
	l.until("ten inputs", func() bool { return l.tasks[0].task.Next("in") == 10 })
	if got := l.inputs(); !slices.Equal(got, []int{4, 4}) {
		t.Errorf("transactions of %v inputs before the open one, want 4 and 4", got)
	}
}

func (l *loop) deadLetters() int64 {
	l.t.Helper()
	end, err := session.EndOffset(l.t.Context(), l.p.admin, session.TopicPartition{Topic: "app-dead-letters"})
	if err != nil {
		l.t.Fatal(err)
	}
	return end
}
