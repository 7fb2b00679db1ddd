package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

// trims is a purger whose brokers are the test's.
type trims struct {
	*purger
	asked, said []string
	fails       error
}

func newTrims() *trims {
	x := &trims{}
	x.purger = newPurger(time.Minute, func(topic string, err error) { x.said = append(x.said, fmt.Sprint(topic, " ", err)) })
	x.trim = func(_ context.Context, topic string, before map[int32]int64) error {
		x.asked = append(x.asked, fmt.Sprint(topic, " ", before))
		return x.fails
	}
	return x
}

func hop(partition int32) session.TopicPartition {
	return session.TopicPartition{Topic: "hop", Partition: partition}
}

func (x *trims) expect(t *testing.T, got *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*got, want) {
		t.Errorf("got %q, want %q", *got, want)
	}
	*got = nil
}

func TestPurgeTrimsWhatMovedAndOnlyForOwnTasks(t *testing.T) {
	x := newTrims()
	x.purge(t.Context())
	x.expect(t, &x.asked)
	x.committed(hop(0), 5)
	x.committed(hop(1), 0)
	x.purge(t.Context())
	x.purge(t.Context())
	x.expect(t, &x.asked, "hop map[0:5]")
	x.committed(hop(0), 9)
	x.committed(hop(1), 2)
	x.lost(hop(1))
	x.purge(t.Context())
	x.expect(t, &x.asked, "hop map[0:9]")
}

func TestPurgeThatFailsIsToldOnChangeAndTriedAgain(t *testing.T) {
	x := newTrims()
	x.committed(hop(0), 5)
	x.fails = errors.New("denied")
	x.purge(t.Context())
	x.purge(t.Context())
	x.expect(t, &x.asked, "hop map[0:5]", "hop map[0:5]")
	x.expect(t, &x.said, "hop denied")
	x.fails = errors.New("no leader")
	x.purge(t.Context())
	x.fails = nil
	x.purge(t.Context())
	x.expect(t, &x.said, "hop no leader", "hop <nil>")
	x.asked = nil
	x.purge(t.Context())
	x.expect(t, &x.asked)
	x.committed(hop(0), 6)
	x.purge(t.Context())
	x.expect(t, &x.asked, "hop map[0:6]")
	x.expect(t, &x.said)
}

// A commit that is not proven deletes nothing.
func TestOnlyAProvenCommitLetsRecordsBeDeleted(t *testing.T) {
	l := newLoop(t, Fail, func(*Ctx, *Input) error { return nil }, func(s *Stage) {
		s.repartition = "in"
		s.outputs = []string{"in"}
	})
	l.feed(0, 4)
	l.next(0, 4)
	if due := l.p.purger.due(); len(due) != 0 {
		t.Errorf("due before any commit: %v", due)
	}
	if err := l.abort(t.Context(), errors.New("test")); err != nil {
		t.Fatal(err)
	}
	if due := l.p.purger.due(); len(due) != 0 {
		t.Errorf("due after an abort: %v", due)
	}
	l.next(0, 4)
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	l.feed(0, 3)
	l.next(0, 7)
	if due := l.p.purger.due(); due["in"][0] != 4 {
		t.Errorf("due %v, want what is committed: 4", due)
	}
	l.tasks[0].token.Kill()
	if err := l.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if due := l.p.purger.due(); len(due) != 0 {
		t.Errorf("due of a task that is lost: %v", due)
	}
}

// What is deleted never comes back: of a task of two inputs it is what is applied of the repartition topic, not of the other one, and
// nothing of a task that went to another process while its commit was proven.
func TestPurgeGoesByTheOffsetOfTheRepartitionTopic(t *testing.T) {
	w, o := paired(t, 0, nil)
	o.stage.repartition = "in"
	m := state.Marker{Next: []state.InputNext{{Topic: "table", AppliedNext: 900}, {Topic: "in", AppliedNext: 3}}}
	seals := []sealed{{owner: o, state: state.Sealed{Marker: m}}}
	w.purgeCommitted(seals)
	if due := w.p.purger.due(); len(due) != 1 || due["in"][0] != 3 {
		t.Errorf("due %v, want what is below 3 of the repartition topic alone", due)
	}
	w.purgeNoMore(o)
	o.token.Kill()
	w.purgeCommitted(seals)
	if due := w.p.purger.due(); len(due) != 0 {
		t.Errorf("due %v of a task that is another's", due)
	}
}

// A worker that slept while another owned its task asks for records that the other has deleted: that proves nothing about the
// task, so that it does not stop it. A new session proves what holds.
func TestTrimmedRepartitionTopicIsNoLossToWhoWasAsleep(t *testing.T) {
	for _, repartition := range []bool{true, false} {
		l := newLoop(t, Fail, func(*Ctx, *Input) error { return nil }, func(s *Stage) {
			if repartition {
				s.repartition, s.outputs = "in", []string{"in"}
			}
		})
		gone := kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "in", Partitions: []kgo.FetchPartition{{Partition: 1, Err: kerr.OffsetOutOfRange}}}}}}
		err := l.pollErrors(t.Context(), gone)
		if stopped := l.tasks[1].stopped != nil; stopped == repartition || (err != nil) != repartition {
			t.Errorf("repartition topic %v: stopped %v, %v: want a new session for a repartition topic, a stop else", repartition, stopped, err)
		}
		if err != nil && session.FateOf(err) == session.Fatal {
			t.Errorf("fatal: %v", err)
		}
	}
}

// What such a session must not take for granted: that the topic still reaches as far as it was applied.
func TestRepartitionTopicThatEndsBeforeWhatIsAppliedIsALoss(t *testing.T) {
	p := newProof(t)
	p.o.stage.repartition = "in"
	if err := p.try(t); err != nil {
		t.Fatal(err)
	}
	p.marker.Next[0].AppliedNext, p.committed.Next = 99, 99
	var v *ViolationError
	if err := p.try(t); !errors.As(err, &v) || v.Invariant != "I4" || !strings.Contains(err.Error(), "ends at offset 8") || !strings.Contains(err.Error(), "reset plan") {
		t.Errorf("got %v, want I4 and the way out", err)
	}
}
