package verify

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sign is one violation that a fault must show: once, in its partition, and with its records as the evidence.
type sign struct {
	verdict Verdict
	of      int32 // partition; everywhere for a verdict on all of them
	says    string
	records []*kgo.Record // all of them are evidence; nil stands for none
	perhaps []*kgo.Record // and of these any. A sign without other records may be absent
}

const everywhere = -1

// places are the records as they stand when the history is judged, where other faults may have moved them to.
func (r *recording) places(recs []*kgo.Record) (at []string) {
	for _, rec := range recs {
		if rec != nil {
			at = append(at, place(r.now(rec)))
		}
	}
	slices.Sort(at)
	return at
}

// now is what became of a record that was moved or altered.
func (r *recording) now(rec *kgo.Record) *kgo.Record {
	for r.became[rec] != nil {
		rec = r.became[rec]
	}
	return rec
}

// isSign reports whether a violation is the one of a sign.
func (r *recording) isSign(v *Violation, s *sign) bool {
	if v.Verdict != s.verdict || v.Partition != s.of || !strings.Contains(v.Text, s.says) || len(v.Evidence) == 0 {
		return false
	}
	var shown []string
	perhaps := r.places(s.perhaps)
	for _, e := range v.Evidence {
		if at := fmt.Sprintf("%s/%d/%d", e.Topic, e.Partition, e.Offset); !slices.Contains(perhaps, at) {
			shown = append(shown, at)
		}
	}
	slices.Sort(shown)
	return slices.Equal(shown, r.places(s.records))
}

// together are the signs of several faults, which hide each other nowhere but here: two that upset the sum of one currency, or
// the digest of one state, show as one violation; and where a partition could not be judged to its end, sums prove nothing.
func together(signs []sign, undecided bool) (all []sign) {
	for _, s := range signs {
		i := slices.IndexFunc(all, func(o sign) bool {
			return o.verdict == s.verdict && o.of == s.of && o.says == s.says && (s.verdict == Money || s.says == digestSays)
		})
		switch {
		case undecided && s.verdict == Money:
		case i < 0:
			all = append(all, s)
		case s.verdict == Money:
			all[i].records = slices.Concat(all[i].records, s.records)
			all[i].perhaps = slices.Concat(all[i].perhaps, s.perhaps)
		}
	}
	return all
}

// faultless says what is not as a spoiled history demands: each sign found once, and nothing else.
func (r *recording) faultless(report *Report, err error) string {
	if _, undecided := errors.AsType[*UndecidedError](err); err != nil && !(undecided && r.undecided) {
		return err.Error()
	}
	signs, shown := together(r.signs, r.undecided), map[Verdict]int64{}
	found := make([]bool, len(signs))
	for i := range report.Violations {
		v := &report.Violations[i]
		shown[v.Verdict]++
		at := slices.IndexFunc(signs, func(s sign) bool { return r.isSign(v, &s) })
		if at < 0 || found[at] {
			return fmt.Sprintf("this is false, or comes twice: %s, in partition %d", v, v.Partition)
		}
		found[at] = true
	}
	for v, n := range report.Counts {
		if shown[v] != n {
			return fmt.Sprintf("%d of %d %s are shown", shown[v], n, v)
		}
	}
	for i, s := range signs {
		if !found[i] && len(s.records) > 0 {
			return fmt.Sprintf("no %s of partition %d says %q with %v", s.verdict, s.of, s.says, r.places(s.records))
		}
	}
	return ""
}

// The signs of a fault, by what it makes wrong.

func (f *spoiler) sign(v Verdict, says string, records ...*kgo.Record) sign {
	return sign{verdict: v, of: f.p, says: says, records: records}
}

func (f *spoiler) lost(says string, in *kgo.Record) sign { return f.sign(Lost, says, in) }

// drift is a sum that is off by what an input of a currency did to its account.
func (f *spoiler) drift(currency string, records ...*kgo.Record) sign {
	return sign{verdict: Money, of: everywhere, says: currency + ": the balances sum to", records: records}
}

// mayDrift are the sums that inputs without an outcome may upset: only those that would have been applied do.
func (f *spoiler) mayDrift(inputs ...*kgo.Record) (signs []sign) {
	var reader eventReader
	for _, in := range inputs {
		if e, _ := reader.read(in); e.currency != (currency{}) {
			s := f.drift(e.currency.String())
			s.perhaps = []*kgo.Record{in}
			signs = append(signs, s)
		}
	}
	return together(signs, false)
}

const digestSays = "the state's contents have digest"

// badDigest is a state that its marker does not fit.
func (f *spoiler) badDigest() sign { return f.sign(State, digestSays, f.lastMarker()) }

// stale is an account that is not in the state as its last update says.
func (f *spoiler) stale(account []byte) sign {
	stored := f.last(f.topics.State, stateKey(string(account)))
	says := "in the state; its last update says"
	if stored == nil {
		says = "is not in the state"
	}
	return f.sign(State, says, f.last(f.topics.Updates, account), stored, f.lastMarker())
}

// broken is an update that does not follow from the one before it.
func (f *spoiler) broken(rec *kgo.Record) sign {
	return f.sign(Chain, "does not follow", f.inputOf(rec), f.previous(rec), rec)
}

// tornFrom is a transaction whose one part is committed and whose other is not: each is shown with its end.
func (f *spoiler) tornFrom(says string, committed, other *kgo.Record) sign {
	_, end := f.transaction(committed)
	_, otherEnd := f.transaction(other)
	return f.sign(Torn, says, committed, end, other, otherEnd)
}

// The records that are evidence.

// inputOf is the input that an outcome names.
func (f *spoiler) inputOf(rec *kgo.Record) *kgo.Record {
	source := f.sourceOf(rec)
	for _, in := range f.logs[f.topics.Input][f.p] {
		if in.Offset == source {
			return in
		}
	}
	panic(place(rec) + " has no input")
}

// previous is the account's update before this one, nil where the account begins: what was rejected before it was there tells
// nothing of it.
func (f *spoiler) previous(rec *kgo.Record) (previous *kgo.Record) {
	log, _ := f.visible(rec.Topic, f.p)
	for _, r := range log {
		if r.Offset < f.now(rec).Offset && string(r.Key) == string(rec.Key) && (isApplied(r) || previous != nil) {
			previous = r
		}
	}
	return previous
}

// last is the last visible record of a key, nil when there is none.
func (f *spoiler) last(topic string, key []byte) *kgo.Record {
	log, _ := f.visible(topic, f.p)
	for _, r := range slices.Backward(log) {
		if string(r.Key) == string(key) {
			return r
		}
	}
	return nil
}

func (f *spoiler) lastMarker() *kgo.Record {
	log, _ := f.visible(f.topics.State, f.p)
	for _, r := range slices.Backward(log) {
		if isMarkerKey(r.Key) {
			return r
		}
	}
	panic("the state has no marker")
}

// transaction returns what the transaction of a record wrote to its topic, and the control record that ended it there, nil
// while it is open.
func (f *spoiler) transaction(rec *kgo.Record) (records []*kgo.Record, end *kgo.Record) {
	log, of := f.logs[rec.Topic][rec.Partition], f.now(rec)
	for _, r := range log {
		switch {
		case r.ProducerID != of.ProducerID:
		case !r.Attrs.IsControl():
			records = append(records, r)
		case slices.Contains(records, of):
			return records, r
		default:
			records = nil
		}
	}
	return records, nil
}

// parts returns what the transaction of a record wrote to each topic of outcomes.
func (f *spoiler) parts(rec *kgo.Record) (parts [][]*kgo.Record) {
	for _, topic := range []string{f.topics.Updates, f.topics.Skipped, f.topics.DeadLetters} {
		i := slices.IndexFunc(f.logs[topic][f.p], func(r *kgo.Record) bool { return sameTransaction(r, rec) })
		if i >= 0 {
			records, _ := f.transaction(f.logs[topic][f.p][i])
			parts = append(parts, records)
		}
	}
	return parts
}

// claimOf is the applied marker of the transaction of an outcome.
func (f *spoiler) claimOf(rec *kgo.Record) *kgo.Record {
	log, _ := f.visible(f.topics.State, f.p)
	i := slices.IndexFunc(log, func(r *kgo.Record) bool { return isMarkerKey(r.Key) && sameTransaction(r, rec) })
	if i < 0 {
		panic("no state goes with " + place(rec))
	}
	return log[i]
}

// A report that says too much, too little, or the right thing of the wrong record is refused: else the corpus proves nothing.
func TestTheCorpusRefusesReportsThatAreNotExact(t *testing.T) {
	run := loadRecording(t, recordedRuns[0], false)
	c := spoiled(run, 1, []int32{1}, faults[0])
	right, err := c.audit(t)
	if why := c.faultless(&right, err); why != "" || len(right.Violations) != 1 {
		t.Fatalf("%s: %v", why, right.Violations)
	}
	for name, change := range map[string]func(r *Report){
		"nothing found":             func(r *Report) { r.Violations, r.Counts = nil, nil },
		"the violation twice":       func(r *Report) { r.Violations = append(r.Violations, r.Violations[0]); r.Counts[Lost]++ },
		"300 counted":               func(r *Report) { r.Counts[Lost] = 300 },
		"another verdict besides":   func(r *Report) { r.Counts[State] = 1 },
		"another verdict instead":   func(r *Report) { r.Violations[0].Verdict, r.Counts = Ghost, map[Verdict]int64{Ghost: 1} },
		"other words":               func(r *Report) { r.Violations[0].Text = "a dead letter was due" },
		"another partition":         func(r *Report) { r.Violations[0].Partition = 2 },
		"no partition":              func(r *Report) { r.Violations[0].Partition = everywhere },
		"another record":            func(r *Report) { r.Violations[0].Evidence[0].Offset++ },
		"a record of another topic": func(r *Report) { r.Violations[0].Evidence[0].Topic = c.topics.Skipped },
		"a record of another task":  func(r *Report) { r.Violations[0].Evidence[0].Partition = 2 },
		"no record":                 func(r *Report) { r.Violations[0].Evidence = nil },
		"a record that is no part": func(r *Report) {
			r.Violations[0].Evidence = append(r.Violations[0].Evidence, Evidence{Topic: c.topics.Input, Partition: 1})
		},
	} {
		wrong := right
		wrong.Counts = maps.Clone(right.Counts)
		wrong.Violations = slices.Clone(right.Violations)
		wrong.Violations[0].Evidence = slices.Clone(right.Violations[0].Evidence)
		change(&wrong)
		if c.faultless(&wrong, nil) == "" {
			t.Errorf("%s is accepted", name)
		}
	}
	if c.faultless(&right, &UndecidedError{}) == "" {
		t.Error("a history that cannot be judged is accepted")
	}
}
