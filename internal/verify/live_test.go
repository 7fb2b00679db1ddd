package verify

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// accepts fails unless the world is judged without violation.
func accepts(t *testing.T, w *world) Report {
	t.Helper()
	r, err := w.audit(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	return r
}

// undecided fails unless the world cannot be judged, for the reason given, and nothing is found wrong.
func undecided(t *testing.T, w *world, says string) Report {
	t.Helper()
	r, err := w.audit(t)
	u, ok := errors.AsType[*UndecidedError](err)
	if !ok || !strings.Contains(u.Reason, says) {
		t.Fatalf("want undecided with %q, have %v", says, err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	return r
}

func TestInputsBehindTheMarkerAreNotYetProcessed(t *testing.T) {
	w := ordinary()
	w.send(0, in{id: "later", kind: "credit", account: w.accountOn(0, 0), cents: 1})
	w.send(0, in{id: "later still", kind: "credit", account: w.accountOn(0, 0), cents: 1})
	if r := accepts(t, w); r.NotYetProcessed != 2 || r.Inputs != 42 {
		t.Errorf("%+v", r)
	}
}

func TestAnEmptyJobIsAccepted(t *testing.T) {
	w := newWorld(3)
	w.send(1, in{id: "waits", kind: "credit", account: w.accountOn(1, 0), cents: 1})
	if r := accepts(t, w); r.NotYetProcessed != 1 || r.Inputs != 0 {
		t.Errorf("%+v", r)
	}
}

// commitLater lets a job commit another transaction between the looks at its committed offset.
func commitLater(w *world, look int) {
	before := w.commits[0]
	w.feed(0, in{id: "new", kind: "credit", account: w.accountOn(0, 0), cents: 1})
	w.jobs[0].commit()
	after := w.commits[0]
	w.moved = func(p int32, n int) {
		if p == 0 && n < look {
			w.commits[0] = before
		} else if p == 0 {
			w.commits[0] = after
		}
	}
}

func TestACommitBetweenOffsetAndStateIsAccepted(t *testing.T) {
	w := ordinary()
	commitLater(w, 1)
	if r := accepts(t, w); r.Inputs != 43 {
		t.Errorf("judged %d inputs, want those of the new marker", r.Inputs)
	}
}

func TestTheFirstCommitBetweenOffsetAndStateIsAccepted(t *testing.T) {
	w := newWorld(1)
	commitLater(w, 1)
	accepts(t, w)
}

func TestAMarkerAheadOfEveryCommitIsNot(t *testing.T) {
	w := ordinary()
	commitLater(w, 99)
	r, err := w.audit(t)
	if err != nil || r.Counts[Offset] != 1 {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}

// The marker of the commit is in the state still: it must be that commit's, whatever came later.
func TestACommitThatItsOwnMarkerContradictsIsNot(t *testing.T) {
	w := ordinary()
	w.commits[0].next--
	commitLater(w, 1)
	r, err := w.audit(t)
	if err != nil || r.Counts[Offset] != 1 {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}

// The state's end was read in the middle of a transaction that was decided before its records were.
func TestAnEndInsideATransactionIsReadOnToItsMarker(t *testing.T) {
	w := ordinary()
	log := w.logs[w.topics.State][0]
	commitLater(w, 1)
	whole := w.logs[w.topics.State][0]
	w.logs[w.topics.State][0] = whole[:len(log)+1]
	opened := &openHook{history: w, topic: w.topics.State, p: 0, hook: func(n int) {
		if n == 1 {
			w.logs[w.topics.State][0] = whole
		}
	}}
	r, err := auditAll(t.Context(), w.rules(), opened, 2, 1)
	if err != nil || !r.OK() || r.Inputs != 43 {
		t.Errorf("error %v, inputs %d, %v", err, r.Inputs, r.Violations)
	}
}

// A record was compacted away because of its successor, which lies behind the end that was read to.
func TestARecordCompactedWhileReadingIsFoundFurtherOn(t *testing.T) {
	w := ordinary()
	early := slices.Clone(w.logs[w.topics.State][0])
	commitLater(w, 1)
	all := w.logs[w.topics.State][0]
	successor := all[len(early)]
	early = slices.DeleteFunc(early, func(r *kgo.Record) bool { return string(r.Key) == string(successor.Key) })
	w.logs[w.topics.State][0] = early
	opened := &openHook{history: w, topic: w.topics.State, p: 0, hook: func(n int) {
		if n == 1 {
			w.logs[w.topics.State][0] = all
		}
	}}
	r, err := auditAll(t.Context(), w.rules(), opened, 2, 1)
	if err != nil || !r.OK() || r.Inputs != 43 {
		t.Errorf("error %v, inputs %d, %v", err, r.Inputs, r.Violations)
	}
}

// openHook does something before the n-th reading of a partition.
type openHook struct {
	history
	topic string
	p     int32
	n     int
	hook  func(n int)
}

func (h *openHook) open(ctx context.Context, topic string, p int32, from int64) (stream, error) {
	if topic == h.topic && p == h.p {
		h.hook(h.n)
		h.n++
	}
	return h.history.open(ctx, topic, p, from)
}

func TestATransactionThatEndsIsWaitedFor(t *testing.T) {
	for _, topic := range []string{"updates", "state"} {
		w := ordinary()
		name := map[string]string{"updates": w.topics.Updates, "state": w.topics.State}[topic]
		w.openFrom(name, 5)
		w.patient[where(name, 0)] = true
		accepts(t, w)
	}
}

func TestAnOpenTransactionThatHidesAnOutcomeLeavesItUndecided(t *testing.T) {
	w := ordinary()
	w.openFrom(w.topics.Updates, 5)
	r := undecided(t, w, "ledger-updates/0 has a transaction open since offset 5")
	if len(r.OpenTransactions) != 1 || r.OpenTransactions[0].Stable != 5 {
		t.Errorf("%+v", r.OpenTransactions)
	}
}

func TestAnOpenTransactionThatHidesTheMarkerLeavesItUndecided(t *testing.T) {
	w := ordinary()
	w.openFrom(w.topics.State, 5)
	undecided(t, w, "hides the marker of committed offset 21")
}

func TestAnInputLostBeforeAnOpenTransactionIsLostAllTheSame(t *testing.T) {
	w := ordinary()
	w.drop(w.topics.Updates, 1)
	w.openFrom(w.topics.Updates, 7)
	r, err := w.audit(t)
	if err == nil || r.Counts[Lost] != 1 {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}

// A zombie's transaction that lies behind everything judged is reported and hinders nothing.
func TestAnOpenTransactionBehindTheCutIsReported(t *testing.T) {
	w := ordinary()
	for _, topic := range []string{w.topics.Input, w.topics.Updates, w.topics.State, w.topics.DeadLetters} {
		log := w.logs[topic][0]
		w.openFrom(topic, log[len(log)-1].Offset+1)
		w.append(topic, 0, kgo.Record{Key: []byte("\x05extra1"), Value: []byte("open")})
	}
	r := accepts(t, w)
	if len(r.OpenTransactions) != 4 || r.NotYetProcessed != 0 {
		t.Errorf("%+v", r)
	}
}

func TestInputsTakenByRetentionLeaveItUndecided(t *testing.T) {
	w := ordinary()
	w.first[where(w.topics.Input, 0)] = 3
	undecided(t, w, "retention took inputs that were processed")
}

// What was taken unread is lost for sure, though the balances before it cannot be followed any more.
func TestInputsTakenUnreadAreLostAlsoWhereTheRestIsUndecided(t *testing.T) {
	w := ordinary()
	for _, id := range []string{"unread-1", "unread-2"} {
		w.send(0, in{id: id, kind: "credit", account: w.accountOn(0, 0), cents: 1})
	}
	log := w.logs[w.topics.Input][0]
	w.first[where(w.topics.Input, 0)] = log[len(log)-1].Offset + 1
	r, err := w.audit(t)
	if _, undecided := errors.AsType[*UndecidedError](err); !undecided || r.Counts[Lost] != 1 || !strings.Contains(r.Violations[0].Text, "before they were processed") {
		t.Errorf("error %v, %+v", err, r.Violations)
	}
}

// Brokers forget the offsets of a group that nobody joined for days. The job resumes from its marker.
func TestAStoppedGroupWhoseOffsetExpiredLeavesItUndecided(t *testing.T) {
	w := ordinary()
	w.commits[0], w.later = newCommit(-1, ""), 8*24*time.Hour
	if r := undecided(t, w, "start the job once: it resumes from the marker"); r.Inputs != 42 {
		t.Errorf("judged %d inputs, want all below the marker", r.Inputs)
	}
	w.drop(w.topics.Updates, 3)
	if r, err := w.audit(t); !onlyUndecided(err) || err == nil || r.Counts[Lost] != 1 || r.Counts[Offset] != 0 {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}

// A job that was started again restores its state first, and then commits where its marker stands.
func TestAnOffsetThatIsGoneIsWaitedForWhileTheGroupHasMembers(t *testing.T) {
	for name, c := range map[string]struct {
		back  int // the look at which the offset is there
		leave bool
		want  Verdict
	}{"it comes": {4, false, ""}, "it does not": {1 << 30, false, Offset}, "the job is stopped": {1 << 30, true, ""}} {
		synctest.Test(t, func(t *testing.T) {
			w := ordinary()
			w.joined, w.later = 1, 8*24*time.Hour
			there := w.commits[0]
			w.moved = func(p int32, n int) {
				if p != 0 {
					return
				}
				if w.commits[0] = there; n < c.back {
					w.commits[0] = newCommit(-1, "")
				}
				if c.leave && n == 3 {
					w.joined = 0
				}
			}
			r := w.rules()
			r.patience = 40 * time.Second
			began := time.Now()
			got, err := auditAll(t.Context(), r, w, 2, 1)
			if stopped := onlyUndecided(err) && err != nil; stopped != c.leave || len(got.Counts) > 1 || c.want != "" != (got.Counts[Offset] == 1) {
				t.Errorf("%s: error %v, %v", name, err, got.Violations)
			}
			if took := time.Since(began); took > r.patience+time.Second {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// Between the reading of the marker and that of the input the job goes on, and retention follows it.
func TestInputsTakenBehindAJobThatGoesOnAreNotLost(t *testing.T) {
	for _, baseline := range []bool{false, true} {
		w := ordinary()
		x := w.rounds(tiny(1000))
		if baseline { // the round before judged all that there was
			if _, fresh, err := x.round(t.Context()); err != nil || len(fresh) > 0 {
				t.Fatal(err, fresh)
			}
		}
		x.h = &openHook{history: w, topic: w.topics.Input, p: 0, hook: func(int) {
			w.feed(0, in{id: "new", kind: "credit", account: w.accountOn(0, 1), cents: 1, currency: "USD"})
			w.jobs[0].commit()
			w.first[where(w.topics.Input, 0)] = w.commits[0].next
		}}
		for _, a := range x.audits {
			a.h = x.h
		}
		r, fresh, err := x.round(t.Context())
		u, is := errors.AsType[*UndecidedError](err)
		if !is || !strings.Contains(u.Reason, "while verify was reading") || !r.OK() || len(fresh) > 0 {
			t.Errorf("error %v, %v", err, r.Violations)
		}
		x.close()
	}
}

func TestOutcomesTakenByRetentionLeaveItUndecided(t *testing.T) {
	w := ordinary()
	w.first[where(w.topics.Updates, 0)] = 2
	undecided(t, w, "its head was deleted")
}

func TestAHeadThatWasDeletedBeforeTheJobBeganIsAccepted(t *testing.T) {
	w := newWorld(1)
	for _, topic := range []string{w.topics.Input, w.topics.Updates} {
		w.append(topic, 0, kgo.Record{Key: []byte("old"), Value: []byte("{}")})
		w.first[where(topic, 0)] = 1
	}
	w.feed(0, in{id: "first", kind: "credit", account: w.accountOn(0, 0), cents: 1})
	w.jobs[0].commit()
	accepts(t, w)
}

func TestAJobThatBeganAtTheEndIsJudgedFromItsStart(t *testing.T) {
	w := newWorld(1)
	w.send(0, in{id: "never read", kind: "credit", account: w.accountOn(0, 0), cents: 1})
	w.feed(0, in{id: "first", kind: "credit", account: w.accountOn(0, 0), cents: 1})
	w.jobs[0].commit()
	r := w.rules()
	r.start = map[int32]int64{0: 1}
	got, err := auditAll(t.Context(), r, w, 1, 1)
	if err != nil || !got.OK() || got.Inputs != 1 {
		t.Errorf("error %v, %+v", err, got)
	}
	if got, err := w.audit(t); err != nil || got.Counts[Lost] != 1 {
		t.Errorf("without a start: error %v, %+v", err, got)
	}
}

// Offsets of control records and aborted batches are committed past, and are no inputs.
func TestGapsInTheInputAreNoInputs(t *testing.T) {
	w := newWorld(1)
	w.feed(0, in{id: "a", kind: "credit", account: w.accountOn(0, 0), cents: 1})
	w.append(w.topics.Input, 0, kgo.Record{Offset: 9, Key: []byte("x")})
	w.logs[w.topics.Input][0] = w.logs[w.topics.Input][0][:1]
	w.jobs[0].next = 10
	w.jobs[0].commit()
	accepts(t, w)
}
