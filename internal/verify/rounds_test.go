package verify

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// grow adds random events to a world, and commits.
func grow(t *rapid.T, w *world, clock []int64, label string) {
	for i := range rapid.IntRange(0, 25).Draw(t, label) {
		p := rapid.Int32Range(0, w.partitions-1).Draw(t, "partition")
		clock[p] += rapid.SampledFrom([]int64{0, 1, 500, 3_000, 40_000}).Draw(t, "step")
		e := drawEvent(t, w, p, i)
		e.at = 4_000_000 - clock[p] + rapid.SampledFrom([]int64{0, 0, 0, 900, 70_000, 200_000}).Draw(t, "late")
		w.feed(p, e)
	}
	w.commit()
}

func (w *world) rounds(m memory) *rounds {
	r := w.rules()
	r.memory = m
	return newRounds(r, w, w.partitions, 1)
}

// comparable leaves out what rounds count otherwise: what was read again, and ids that were forgotten in between.
func comparable(r Report) Report {
	r.Records, r.AppliedAgain = 0, 0
	return r
}

func TestRoundsOverAGrowingHistoryFindWhatOneAuditFinds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rapid.Int32Range(1, 3).Draw(rt, "partitions"))
		clock := make([]int64, 3)
		x := w.rounds(tiny(rapid.SampledFrom([]int{2, 1000}).Draw(rt, "entries")))
		defer x.close()
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			grow(rt, w, clock, "events")
			got, fresh, err := x.round(t.Context())
			want, _ := w.audit(t)
			if err != nil || len(fresh) > 0 || !reflect.DeepEqual(comparable(got), comparable(want)) {
				rt.Fatalf("%v %v\n%+v\none audit: %+v", err, fresh, got, want)
			}
		}
	})
}

func TestAFaultBehindTheLastRoundIsFound(t *testing.T) {
	found := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rapid.Int32Range(1, 2).Draw(rt, "partitions"))
		clock := make([]int64, 3)
		x := w.rounds(tiny(1000))
		defer x.close()
		grow(rt, w, clock, "first")
		if _, fresh, err := x.round(t.Context()); err != nil || len(fresh) > 0 {
			rt.Fatal(err, fresh)
		}
		before := w.lengths()
		grow(rt, w, clock, "second")
		intact := w.snapshot()
		_, ok := mutate(rt, w)
		if !ok || !w.same(intact, before) {
			rt.Skip("the drawn fault lies in what was read already; rapid draws another")
		}
		got, fresh, err := x.round(t.Context())
		want, err2 := w.audit(t)
		if got.OK() != want.OK() || (err == nil) != (err2 == nil) || got.OK() != (len(fresh) == 0) {
			rt.Fatalf("%v %v\n%+v\none audit: %v %+v", err, fresh, got, err2, want)
		}
		if !got.OK() {
			found++
		}
	})
	if found == 0 {
		t.Error("no fault was drawn")
	}
}

func (w *world) lengths() map[string]int {
	n := map[string]int{}
	for topic, logs := range w.logs {
		for p, log := range logs {
			n[where(topic, int32(p))] = len(log)
		}
	}
	return n
}

func (w *world) snapshot() map[string][]kgo.Record {
	all := map[string][]kgo.Record{}
	for topic, logs := range w.logs {
		for p, log := range logs {
			for _, r := range log {
				all[where(topic, int32(p))] = append(all[where(topic, int32(p))], *r)
			}
		}
	}
	return all
}

// same reports whether the first records of each log are what they were.
func (w *world) same(intact map[string][]kgo.Record, n map[string]int) bool {
	now := w.snapshot()
	for at, count := range n {
		if len(now[at]) < count || !reflect.DeepEqual(now[at][:count], intact[at][:count]) {
			return false
		}
	}
	return true
}

// An id that another partition applied is met in its inbox, in whichever round each was.
func TestADoubleCreditIsFoundAcrossRounds(t *testing.T) {
	for _, rounds := range [][]int{{1, 1, 0}, {1, 0, 1}, {0, 1, 1}, {1, 0, 0, 1}} {
		w := newWorld(2)
		x := w.rounds(tiny(1000))
		one := []in{{id: "twice", kind: "credit", account: w.accountOn(0, 0), cents: 5}, {id: "twice", kind: "credit", account: w.accountOn(1, 0), cents: 5}}
		shown := 0
		for i, n := range rounds {
			w.feed(0, in{id: fmt.Sprint("a", i), kind: "credit", account: w.accountOn(0, 0), cents: 1})
			w.feed(1, in{id: fmt.Sprint("b", i), kind: "credit", account: w.accountOn(1, 0), cents: 1})
			if n == 1 {
				p := int32(2 - len(one))
				w.feed(p, one[0])
				one = one[1:]
			}
			r, fresh, err := x.commitAndRound(t, w)
			if err != nil || int64(shown+len(fresh)) != r.Counts[DoubleCredit] {
				t.Fatalf("%v: %v %v", rounds, err, r.Violations)
			}
			shown += len(fresh)
		}
		if shown != 1 {
			t.Errorf("%v: told %d times", rounds, shown)
		}
		x.close()
	}
	w := newWorld(2)
	x := w.rounds(tiny(1000))
	defer x.close()
	w.feed(0, in{id: "a", kind: "credit", account: w.accountOn(0, 0), cents: 5})
	if _, _, err := x.commitAndRound(t, w); err != nil {
		t.Fatal(err)
	}
	w.feed(0, in{id: "twice", kind: "credit", account: w.accountOn(0, 0), cents: 5})
	w.feed(1, in{id: "twice", kind: "credit", account: w.accountOn(1, 0), cents: 5})
	r, fresh, err := x.commitAndRound(t, w)
	if err != nil || len(fresh) != 1 || r.Counts[DoubleCredit] != 1 || len(fresh[0].Evidence) != 2 {
		t.Errorf("both in one later round: %v %v", err, r.Violations)
	}
}

func (x *rounds) commitAndRound(t *testing.T, w *world) (Report, []Violation, error) {
	w.commit()
	return x.round(t.Context())
}

// A partition that could not be decided goes on where it stood; one that is violated is told once and judged no further.
func TestARoundThatIsUndecidedIsMadeUpFor(t *testing.T) {
	for _, topic := range []string{"updates", "state", "input"} {
		w := ordinary()
		name := map[string]string{"updates": w.topics.Updates, "state": w.topics.State, "input": w.topics.Input}[topic]
		w.openFrom(name, 5)
		x := w.rounds(tiny(1000))
		if _, fresh, err := x.round(t.Context()); err == nil || len(fresh) > 0 {
			t.Errorf("%s: %v %v", topic, err, fresh)
		}
		delete(w.stable[name], 0)
		got, fresh, err := x.round(t.Context())
		want, _ := w.audit(t)
		if err != nil || len(fresh) > 0 || !reflect.DeepEqual(comparable(got), comparable(want)) {
			t.Errorf("%s: %v %v\n%+v\n%+v", topic, err, fresh, got, want)
		}
		x.close()
	}
}

func TestAViolationIsToldOnceAndStopsItsPartition(t *testing.T) {
	w := ordinary()
	w.drop(w.topics.Updates, 1)
	x := w.rounds(tiny(1000))
	defer x.close()
	first, fresh, _ := x.round(t.Context())
	if len(fresh) == 0 || first.OK() {
		t.Fatalf("%v %+v", fresh, first)
	}
	for p := range int32(2) {
		w.feed(p, in{id: "later", kind: "credit", account: w.accountOn(p, 7), cents: 5})
	}
	second, fresh, err := x.commitAndRound(t, w)
	if err != nil || len(fresh) > 0 || !reflect.DeepEqual(second.Counts, first.Counts) || second.Inputs != first.Inputs+1 {
		t.Errorf("%v %v, %d inputs after %d", err, fresh, second.Inputs, first.Inputs)
	}
}

// What follow keeps is what still counts: ids whose window has passed are gone from memory and disk.
func TestRoundsForgetIDsWhoseWindowHasPassed(t *testing.T) {
	w := newWorld(1)
	m := tiny(50)
	m.bytes = 0
	x := w.rounds(m)
	defer x.close()
	account := w.accountOn(0, 0)
	for i := range 40 {
		for k := range 100 {
			w.feed(0, in{id: fmt.Sprint(i, "-", k), kind: "credit", account: account, cents: 1, at: int64((100 - i)) * (testWindow / 2).Milliseconds()})
		}
		if r, fresh, err := x.commitAndRound(t, w); err != nil || len(fresh) > 0 || r.Inputs != int64(100*(i+1)) {
			t.Fatalf("%v %v %+v", err, fresh, r)
		}
	}
	held := x.audits[0].inbox.ids.n
	for _, r := range x.audits[0].inbox.ids.runs.all {
		held += r.n
	}
	if held > 1000 || len(x.audits[0].inbox.buckets) > 100 {
		t.Errorf("%d ids and %d buckets are kept, about 300 count", held, len(x.audits[0].inbox.buckets))
	}
}

// What a partition applied before it was stopped is still met by the others, whichever has the lower number.
func TestADoubleCreditOfAStoppedPartitionIsFound(t *testing.T) {
	w := newWorld(2)
	x := w.rounds(tiny(1000))
	defer x.close()
	w.feed(1, in{id: "a", kind: "credit", account: w.accountOn(1, 0), cents: 5})
	if _, _, err := x.commitAndRound(t, w); err != nil {
		t.Fatal(err)
	}
	w.feed(1, in{id: "twice", kind: "credit", account: w.accountOn(1, 0), cents: 5}, in{id: "b", kind: "credit", account: w.accountOn(1, 0), cents: 5})
	w.commit()
	log := w.logs[w.topics.Updates][1]
	w.logs[w.topics.Updates][1] = log[:len(log)-1]
	if r, _, err := x.round(t.Context()); err != nil || r.Counts[Lost] != 1 {
		t.Fatal(err, r.Violations)
	}
	w.feed(0, in{id: "twice", kind: "credit", account: w.accountOn(0, 0), cents: 5})
	if r, fresh, err := x.commitAndRound(t, w); err != nil || r.Counts[DoubleCredit] != 1 || len(fresh) != 1 {
		t.Error(err, fresh)
	}
}

// A partition that was stopped before all of it could be judged has no sums that could be compared: not in later rounds either.
func TestAPartitionThatStoppedUndecidedStaysSo(t *testing.T) {
	w := ordinary()
	w.drop(w.topics.Updates, 1)
	w.openFrom(w.topics.Updates, 5)
	x := w.rounds(tiny(1000))
	defer x.close()
	first, fresh, err := x.round(t.Context())
	if !onlyUndecided(err) || len(fresh) == 0 {
		t.Fatal(err, fresh)
	}
	w.feed(1, in{id: "later", kind: "credit", account: w.accountOn(1, 7), cents: 5})
	second, fresh, err := x.commitAndRound(t, w)
	if err == nil || !onlyUndecided(err) || len(fresh) > 0 || !reflect.DeepEqual(second.Counts, first.Counts) {
		t.Errorf("%v %v\n%v, before %v", err, fresh, second.Counts, first.Counts)
	}
}

func TestMendedLettersAreCountedThroughUndecidedRounds(t *testing.T) {
	a := newWorld(1).rounds(tiny(1000)).audits[0]
	a.mending.mended = 3
	if n := a.after(); n.mending.mended != 3 {
		t.Errorf("%d behind a round that was undecided", n.mending.mended)
	}
	a.reportHeld()
	if n := a.after(); n.mending.mended != 3 {
		t.Errorf("%d behind a round that was decided", n.mending.mended)
	}
}

// What hides the outcome of an input hides it in every round: a head that was deleted does not grow again.
func TestADeletedHeadLeavesEveryRoundUndecided(t *testing.T) {
	for _, left := range []int{1, 3} {
		w := ordinary()
		log := w.logs[w.topics.Updates][0]
		first := int64(len(log) - left)
		w.first[where(w.topics.Updates, 0)] = first
		w.logs[w.topics.Updates][0] = log[first:]
		x := w.rounds(tiny(1000))
		for n := range 3 {
			r, fresh, err := x.round(t.Context())
			u, is := errors.AsType[*UndecidedError](err)
			if !is || !strings.Contains(u.Reason, "its head was deleted") || len(fresh) > 0 || !r.OK() {
				t.Errorf("%d left, round %d: %v %v", left, n+1, err, fresh)
			}
		}
		x.close()
	}
}

// A round that judged nothing leaves the next one where a first one stands: an input that begins late because the job began
// there is no gap.
func TestARoundThatJudgedNothingLeavesNoGap(t *testing.T) {
	w := newWorld(1)
	w.append(w.topics.Input, 0, kgo.Record{Key: []byte("old"), Value: []byte("{}")})
	w.first[where(w.topics.Input, 0)] = 1
	w.feed(0, in{id: "first", kind: "credit", account: w.accountOn(0, 0), cents: 1})
	w.commit()
	w.openFrom(w.topics.Updates, 0)
	x := w.rounds(tiny(1000))
	defer x.close()
	if _, fresh, err := x.round(t.Context()); !onlyUndecided(err) || err == nil || len(fresh) > 0 {
		t.Fatal(err, fresh)
	}
	delete(w.stable[w.topics.Updates], 0)
	if r, fresh, err := x.round(t.Context()); err != nil || len(fresh) > 0 || r.Inputs != 1 {
		t.Errorf("%v %v, %d inputs", err, fresh, r.Inputs)
	}
}

// What is wrong with the records of the state is told in the round that reads them, also when something else keeps that round
// from a decision.
func TestAFaultOfTheStateIsToldThoughTheRoundIsUndecided(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"a transaction that was counted twice": func(w *world) { w.jobs[0].txn-- },
		"a key that names no store":            func(w *world) { w.append(w.topics.State, 0, kgo.Record{Key: []byte("\xffx"), Value: []byte("x")}) },
	} {
		for _, topic := range []string{"updates", "input", "state"} {
			w := ordinary()
			hiding := map[string]string{"updates": w.topics.Updates, "input": w.topics.Input, "state": w.topics.State}[topic]
			spoil(w)
			w.jobs[0].commit()
			w.openFrom(hiding, 5)
			if topic == "state" {
				log := w.logs[hiding][0]
				w.openFrom(hiding, log[len(log)-1].Offset+1)
				w.feed(0, in{id: "later", kind: "credit", account: w.accountOn(0, 0), cents: 1})
				w.jobs[0].commit()
			}
			x := w.rounds(tiny(1000))
			_, fresh, err := x.round(t.Context())
			delete(w.stable[hiding], 0)
			r, more, _ := x.round(t.Context())
			if !onlyUndecided(err) || err == nil || len(fresh) != 1 || fresh[0].Verdict != State || len(more) > 0 || r.Counts[State] != 1 {
				t.Errorf("%s, %s hidden: %v, first %v, then %v", name, topic, err, fresh, more)
			}
			x.close()
		}
	}
}

// A currency whose sums are wrong is told once; another one is told in its own round.
func TestMoneyIsToldOnceByCurrency(t *testing.T) {
	w := newWorld(2)
	x := w.rounds(tiny(1000))
	defer x.close()
	var shown []string
	for p, currency := range []string{"EUR", "USD"} {
		w.feed(int32(p), in{id: currency, kind: "credit", account: w.accountOn(int32(p), 0), cents: 500, currency: currency})
		w.commit()
		w.logs[w.topics.Updates][p] = nil
		for range 2 {
			r, fresh, err := x.round(t.Context())
			if err != nil || r.Counts[Money] != int64(p+1) {
				t.Errorf("%s: %v %v", currency, err, r.Counts)
			}
			for _, v := range fresh {
				if v.Verdict == Money {
					shown = append(shown, v.Text[:3])
				}
			}
		}
	}
	if !reflect.DeepEqual(shown, []string{"EUR", "USD"}) {
		t.Errorf("told of %v", shown)
	}
}
