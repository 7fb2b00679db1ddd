package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// counting is a loop whose stage counts records per key; ten of partition 0 are committed, and the task is lost again.
func counting(t *testing.T) *loop {
	var counts state.Table[string, int64]
	l := newLoop(t, Fail, func(c *Ctx, in *Input) error {
		n, _ := counts.Get(c, string(in.Key))
		counts.Put(c, string(in.Key), n+1)
		return nil
	}, func(s *Stage) { counts = state.NewTable(s, "counts", record.String, record.Int64) })
	l.feed(0, 10)
	l.next(0, 10)
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	l.tasks[0].token.Kill()
	if err := l.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// again is the lost task, given to this worker once more.
func (l *loop) again(partition int32) *ownedTask {
	return own(l.p.stage("s"), assignment(partition, session.CommittedOffset{}))
}

// assignment gives a task with one input.
func assignment(partition int32, committed session.CommittedOffset) *session.Assignment {
	in := session.AssignedInput{TopicPartition: session.TopicPartition{Topic: "in", Partition: partition}, Committed: committed}
	return &session.Assignment{Task: TaskID{Stage: "s", Partition: partition}, Token: session.NewToken(), Inputs: []session.AssignedInput{in}}
}

func (l *loop) committed(partition int32) session.CommittedOffset {
	l.t.Helper()
	tp := session.TopicPartition{Topic: "in", Partition: partition}
	got, err := session.FetchCommitted(l.t.Context(), l.p.admin, "app", []session.TopicPartition{tp})
	if err != nil {
		l.t.Fatal(err)
	}
	return got[tp]
}

// Wrong contents are not late ones: only the log can tell what is right, so it is read from its start.
func TestBaseThatFailsItsDigestIsReadAnewFromTheLog(t *testing.T) {
	l := counting(t)
	base := l.p.bases.slots[TaskID{Stage: "s"}].base
	right := base.Digest()
	ghost, _ := record.Int64.Append(nil, 666)
	if err := base.Replay([]byte("\x06countsghost"), ghost); err != nil || base.Digest() == right {
		t.Fatal("the base is as it was", err)
	}
	o := l.again(0)
	if err := l.restore(t.Context(), o, l.p.bases.turn(), assignment(0, l.committed(0))); err != nil {
		t.Fatal(err)
	}
	if got := o.lease.base.Digest(); got != right || o.inputs[0].start != 10 {
		t.Errorf("digest %016x, start %d, want %016x and 10", got, o.inputs[0].start, right)
	}
}

func TestRestoreTellsWhereItBegan(t *testing.T) {
	l := counting(t)
	position := l.p.bases.slots[TaskID{Stage: "s"}].base.Position()
	var got Restore
	l.p.cfg.Events.Restored = func(r Restore) { got = r }
	if err := l.restore(t.Context(), l.again(0), l.p.bases.turn(), assignment(0, l.committed(0))); err != nil {
		t.Fatal(err)
	}
	if position == 0 || got.From != position || !got.Warm {
		t.Errorf("from %d, warm %v, want the base's position %d", got.From, got.Warm, position)
	}
}

// An offset that was read before the last commit became visible is read again before the task stops.
func TestStaleOffsetIsReadAgainBeforeTheTaskStops(t *testing.T) {
	l := counting(t)
	o := l.again(0)
	if err := l.restore(t.Context(), o, l.p.bases.turn(), assignment(0, session.CommittedOffset{Next: 0, Metadata: metadata(1, 0)})); err != nil || o.inputs[0].start != 10 {
		t.Errorf("start %d, %v, want 10", o.inputs[0].start, err)
	}
}

func TestRestoreWhoseTokenDiedGivesTheBaseBack(t *testing.T) {
	l := counting(t)
	a := assignment(0, l.committed(0))
	a.Token.Kill()
	l.open(a, l.p.bases.turn())
	if s := l.p.bases.slots[TaskID{Stage: "s"}]; s.holder != nil {
		t.Error("the lease is held by nobody who lives")
	}
	if shown, here := l.p.board.find(TaskID{Stage: "s"}); here {
		t.Errorf("the status still shows %+v", shown)
	}
}

func TestPartitionThatAppearsWhileRunningIsNotProcessed(t *testing.T) {
	l := counting(t)
	if _, err := kadm.NewClient(l.p.admin).CreatePartitions(t.Context(), 1, "in", "app-s-state"); err != nil {
		t.Fatal(err)
	}
	err := l.restore(t.Context(), l.again(2), l.p.bases.turn(), assignment(0, session.CommittedOffset{Next: session.NoOffset}))
	if err == nil || !strings.Contains(err.Error(), "keys have moved") || !strings.Contains(err.Error(), "reset plan") {
		t.Errorf("got %v", err)
	}
}

// Where a task without an offset starts is known only when it is restored: an earlier guess would skip input.
func TestGateWaitsForTheStartOfATaskWithoutAnOffset(t *testing.T) {
	l := counting(t)
	holder, err := l.p.bases.lease(t.Context(), TaskID{Stage: "s"}, session.NewToken(), l.p.bases.turn(), memory)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*gatePatience, holder.release)
	a := assignment(0, session.CommittedOffset{Next: session.NoOffset})
	if err := l.assign(t.Context(), []*session.Assignment{a}); err != nil || a.Inputs[0].Start != 10 || !a.Pause {
		t.Errorf("start %d, paused %v, %v: want the marker's 10, paused until it is committed", a.Inputs[0].Start, a.Pause, err)
	}
	l.admitArrivals()
}

// A rebuild throws tokens and overlays away, not what is proven: the next restore goes on from there.
func TestClosedSessionGivesItsBasesBackAsTheyAre(t *testing.T) {
	l := counting(t)
	kept := l.tasks[0]
	l.closeSession(l.sess)
	select {
	case <-kept.lease.released:
	default:
		t.Error("the next session would wait for the lease")
	}
	o := l.again(0)
	l.p.cfg.Events.Restored = func(r Restore) {
		if !r.Warm || r.Records != 0 {
			t.Errorf("warm %v, %d records read again", r.Warm, r.Records)
		}
	}
	if err := l.restore(t.Context(), o, l.p.bases.turn(), assignment(0, l.committed(0))); err != nil {
		t.Fatal(err)
	}
}

// Unread input that is gone needs a person; the other tasks go on.
func TestInputThatIsGoneStopsItsTaskAlone(t *testing.T) {
	l := newLoop(t, Fail, accept)
	gone := kgo.FetchPartition{Partition: 0, Err: kerr.OffsetOutOfRange}
	fetches := kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "in", Partitions: []kgo.FetchPartition{gone}}}}}
	if err := l.pollErrors(t.Context(), fetches); err != nil {
		t.Errorf("the session does not survive: %v", err)
	}
	if l.tasks[0].stopped == nil || l.tasks[1].stopped != nil {
		t.Errorf("stopped by %v and %v, want the first alone", l.tasks[0].stopped, l.tasks[1].stopped)
	}
}

// A long poll does not stretch the commit interval: the clock is looked at between its records.
func TestCommitDoesNotWaitForTheEndOfAPoll(t *testing.T) {
	var late time.Duration
	l := newLoop(t, Fail, func(*Ctx, *Input) error { late = 9 * time.Second; return nil })
	l.p.cfg.Clock = func() time.Time { return time.Now().Add(late) }
	l.feed(0, 1000)
	l.until("a commit", func() bool { return len(l.commits) > 0 })
	if n := l.commits[0].Inputs; n > checkEvery {
		t.Errorf("%d records in a transaction whose interval was over after the first", n)
	}
}

// Only what is undecided is reported at a shutdown.
func TestShutdownReportsOnlyAnOpenOutcome(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.feed(0, 1)
	l.next(0, 1)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	cause := errors.New("cut")
	if err := l.undrained(cancelled, cause); !errors.Is(err, ErrNotDrained) || !errors.Is(err, cause) {
		t.Errorf("got %v with an open transaction", err)
	}
	if err := l.drain(cancelled); err != nil || l.groupOffset(0) != 1 {
		t.Errorf("got %v, group offset %d: what is processed is committed at the end", err, l.groupOffset(0))
	}
	if err := l.undrained(cancelled, cause); err != nil {
		t.Errorf("got %v with nothing open", err)
	}
}

// Sessions that fail one after the other without a commit end the process; a commit begins the count anew.
func TestRebuildsWithoutACommitEnd(t *testing.T) {
	l := newLoop(t, Fail, accept)
	cause := fmt.Errorf("again: %w", kerr.ProducerFenced)
	for n := range maxRebuilds {
		if err := l.rebuilding(cause); err != nil {
			t.Fatalf("rebuild %d: %v", n, err)
		}
	}
	if err := l.rebuilding(cause); err == nil || !errors.Is(err, kerr.ProducerFenced) {
		t.Errorf("got %v after %d rebuilds", err, maxRebuilds+1)
	}
	l.feed(0, 1)
	l.next(0, 1)
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	if err := l.rebuilding(cause); err != nil {
		t.Errorf("got %v after a commit", err)
	}
}

// The client may have started at an offset that was stale: its first record must not lie behind the proven one.
func TestTaskThatWasProvenElsewhereExpectsItsFirstRecordThere(t *testing.T) {
	l := counting(t)
	a := assignment(0, session.CommittedOffset{Next: 0, Metadata: metadata(1, 0)})
	l.open(a, l.p.bases.turn())
	if o := l.arrived[0]; o.inputs[0].again != 10 {
		t.Errorf("expects %d, want 10", o.inputs[0].again)
	}
	l.admitArrivals()
}

// A rebuild must not forget who was refused: the record would be sent with others again, and again.
func TestRefusalOutlivesACommitWithoutOutcome(t *testing.T) {
	l := newLoop(t, Fail, func(c *Ctx, in *Input) error {
		c.task.out = append(c.task.out, Out{Topic: "out", Partition: 1, Key: in.Key, Timestamp: in.Timestamp})
		return nil
	})
	l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.MessageTooLarge},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "app-s-state", Err: kerr.TopicAuthorizationFailed})
	l.feed(0, 1)
	l.next(0, 1)
	if _, err := l.commit(t.Context()); session.FateOf(err) != session.Fatal || err == nil {
		t.Errorf("got %v", err)
	}
	if r := l.tasks[0].lease.refused[inputOffset{}]; r == nil || r.times != 1 {
		t.Errorf("remembered %+v, want one refusal", r)
	}
}

// The next owner's restore waits for our open records: a rebalance does not wait for the commit interval.
func TestWaitingRebalanceIsGivenACommitAtOnce(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.feed(0, 1)
	l.next(0, 1)
	now := time.Now()
	l.p.cfg.Clock = func() time.Time { return now }
	other := &worker{p: l.p, index: 1}
	cfg := other.sessionConfig()
	cfg.Assign = func(context.Context, []*session.Assignment) error { return nil }
	sess, err := session.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		sess.Close(ctx)
	}()
	l.until("a commit for the rebalance", func() bool { return len(l.commits) > 0 })
}

// A commit that ran out of time because its topic was deleted would do so for ever.
func TestMissingTopicEndsTheRebuilds(t *testing.T) {
	l := newLoop(t, Fail, accept)
	if _, err := kadm.NewClient(l.p.admin).DeleteTopics(t.Context(), "app-dead-letters"); err != nil {
		t.Fatal(err)
	}
	if err := l.rebuilding(fmt.Errorf("commit: %w", context.DeadlineExceeded)); err == nil || session.FateOf(err) != session.Fatal {
		t.Errorf("got %v, want a fatal error", err)
	}
}

func TestLastCommitIsBoundedByTheDrainTimeout(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.p.cfg.DrainTimeout = time.Millisecond
	cancelled, cancel := context.WithCancel(t.Context())
	end, done := l.bounded(cancelled)
	defer done()
	if end.Err() != nil {
		t.Error("cut off before the shutdown")
	}
	cancel()
	select {
	case <-end.Done():
	case <-time.After(10 * time.Second):
		t.Error("the shutdown waits for the transaction's own bound")
	}
}
