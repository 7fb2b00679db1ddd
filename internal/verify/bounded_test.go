package verify

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lookups counts what is fetched one by one.
type lookups struct {
	history
	n int
}

func (l *lookups) lookup(ctx context.Context, topic string, p int32, offset int64) (*kgo.Record, error) {
	l.n++
	return l.history.lookup(ctx, topic, p, offset)
}

// A history that is wrong everywhere is judged in the time of one that is right: evidence is fetched for what is shown.
func TestAHistoryThatIsWrongEverywhereIsNotLookedUpEverywhere(t *testing.T) {
	const n = maxLooks + 500
	credit := func(w *world, i int) in {
		return in{id: fmt.Sprint("id-", i), kind: "credit", account: fmt.Sprint("ACC-", i), cents: 1}
	}
	for name, c := range map[string]struct {
		spoil func(w *world)
		want  map[Verdict]int64
	}{
		"no update follows": {func(w *world) {
			for i := range n {
				w.edit(w.topics.Updates, i, `"version":1`, `"version":2`)
			}
		}, map[Verdict]int64{Chain: n, State: n}},
		"no update is there": {func(w *world) { w.logs[w.topics.Updates][0] = nil }, map[Verdict]int64{Lost: n, State: n, Money: 1}},
		"all updates come again": {func(w *world) {
			log := w.logs[w.topics.Updates][0]
			w.logs[w.topics.Updates][0] = renumber(append(log[:n:n], log...))
		}, map[Verdict]int64{Duplicate: n}},
		"all updates come late": {func(w *world) {
			log := w.logs[w.topics.Updates][0]
			w.logs[w.topics.Updates][0] = renumber(append(log[n/2:n:n], log[:n/2]...))
		}, map[Verdict]int64{Chain: n / 2, State: n / 2, Money: 1}},
		"all inputs were skipped": {func(w *world) {
			w.logs[w.topics.Updates][0] = nil
			for i, r := range w.logs[w.topics.Input][0] {
				w.jobs[0].skip(credit(w, i), r, 0)
			}
		}, map[Verdict]int64{Lost: n, State: n, Money: 1}},
		"one id is posted again and again": {func(w *world) {
			e := in{id: "again", kind: "credit", account: "ACC-again", cents: 1}
			w.feed(0, e)
			for range n {
				r := w.send(0, e)
				w.jobs[0].next = r.Offset + 1
				w.jobs[0].post(e, r)
			}
			w.jobs[0].commit()
		}, map[Verdict]int64{Duplicate: n, Money: 1}},
	} {
		w := newWorld(1)
		for i := range n {
			w.feed(0, credit(w, i))
		}
		w.jobs[0].commit()
		c.spoil(w)
		h := &lookups{history: w}
		r, err := auditAll(t.Context(), w.rules(), h, 1, 1)
		if err != nil || h.n > maxLooks+10*MaxShown {
			t.Errorf("%s: %d look-ups, error %v", name, h.n, err)
		}
		if len(r.Violations) > len(c.want)*MaxShown || fmt.Sprint(r.Counts) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v; %d shown", name, r.Counts, c.want, len(r.Violations))
		}
		for _, v := range r.Violations {
			if len(v.Evidence) == 0 || strings.TrimSpace(v.Text) == "" {
				t.Errorf("%s: shown without evidence: %v", name, v)
			}
		}
	}
}

// What is lost is remembered up to a bound, and counted beyond it.
func TestInputsLostWithoutNumberTakeBoundedMemory(t *testing.T) {
	const n = maxMissing + 1000
	w := newWorld(1)
	for i := range n {
		w.feed(0, in{id: fmt.Sprint("id-", i), kind: "credit", account: "ACC-1", cents: 1})
	}
	w.jobs[0].commit()
	w.logs[w.topics.Updates][0] = nil
	r := w.rules()
	r.posted = r.memory.sorter()
	defer r.posted.close()
	a := newAudit(r, w, 0)
	defer a.inbox.ids.close()
	if err := a.run(t.Context()); err != nil || a.report.counts[Lost] != n || len(a.missing) != maxMissing {
		t.Errorf("error %v, %d are lost, %d remembered", err, a.report.counts[Lost], len(a.missing))
	}
	if first := a.report.violations[0]; !strings.Contains(first.Text, "credit-events/0/0 has no outcome") {
		t.Error(first)
	}
}

// An aborted read is found behind any number of ordinary breaks of the chain.
func TestOrdinaryBreaksDoNotHideAnAbortedRead(t *testing.T) {
	run := loadRecording(t, recordedRuns[0], true).clone()
	f := &spoiler{recording: run, rng: rand.New(rand.NewPCG(1, 1))}
	f.buildOnAborted()
	log, _ := f.visible(f.topics.Updates, 0)
	breaks := int64(0)
	for _, rec := range log {
		if isApplied(rec) && !f.used[rec] && !bytes.Contains(rec.Value, []byte(`"type":"account"`)) {
			breaks++
			u := f.read(rec)
			f.edit(rec, fmt.Sprintf(`"version":%d,`, u.version), fmt.Sprintf(`"version":%d,`, u.version+2*breaks))
		}
	}
	r, err := run.audit(t)
	if err != nil || breaks < 3*MaxShown || r.Counts[AbortedRead] != 1 || r.Counts[Chain] < breaks {
		t.Errorf("error %v, %d breaks, %v", err, breaks, r.Counts)
	}
}

// All outcomes of an aborted input are told as such, not the first ones alone.
func TestEveryOutcomeOfAnAbortedInputIsCounted(t *testing.T) {
	run := loadRecording(t, recordedRuns[0], true).clone()
	f := &spoiler{recording: run, rng: rand.New(rand.NewPCG(1, 1))}
	const n = 3 * MaxShown
	log, _ := f.visible(f.topics.Skipped, 0)
	f.abortAlone(log[0])
	for range n - 1 {
		f.insert(f.topics.Skipped, nil, endCommit, log[0])
	}
	r, err := run.audit(t)
	if err != nil || r.Counts[AbortedRead] != n || r.Counts[Ghost] > 0 {
		t.Errorf("error %v, %d outcomes, %v", err, n, r.Counts)
	}
}
