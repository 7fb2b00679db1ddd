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
	if err := l.read(&ask{id: TaskID{Stage: "s"}}); !errors.Is(err, errNotMine) {
		t.Errorf("a lost task: %v", err)
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
