package pipeline

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// The open transaction may still be undone: what it wrote is in its overlay, and a query reads the base.
func TestQueryDoesNotSeeTheOpenTransaction(t *testing.T) {
	var seen state.Table[string, int64]
	l := newLoop(t, Fail, func(c *Ctx, in *Input) error {
		seen.Put(c, string(in.Key), 1)
		return nil
	}, func(s *Stage) { seen = state.NewTable(s, "seen", record.String, record.Int64) })
	l.asks = make(chan *ask, 1)
	rows := func() (n int) {
		answered := make(chan error, 1)
		go func() {
			answered <- l.ask(t.Context(), TaskID{Stage: "s"}, func(s *Snapshot) {
				for range seen.All(s) {
					n++
				}
			})
			l.wake() // the turn that answered has gone on to wait
		}()
		l.until("the query is answered", func() bool { return len(answered) > 0 })
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		return n
	}
	l.feed(0, 1)
	l.next(0, 1)
	if n := rows(); n != 0 || !l.sess.InTransaction() {
		t.Errorf("%d rows, want none: their transaction is open (%v)", n, l.sess.InTransaction())
	}
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	if n := rows(); n != 1 {
		t.Errorf("%d rows after the commit, want 1", n)
	}
	l.tasks[0].token.Kill()
	if err := l.read(&ask{id: TaskID{Stage: "s"}, read: func(*Snapshot) {}}); !errors.Is(err, errNotMine) {
		t.Errorf("a lost task answers: %v", err)
	}
}

// What a query got is its own: it writes on it as it likes, and the next one sees what is committed.
func TestSnapshotIsItsReadersToWriteOn(t *testing.T) {
	l := newLoop(t, Fail, accept)
	l.feed(0, 2)
	l.next(0, 2)
	if committed, err := l.commit(t.Context()); err != nil || !committed {
		t.Fatal(committed, err)
	}
	for range 2 {
		if err := l.read(&ask{id: TaskID{Stage: "s"}, read: func(s *Snapshot) {
			if len(s.Next) != 1 || s.Next[0].AppliedNext != 2 {
				t.Errorf("next %+v, want what is committed: a reader before wrote on the marker", s.Next)
			}
			clear(s.Next)
		}}); err != nil {
			t.Fatal(err)
		}
	}
}

// A task that runs and has committed nothing yet has no stream time: 0 would be midnight of 1 January 1970.
func TestSnapshotBeforeTheFirstTransactionHasNoTime(t *testing.T) {
	l := newLoop(t, Fail, accept)
	if err := l.tasks[0].lease.base.Reset(); err != nil {
		t.Fatal(err)
	}
	err := l.read(&ask{id: TaskID{Stage: "s"}, read: func(s *Snapshot) {
		if s.TxnSeq != 0 || s.StreamTime != state.NoStreamTime {
			t.Errorf("transaction %d, stream time %d: want none of either", s.TxnSeq, s.StreamTime)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// An outage that finds the group idle is seen at its heartbeats alone: the status must say why nobody is joined, and a second
// outage must be logged like the first.
func TestGroupErrorIsShownAndLoggedOncePerOutage(t *testing.T) {
	l := newLoop(t, Fail, accept)
	var log bytes.Buffer
	l.p.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for outage := 1; outage <= 2; outage++ {
		l.showJoined(false)
		for range 3 {
			l.sayGroupError(errors.New("no route to host"))
		}
		if w := l.p.Status().Workers[0]; w.Joined || w.LastError != "no route to host" {
			t.Errorf("outage %d is shown as %+v", outage, w)
		}
		if n := strings.Count(log.String(), "no route to host"); n != outage {
			t.Errorf("%d lines after outage %d:\n%s", n, outage, log.String())
		}
		l.showJoined(true)
	}
}
