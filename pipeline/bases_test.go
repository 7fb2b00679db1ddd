package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

func memory() state.Base { return state.NewMemory(nil) }

func TestBaseStaysWithTheProcessAndHasOneHolder(t *testing.T) {
	b, id := newBases(time.Minute), TaskID{Stage: "s", Partition: 1}
	first, second := session.NewToken(), session.NewToken()
	l1, err := b.lease(t.Context(), id, first, b.turn(), memory)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *lease)
	turn := b.turn()
	go func() {
		l, err := b.lease(context.Background(), id, second, turn, memory)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	select {
	case <-first.Done(): // the waiter tells the holder
	case <-got:
		t.Fatal("two hold the base")
	}
	select {
	case <-got:
		t.Fatal("two hold the base")
	default:
	}
	l1.release()
	if l2 := <-got; l2.base != l1.base {
		t.Error("the contents were thrown away")
	}
}

// Of two assignments of a task in one process the later one is right, in whatever order their restores get to run.
func TestLeaseGoesToTheLaterAssignment(t *testing.T) {
	b, id := newBases(time.Second), TaskID{Stage: "s"}
	older, newer := session.NewToken(), session.NewToken()
	early, late := b.turn(), b.turn()
	if _, err := b.lease(t.Context(), id, newer, late, memory); err != nil {
		t.Fatal(err)
	}
	if _, err := b.lease(t.Context(), id, older, early, memory); err == nil || older.Live() || !newer.Live() {
		t.Errorf("err %v, older live %v, newer live %v", err, older.Live(), newer.Live())
	}
}

func TestLeaseThatIsNotGivenBackIsReplacedByAnEmptyBase(t *testing.T) {
	b, id := newBases(10*time.Millisecond), TaskID{Stage: "s"}
	l1, err := b.lease(t.Context(), id, session.NewToken(), b.turn(), memory)
	if err != nil {
		t.Fatal(err)
	}
	l2, err := b.lease(t.Context(), id, session.NewToken(), b.turn(), memory)
	if err != nil || l2.base == l1.base {
		t.Errorf("err %v, same base %v", err, l2.base == l1.base)
	}
	l1.release() // late: it must not free what is the other's now
	if held := b.try(&lease{id: id}, memory, nil); held != l2 {
		t.Error("a late release freed another's lease")
	}
}

// What was polled before a rewind is void, and the client must go back: a gap here would be a record that is never applied.
func TestRecordsAfterARewindMustComeAgainFromTheFirst(t *testing.T) {
	p, err := NewProcessor(Config{Brokers: []string{"b:1"}}, minimal())
	if err != nil {
		t.Fatal(err)
	}
	o := &ownedTask{inputs: []ownedInput{{first: -1, again: -1}}}
	in := &o.inputs[0]
	w := &worker{p: p, tasks: []*ownedTask{o}}
	records := func(from, to int64) (rs []*kgo.Record) {
		for ; from < to; from++ {
			rs = append(rs, &kgo.Record{Offset: from})
		}
		return rs
	}
	if err := w.enqueue(o, in, records(10, 20)); err != nil {
		t.Fatal(err)
	}
	w.rewind()
	if len(in.queue) != 0 {
		t.Errorf("%d records outlived the rewind", len(in.queue))
	}
	var v *ViolationError
	if err := w.enqueue(o, in, records(20, 30)); !errors.As(err, &v) || v.Invariant != "I5" {
		t.Errorf("got %v, want I5: offsets 10 to 19 were skipped", err)
	}
	if err := w.enqueue(o, in, records(10, 12)); err != nil {
		t.Errorf("got %v for the right offset", err)
	}
}

func minimal() *Pipeline {
	p := New("app")
	p.Stage("s").inputs = []input{{topic: "in"}}
	return p
}
