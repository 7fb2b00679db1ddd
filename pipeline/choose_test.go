package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

// paired is a worker without a session whose task has two inputs, "table" and "in", and how far each was read of its stable end.
func paired(t *testing.T, idle time.Duration, clock func() time.Time) (*worker, *ownedTask) {
	t.Helper()
	p := New("app")
	s := p.Stage("s")
	s.inputs = []input{{"table", accept}, {"in", accept}}
	pr, err := NewProcessor(Config{Brokers: []string{"b:1"}, MaxTaskIdle: idle, Clock: clock}, p)
	if err != nil {
		t.Fatal(err)
	}
	a := &session.Assignment{Task: TaskID{Stage: "s"}, Token: session.NewToken(), Inputs: []session.AssignedInput{
		{TopicPartition: session.TopicPartition{Topic: "in"}}, {TopicPartition: session.TopicPartition{Topic: "table"}}}}
	o := own(s, a)
	o.task = NewTask(s, 0, 1, state.NewMemory(nil), nil)
	return &worker{p: pr, tasks: []*ownedTask{o}}, o
}

func polled(ms ...int64) (records []*kgo.Record) {
	for i, m := range ms {
		records = append(records, &kgo.Record{Offset: int64(i), Timestamp: time.UnixMilli(m)})
	}
	return records
}

func TestInputsAreInTheOrderOfTheirDeclaration(t *testing.T) {
	_, o := paired(t, 0, nil)
	if o.inputs[0].Topic != "table" || o.inputs[0].place != 0 || o.inputs[1].Topic != "in" || o.inputs[1].place != 1 {
		t.Errorf("got %+v, want the table first, as it was declared", o.inputs)
	}
}

// A task waits for an input only while it has something to process, nothing of that input, and the broker has more of it or a
// producer may send more within max.task.idle.ms.
func TestTaskWaitsForAnInputThatIsNotCaughtUp(t *testing.T) {
	const idle = time.Second
	for _, c := range []struct {
		name          string
		idle          time.Duration
		table, stream []*kgo.Record
		stable        int64 // of the table, of which nothing is processed
		waits         time.Duration
	}{
		{"nothing is polled", idle, nil, nil, 9, 0},
		{"the table is read to its end", 0, nil, polled(1), 0, 0},
		{"the table may yet get more", idle, nil, polled(1), 0, idle},
		{"the table has more", 0, nil, polled(1), 9, fetchPatience},
		{"the table has more, and may get more", time.Hour, nil, polled(1), 9, time.Hour},
		{"it is told not to wait", -1, nil, polled(1), 9, 0},
		{"something of it is polled", idle, polled(5), polled(1), 9, 0},
		{"the stream is not waited for, it has no more", 0, polled(5), nil, 9, 0},
		{"a marker is passed over at once", idle, nil, []*kgo.Record{{Attrs: controlAttrs(t)}}, 9, 0},
	} {
		now := time.Unix(1000, 0)
		w, o := paired(t, c.idle, func() time.Time { return now })
		o.inputs[0].queue, o.inputs[1].queue, o.inputs[0].stable = c.table, c.stream, c.stable
		in := w.choose(o)
		some := len(c.table)+len(c.stream) > 0
		if waits := in == nil && some; waits != (c.waits > 0) {
			t.Errorf("%s: waits %v, want %s", c.name, waits, c.waits)
		}
		if until := w.waitsUntil(); (c.waits > 0) != until.Equal(now.Add(c.waits)) {
			t.Errorf("%s: waits until %s", c.name, until)
		}
		if now = now.Add(c.waits); some && w.choose(o) == nil {
			t.Errorf("%s: it still waits", c.name)
		}
		if until := w.waitsUntil(); !until.IsZero() {
			t.Errorf("%s: the next poll ends at %s, which is past", c.name, until)
		}
	}
}

// controlAttrs are those of a transaction's marker.
func controlAttrs(t *testing.T) kgo.RecordAttrs {
	t.Helper()
	l := newLoop(t, Fail, accept)
	upstream := l.upstream("upstream")
	if err := upstream.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := upstream.ProduceSync(t.Context(), &kgo.Record{Topic: "out", Key: []byte("k")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := upstream.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	reader, err := kgo.NewClient(append(l.p.clientOptions(), kgo.ConsumeTopics("out"), kgo.KeepControlRecords())...)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for {
		fetches := reader.PollFetches(t.Context())
		if t.Context().Err() != nil {
			t.Fatal("no marker was read")
		}
		for _, r := range fetches.Records() {
			if r.Attrs.IsControl() {
				return r.Attrs
			}
		}
	}
}

// Once the wait is over it is over until the input has come: each record would else wait anew.
func TestWaitBeginsAnewOnlyAfterTheInputHasCome(t *testing.T) {
	now := time.Unix(1000, 0)
	w, o := paired(t, 0, func() time.Time { return now })
	table, in := &o.inputs[0], &o.inputs[1]
	in.queue, table.stable = polled(10, 20, 30, 40), 2
	chosen := func(want *ownedInput, why string) {
		t.Helper()
		if got := w.choose(o); got != want {
			t.Errorf("%s: got %v, want %v", why, got, want)
		}
		if want != nil {
			want.queue = want.queue[1:]
		}
	}
	chosen(nil, "it waits")
	now = now.Add(fetchPatience - time.Millisecond)
	chosen(nil, "it still waits")
	now = now.Add(time.Millisecond)
	chosen(in, "the wait is over")
	chosen(in, "and does not begin anew")
	table.queue = polled(35)
	chosen(in, "the stream is earlier")
	chosen(table, "the table is earlier")
	o.task.Pass("table", 0)
	chosen(nil, "the table has one more: a new wait")
	o.task.Pass("table", 1)
	chosen(in, "the table is caught up")
}

func (l *loop) upstream(id string) *kgo.Client {
	l.t.Helper()
	client, err := kgo.NewClient(append(l.p.clientOptions(), kgo.TransactionalID(id))...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(client.Close)
	return client
}

// pairedLoop runs both partitions of a stage with the inputs "table" and "in".
func pairedLoop(t *testing.T) *loop {
	t.Helper()
	return newLoop(t, Fail, accept, func(s *Stage) { s.inputs = slices.Insert(s.inputs, 0, input{"table", accept}) })
}

// I2 holds for each input, so each transaction moves the metadata of all of them, also of one that it did not read.
func TestCommitMovesAllInputsOfItsTasks(t *testing.T) {
	l := pairedLoop(t)
	l.feed(1, 3)
	l.next(1, 3)
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	tps := l.tasks[1].partitions()
	got, err := session.FetchCommitted(t.Context(), l.p.admin, "app", tps)
	if err != nil {
		t.Fatal(err)
	}
	table, in := got[tps[0]], got[tps[1]]
	meta, err := state.ParseMetadata(in.Metadata)
	if table.Next != 0 || in.Next != 3 || table.Metadata != in.Metadata || err != nil || meta.TxnSeq != 2 {
		t.Errorf("table at %d with %q, in at %d with %q, %v: want 0 and 3 of transaction 2", table.Next, table.Metadata, in.Next, in.Metadata, err)
	}
	for _, in := range l.tasks[1].inputs {
		if in.first != -1 {
			t.Errorf("%s: record %d is still to be committed", in.Topic, in.first)
		}
	}
	o := own(l.p.stage("s"), l.assigned(t, 1))
	l.tasks[1].token.Kill()
	if err := l.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.restore(t.Context(), o, l.p.bases.turn(), l.assigned(t, 1)); err != nil || o.fresh || o.inputs[0].start != 0 || o.inputs[1].start != 3 {
		t.Errorf("restored to %v, fresh %v, %v: want 0 and 3", o.starts(), o.fresh, err)
	}
}

// assigned is an assignment of both inputs, as the group has committed them.
func (l *loop) assigned(t *testing.T, partition int32) *session.Assignment {
	t.Helper()
	a := &session.Assignment{Task: TaskID{Stage: "s", Partition: partition}, Token: session.NewToken()}
	for _, topic := range []string{"in", "table"} {
		a.Inputs = append(a.Inputs, session.AssignedInput{TopicPartition: session.TopicPartition{Topic: topic, Partition: partition}})
	}
	got, err := session.FetchCommitted(t.Context(), l.p.admin, "app", a.Partitions())
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.Inputs {
		a.Inputs[i].Committed = got[a.Inputs[i].TopicPartition]
	}
	return a
}

// What waits is bounded: an input is not fetched beyond a bound while its task waits for another, and is fetched again later.
func TestInputThatWaitsIsNotFetchedWithoutBound(t *testing.T) {
	l := pairedLoop(t)
	l.p.cfg.MaxTaskIdle = time.Hour
	o := l.tasks[0]
	table, in := &o.inputs[0], &o.inputs[1]
	table.stable = 1 // there is more of the table, and it does not come
	const n = maxQueued + 2*maxPoll
	l.feedMany(n)
	l.until("the queue is long", func() bool { return in.held })
	for range 3 {
		if err := l.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.abort(t.Context(), errors.New("test")); err != nil { // what waits comes again, and is bounded again
		t.Fatal(err)
	}
	if in.held || len(in.queue) > 0 {
		t.Errorf("held %v, %d records are queued after an abort", in.held, len(in.queue))
	}
	l.until("the queue is long again", func() bool { return in.held })
	if len(in.queue) > maxQueued+maxPoll || o.task.Next("in") != 0 {
		t.Errorf("%d records are queued, %d processed: want at most %d, none", len(in.queue), o.task.Next("in"), maxQueued+maxPoll)
	}
	table.stable, l.p.cfg.MaxTaskIdle = 0, 0
	l.next(0, n)
}

// feedMany produces n records to partition 0 of "in".
func (l *loop) feedMany(n int) {
	l.t.Helper()
	key := []byte("k0")
	for i := 0; Murmur2.Partition(key, 2) != 0; i++ {
		key = fmt.Appendf(nil, "k%d", i)
	}
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: "in", Key: key}
	}
	if err := l.p.admin.ProduceSync(l.t.Context(), records...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// A record of one input says nothing about the record of another at the same offset.
func TestRefusalIsOfOneInput(t *testing.T) {
	_, o := paired(t, 0, nil)
	o.lease = &lease{refused: map[inputOffset]*refusal{}}
	o.refusalOf(inputOffset{1, 7}).times++
	w := &worker{sess: &session.Session{}}
	o.inputs[0].queue = []*kgo.Record{{Offset: 7}}
	if o.lease.refused[inputOffset{0, 7}] != nil || w.mustBeAlone(o, &o.inputs[0]) {
		t.Error("the table's record is blamed for the stream's")
	}
	o.task.StartAt("table", 8)
	sealed, err := o.task.Seal("w")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.task.Merge(sealed, 1); err != nil {
		t.Fatal(err)
	}
	if o.settleRefusals(); len(o.lease.refused) != 1 {
		t.Error("the table's progress forgives the stream's record")
	}
}

// A task that is owned in part is shown with the reason, reads nothing and leaves the others alone.
func TestTaskOwnedInPartIsStopped(t *testing.T) {
	l := pairedLoop(t)
	l.tasks[1].token.Kill()
	if err := l.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := l.assigned(t, 1)
	a.Inputs, a.Missing = a.Inputs[:1], []string{"table"}
	if err := l.assign(t.Context(), []*session.Assignment{a}); err != nil || !a.Pause {
		t.Errorf("paused %v, %v", a.Pause, err)
	}
	l.admitArrivals()
	if o := l.tasks[1]; o.runs() || o.stopped == nil || o.lease != nil {
		t.Errorf("stopped by %v, holds %v: want a reason and no base", o.stopped, o.lease)
	}
	_, tasks := l.p.board.snapshot()
	const want = `task s/1: the group gave its inputs ["table"] to other members`
	if tasks[1].State != Stopped || tasks[1].Error[:len(want)] != want {
		t.Errorf("shown as %s: %s", tasks[1].State, tasks[1].Error)
	}
	l.feed(0, 2)
	l.next(0, 2)
}

// An input that the stage gains later starts by auto.offset.reset, and is committed with a marker before its first record.
func TestGainedInputStartsByItsReset(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.feed(0, 4)
	l.next(0, 4)
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	l.tasks[0].token.Kill()
	if err := l.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := l.p.stage("s")
	s.inputs = append(s.inputs, input{"table", accept})
	for range 2 {
		if err := l.p.admin.ProduceSync(t.Context(), &kgo.Record{Topic: "table", Partition: 0, Key: []byte("k")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for reset, want := range map[OffsetReset]int64{Earliest: 0, Latest: 2} {
		l.p.cfg.OffsetReset = reset
		o := own(s, l.assigned(t, 0))
		err := l.restore(t.Context(), o, l.p.bases.turn(), l.assigned(t, 0))
		if err != nil || !o.fresh || o.inputs[0].start != 4 || o.inputs[1].start != want {
			t.Errorf("%s: starts %v, fresh %v, %v: want 4, and %d of the new input", reset, o.starts(), o.fresh, err, want)
		}
		o.lease.release()
	}
	l.p.cfg.OffsetReset = None
	if err := l.restore(t.Context(), own(s, l.assigned(t, 0)), l.p.bases.turn(), l.assigned(t, 0)); err == nil {
		t.Error("auto.offset.reset=none lets a new input start")
	}
}

// An offset that another stage left would start the input in its middle.
func TestGainedInputWithAnOffsetOfAnotherStageIsRefused(t *testing.T) {
	p := newProof(t)
	p.o.stage.inputs = append(p.o.stage.inputs, input{topic: "moved"})
	moved := ownedInput{TopicPartition: session.TopicPartition{Topic: "moved"}, place: 1}
	err := p.w.proveInput(t.Context(), p.o, &moved, p.marker, session.CommittedOffset{Next: 3, Metadata: metadata(3, 0)})
	var v *ViolationError
	if !errors.As(err, &v) || v.Invariant != "I1" || !strings.Contains(err.Error(), "delete the group's offset") {
		t.Errorf("got %v, want I1 and the way out", err)
	}
}

// Each input proves itself: one whose offset agrees says nothing about the other.
func TestEveryInputIsProven(t *testing.T) {
	p := newProof(t)
	p.o.stage.inputs = append(p.o.stage.inputs, input{topic: "table"})
	p.marker.Fingerprint = p.o.stage.Fingerprint(1)
	p.marker.Next = append(p.marker.Next, state.InputNext{Topic: "table", AppliedNext: 2})
	in, table := session.TopicPartition{Topic: "in"}, session.TopicPartition{Topic: "table"}
	p.o.inputs = append(p.o.inputs, ownedInput{TopicPartition: table, place: 1})
	for _, c := range []struct {
		name, invariant string
		table           session.CommittedOffset
	}{
		{"state ahead of the table's offset", "I1", session.CommittedOffset{Next: 1, Metadata: metadata(3, 0)}},
		{"state behind the table's offset", "I1", session.CommittedOffset{Next: 3, Metadata: metadata(3, 0)}},
		{"the table's offset is of another transaction", "I2", session.CommittedOffset{Next: 2, Metadata: metadata(2, 0)}},
	} {
		base := state.NewMemory(nil)
		if err := base.Replay([]byte("\x00m"), p.marker.Append(nil)); err != nil {
			t.Fatal(err)
		}
		committed := map[session.TopicPartition]session.CommittedOffset{in: p.committed, table: c.table}
		var v *ViolationError
		if err := p.w.prove(t.Context(), p.o, base, committed); !errors.As(err, &v) || v.Invariant != c.invariant || !strings.Contains(err.Error(), "table") {
			t.Errorf("%s: got %v, want %s that names the table", c.name, err, c.invariant)
		}
		if (&replayer{Base: base, committed: committed}).Proven() {
			t.Errorf("%s: the restore counts as complete", c.name)
		}
	}
}
