package verify

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// letterOf lets an earlier program refuse an event that today's rules post.
func letterOf(w *world, id, reason string) *kgo.Record {
	r := w.send(0, in{id: id, kind: "credit", account: w.accountOn(0, 0), cents: 700})
	w.jobs[0].next = r.Offset + 1
	w.jobs[0].deadLetter(r, reason)
	return r
}

// redrive sends a record to the input again, as `processor dlq redrive` does, and returns the new input.
func redrive(w *world, r *kgo.Record) *kgo.Record {
	source := place(r)
	if of, redriven := redriveSource(r); redriven {
		source = of.String()
	}
	again := kgo.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp,
		Headers: []kgo.RecordHeader{{Key: headerRedrive, Value: []byte(source)}}}
	return w.append(w.topics.Input, 0, again)
}

// settled processes a redriven input under the mended rule.
func settled(w *world, id string, first, again *kgo.Record) {
	w.jobs[0].process(in{id: id, kind: "credit", account: w.accountOn(0, 0), cents: 700}, again)
	for _, r := range w.logs[w.topics.Updates][0] {
		if w.sourceOf(w.topics.Updates, r) == again.Offset {
			r.Value = bytes.Replace(r.Value, []byte(`,"source"`), []byte(`,"redrive_of":`+source(first.Topic, 0, first.Offset)+`,"source"`), 1)
		}
	}
}

func TestALetterOfAnEarlierProgramIsForgivenWhenItsRedriveIsSettled(t *testing.T) {
	for _, reason := range []string{"bad_currency", "unknown_type", "a_reason_of_old"} {
		w := ordinary()
		r := letterOf(w, "old", reason)
		w.feed(0, in{id: "between", kind: "credit", account: w.accountOn(0, 0), cents: 1})
		settled(w, "old", r, redrive(w, r))
		w.commit()
		if got := accepts(t, w); got.MendedLetters != 1 {
			t.Errorf("%s: %d letters mended", reason, got.MendedLetters)
		}
	}
}

// The first redrive came before the mended program did: its record became a letter, too.
func TestALetterThatWasRedrivenTooEarlyIsForgivenWithItsRedrive(t *testing.T) {
	w := ordinary()
	first := letterOf(w, "old", "bad_currency")
	early := redrive(w, first)
	w.jobs[0].next = early.Offset + 1
	w.jobs[0].deadLetter(early, "bad_currency")
	settled(w, "old", first, redrive(w, early))
	w.commit()
	if got := accepts(t, w); got.MendedLetters != 2 {
		t.Errorf("%d letters mended", got.MendedLetters)
	}
}

// The event came a second time by itself, was posted, and the redriven one is its duplicate: posted once.
func TestALetterIsForgivenWhenItsEventCameByItself(t *testing.T) {
	w := ordinary()
	first := letterOf(w, "old", "bad_currency")
	w.feed(0, in{id: "old", kind: "credit", account: w.accountOn(0, 0), cents: 700})
	settled(w, "old", first, redrive(w, first))
	w.commit()
	if got := accepts(t, w); got.MendedLetters != 1 {
		t.Errorf("%d letters mended", got.MendedLetters)
	}
}

func TestALetterIsNotForgiven(t *testing.T) {
	for name, c := range map[string]struct {
		then func(w *world, first *kgo.Record)
		want map[Verdict]int64
	}{
		"that nobody redrove": {func(*world, *kgo.Record) {}, map[Verdict]int64{Lost: 1, Money: 1}},
		"whose redrive says something else": {func(w *world, first *kgo.Record) {
			r := redrive(w, first)
			r.Value = bytes.Replace(r.Value, []byte("7.00"), []byte("7.01"), 1)
			w.jobs[0].process(in{id: "old", kind: "credit", account: w.accountOn(0, 0), cents: 701}, r)
			w.edit(w.topics.Updates, len(w.logs[w.topics.Updates][0])-1, `,"source"`, `,"redrive_of":`+source(first.Topic, 0, first.Offset)+`,"source"`)
		}, map[Verdict]int64{Lost: 1, Money: 1}},
		"whose redrive is another record's": {func(w *world, first *kgo.Record) {
			other := *first
			other.Offset--
			settled(w, "old", &other, redrive(w, &other))
		}, map[Verdict]int64{Lost: 1, Money: 1}},
		"whose redrive was refused again": {func(w *world, first *kgo.Record) {
			r := redrive(w, first)
			w.jobs[0].next = r.Offset + 1
			w.jobs[0].deadLetter(r, "bad_currency")
		}, map[Verdict]int64{Lost: 2, Money: 1}},
		"whose id another event took": {func(w *world, first *kgo.Record) {
			w.feed(0, in{id: "old", kind: "credit", account: w.accountOn(0, 0), cents: 5})
			r := redrive(w, first)
			w.jobs[0].process(in{id: "old", kind: "credit", account: w.accountOn(0, 0), cents: 700}, r)
		}, map[Verdict]int64{Lost: 1, Money: 1}},
		"whose redrive is not processed yet": {func(w *world, first *kgo.Record) { redrive(w, first) }, map[Verdict]int64{Lost: 1, Money: 1}},
	} {
		w := ordinary()
		c.then(w, letterOf(w, "old", "bad_currency"))
		w.commit()
		r, err := w.audit(t)
		if err != nil || len(r.Counts) != len(c.want) || r.MendedLetters != 0 {
			t.Errorf("a letter %s: error %v, %v", name, err, r.Violations)
		}
		for v, n := range c.want {
			if r.Counts[v] != n {
				t.Errorf("a letter %s: %d of %s, want %d: %v", name, r.Counts[v], v, n, r.Violations)
			}
		}
	}
}

// A letter whose bytes are not its input's is no question of rules.
func TestALetterOfOtherBytesIsNotForgiven(t *testing.T) {
	w := ordinary()
	first := letterOf(w, "old", "bad_currency")
	log := w.logs[w.topics.DeadLetters][0]
	log[len(log)-1].Value = []byte("{}")
	settled(w, "old", first, redrive(w, first))
	w.commit()
	if r, err := w.audit(t); err != nil || r.Counts[Ghost] != 1 || r.MendedLetters != 0 {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}

func TestWhatIsWrongWithALetterNamesTheRemedy(t *testing.T) {
	w := ordinary()
	letterOf(w, "old", "bad_currency").Timestamp = time.UnixMilli(testNow)
	w.commit()
	r, err := w.audit(t)
	i := slices.IndexFunc(r.Violations, func(v Violation) bool { return v.Verdict == Lost })
	if err != nil || i < 0 || !strings.Contains(r.Violations[i].Text, "redrive it") || len(r.Violations[i].Evidence) != 2 {
		t.Errorf("error %v, %v", err, r.Violations)
	}
}
