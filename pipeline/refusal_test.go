package pipeline

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refused is how a record of partition 0, the fourth of ten, fares when the broker refuses its output a number of times.
func refused(t *testing.T, times int) *loop {
	l := newLoop(t, ToDeadLetters, func(c *Ctx, in *Input) error {
		if in.Offset == 3 {
			c.task.out = append(c.task.out, Out{Topic: "out", Partition: 1, Key: in.Key, Value: in.Value, Timestamp: in.Timestamp})
		}
		return nil
	})
	l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.MessageTooLarge, Count: times})
	l.feed(0, 10)
	l.next(0, 10)
	if committed, err := l.commit(t.Context()); err != nil || committed {
		t.Fatalf("committed %v, %v: the broker refused a record", committed, err)
	}
	l.next(0, 10) // what must be alone commits by itself
	return l
}

// inputs lists how many inputs each committed transaction had.
func (l *loop) inputs() (n []int) {
	for _, x := range l.commits {
		n = append(n, x.Inputs)
	}
	return n
}

// One refusal proves nothing about the record: it is processed again, alone, so that no other pays for it.
func TestRefusedOutputIsTriedAgainAlone(t *testing.T) {
	l := refused(t, 1)
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	if got := l.inputs(); !slices.Equal(got, []int{3, 1, 6}) {
		t.Errorf("transactions of %v inputs, want 3, the refused one, and 6", got)
	}
	if n := l.deadLetters(); n != 0 {
		t.Errorf("%d dead letters after one refusal", n)
	}
	if o := l.tasks[0]; o.refusals != 0 || len(o.lease.refused) != 0 {
		t.Errorf("%d refusals in a row, %d inputs remembered after the commit: want none", o.refusals, len(o.lease.refused))
	}
}

// Refused alone, the record is to blame, and falls under the stage's policy.
func TestOutputRefusedTwiceFallsUnderThePolicy(t *testing.T) {
	l := refused(t, 2)
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	if n := l.deadLetters(); n != 2 { // it and its transaction's marker
		t.Errorf("the dead letters end at %d, want one and a marker", n)
	}
}

// A task whose every transaction is refused stops; it does not loop, and the others go on.
func TestTaskStopsWhenItsRecordsAreRefusedWithoutEnd(t *testing.T) {
	l := newLoop(t, ToDeadLetters, func(*Ctx, *Input) error { return errors.New("to the dead letters") })
	l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "app-dead-letters", Err: kerr.MessageTooLarge, Partitions: []int32{0}, Count: -1})
	l.feed(0, 4)
	l.feed(1, 4)
	l.next(0, 4)
	if committed, err := l.commit(t.Context()); err != nil || committed {
		t.Fatalf("committed %v, %v: the broker refused a record", committed, err)
	}
	l.until("the task stops", func() bool { return l.tasks[0].stopped != nil })
	if l.aborts < maxRefusals {
		t.Errorf("stopped by %v after %d aborts", l.tasks[0].stopped, l.aborts)
	}
	l.next(1, 4)
	if committed, err := l.commit(t.Context()); err != nil || !committed || l.groupOffset(0) != 0 || l.groupOffset(1) != 4 {
		t.Errorf("committed %v, %v, offsets %d and %d: want 0 and 4", committed, err, l.groupOffset(0), l.groupOffset(1))
	}
}

// What a timer sends is nobody's record: refused, it makes no dead letter of the one that moved time, and the task stops.
func TestRefusedOutputOfATimerStopsTheTaskAndBlamesNoRecord(t *testing.T) {
	l := newLoop(t, ToDeadLetters, func(*Ctx, *Input) error { return nil }, func(s *Stage) {
		s.Every(time.Millisecond, func(c *Ctx, _ time.Time) error {
			c.task.out = append(c.task.out, Out{Topic: "out", Partition: 1, Key: []byte("k"), Value: []byte("v"), Timestamp: c.time})
			return nil
		})
	})
	l.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.MessageTooLarge, Count: -1})
	l.feed(0, 1) // stream time begins
	l.next(0, 1)
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	l.feed(0, 1)
	l.next(0, 2)
	for range maxRefusals {
		if committed, err := l.commit(t.Context()); err != nil || committed {
			t.Fatalf("committed %v, %v: the broker refused the timer's record", committed, err)
		}
		l.until("it comes again, or the task stops", func() bool { return l.tasks[0].stopped != nil || l.tasks[0].task.Next("in") == 2 })
	}
	if o := l.tasks[0]; o.stopped == nil || l.aborts != maxRefusals || l.deadLetters() != 0 {
		t.Errorf("stopped by %v after %d aborts, dead letters end at %d: want stopped after %d, none", o.stopped, l.aborts, l.deadLetters(), maxRefusals)
	}
	if got := l.groupOffset(0); got != 1 {
		t.Errorf("committed up to %d, want 1: the record is not done", got)
	}
}
