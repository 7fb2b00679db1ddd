package verify

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// faults are those of the corpus: each verdict of a whole history is the main one of one at least.
var faults = []fault{
	{name: "a skipped note left out", main: Lost, says: "a skipped note was due", evidence: 1, spoil: func(f *spoiler) { f.remove(f.pick(f.topics.Skipped, anyOne)) }},
	{name: "a dead letter left out", main: Lost, says: "a dead letter", evidence: 1, spoil: func(f *spoiler) { f.remove(f.pick(f.topics.DeadLetters, anyOne)) }},
	{name: "a rejection left out", main: Lost, says: "that rejects it", evidence: 1, spoil: func(f *spoiler) { f.remove(f.pickUpdate(false, false)) }},
	{name: "a posting left out", main: Lost, says: "that applies it", evidence: 1, spoil: func(f *spoiler) { f.remove(f.pickUpdate(true, false)) }},
	{name: "an account's last posting left out", main: Lost, follows: []Verdict{State, Money}, says: "that applies it", evidence: 1,
		spoil: func(f *spoiler) { f.remove(f.pickUpdate(true, true)) }},

	{name: "a posting again at the end", main: Duplicate, says: "has a second outcome", evidence: 3, spoil: func(f *spoiler) {
		f.insert(f.topics.Updates, nil, endCommit, f.pickUpdate(true, false))
	}},
	{name: "a posting twice in a row", main: Duplicate, says: "has 2 outcomes", evidence: 3, spoil: func(f *spoiler) {
		rec := f.pickUpdate(true, false)
		f.insert(rec.Topic, rec, endCommit, rec)
	}},
	{name: "a dead letter again at the end", main: Duplicate, says: "has a second outcome", evidence: 3, spoil: func(f *spoiler) {
		f.insert(f.topics.DeadLetters, nil, endCommit, f.pick(f.topics.DeadLetters, notTheLast))
	}},

	{name: "a posting of another event", main: Ghost, says: "does not describe its input", evidence: 2, spoil: func(f *spoiler) {
		f.edit(f.pickUpdate(true, false), `"event_id":"`, `"event_id":"X`)
	}},
	{name: "a skipped note of another event", main: Ghost, says: "names another event", evidence: 2, spoil: func(f *spoiler) {
		f.edit(f.pick(f.topics.Skipped, anyOne), `"event_id":"`, `"event_id":"X`)
	}},
	{name: "an outcome of a control record", main: Ghost, says: "holds no committed record", evidence: 1, spoil: func(f *spoiler) {
		log := f.logs[f.topics.Input][f.p]
		rec := *f.pick(f.topics.Skipped, anyOne)
		i := slices.IndexFunc(log, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
		rec.Value = bytes.Replace(rec.Value, fmt.Appendf(nil, `"offset":%d}}`, f.sourceOf(&rec)), fmt.Appendf(nil, `"offset":%d}}`, log[i].Offset), 1)
		f.insert(rec.Topic, nil, endCommit, &rec)
	}},

	{name: "a version that leaps", main: Chain, says: "does not follow", evidence: 2, spoil: func(f *spoiler) { f.leap(f.pickUpdate(true, false)) }},
	{name: "an account's last version leaps", main: Chain, follows: []Verdict{State}, says: "does not follow", evidence: 2,
		spoil: func(f *spoiler) { f.leap(f.pickUpdate(true, true)) }},
	{name: "two updates changed places", main: Chain, says: "stands before that of input", evidence: 2, spoil: func(f *spoiler) { f.swap() }},

	{name: "a stored account altered", main: State, says: "in the state; its last update says", evidence: 3, spoil: func(f *spoiler) {
		f.edit(f.pickLive(storeAccounts), `"balance":"`, `"balance":"9`)
	}},
	{name: "a stored account that compaction lost", main: State, says: "is not in the state", evidence: 2, spoil: func(f *spoiler) {
		for rec := f.pickLive(storeAccounts); rec != nil; rec = f.sameKey(rec) {
			f.remove(rec)
		}
	}},
	{name: "a piece of the inbox that compaction lost", main: State, says: "have digest", evidence: 1, spoil: func(f *spoiler) { f.remove(f.pickLive(storeInbox)) }},

	{name: "the committed offset set back", main: Offset, commit: true, says: "the applied marker says", evidence: 1, spoil: func(f *spoiler) { f.recommit(-1, 0) }},
	{name: "the committed digest altered", main: Offset, commit: true, says: "the applied marker says", evidence: 1, spoil: func(f *spoiler) { f.recommit(0, 1) }},

	{name: "a last balance from nowhere", main: Money, follows: []Verdict{Chain, State}, says: "off by", evidence: 2, spoil: func(f *spoiler) {
		f.edit(f.pickUpdate(true, true), `"balance":"`, `"balance":"9`)
	}},

	{name: "one id in two partitions", main: DoubleCredit, commit: true, says: "have one id", evidence: 2, spoil: func(f *spoiler) { f.doubleCredit() }},

	{name: "the input of a skipped note was aborted", main: AbortedRead, says: "is the outcome of", evidence: 3, spoil: func(f *spoiler) {
		f.abortAlone(f.sourceOf(f.pick(f.topics.Skipped, anyOne)))
	}},
	{name: "the input of a dead letter was aborted", main: AbortedRead, says: "is the outcome of", evidence: 3, spoil: func(f *spoiler) {
		f.abortAlone(f.sourceOf(f.pick(f.topics.DeadLetters, anyOne)))
	}},
	{name: "a posting builds on an aborted one", main: AbortedRead, says: "builds on", evidence: 4, spoil: func(f *spoiler) { f.buildOnAborted() }},
	{name: "readers were shown an aborted input", main: AbortedRead, follows: []Verdict{Lost}, may: []Verdict{Money}, says: "was shown to readers", evidence: 2,
		spoil: func(f *spoiler) { f.leak() }},

	{name: "a transaction aborted in the skipped notes alone", main: Torn, follows: []Verdict{Lost}, says: "the outcome of the same transaction", evidence: 4,
		spoil: func(f *spoiler) { f.end(f.pick(f.topics.Skipped, anyOne), endAbort) }},
	{name: "a transaction without an end in the skipped notes", main: Torn, says: "is open", evidence: 3, alone: true, undecided: true,
		spoil: func(f *spoiler) { f.end(f.pick(f.topics.Skipped, f.lastOfItsProducer), stillOpen) }},
	{name: "a transaction aborted in the state alone", main: Torn, follows: []Verdict{State}, says: "the applied marker of the same transaction", evidence: 4,
		spoil: func(f *spoiler) { f.end(f.pickClaim(false), endAbort) }},
	{name: "the last transaction aborted in the state alone", main: Torn, alone: true, commit: true, follows: []Verdict{Offset}, says: "the state of the same transaction", evidence: 2,
		spoil: func(f *spoiler) { f.end(f.pickClaim(true), endAbort) }},
	{name: "an outcome outside any transaction", main: Torn, says: "outside any transaction", evidence: 1, spoil: func(f *spoiler) {
		f.replace(f.pick(f.topics.Skipped, anyOne), func(r *kgo.Record) { r.ProducerID, r.ProducerEpoch, r.Attrs = -1, -1, kgo.RecordAttrs{} })
	}},
	{name: "upstream's transaction committed in one partition alone", main: Torn, follows: []Verdict{Lost}, may: []Verdict{Money}, bumped: true,
		says: "one transaction of", evidence: 4, spoil: func(f *spoiler) { f.commitAborted() }},

	{name: "a note that changed between two readings", main: Flicker, says: "has changed", evidence: 3, spoil: func(f *spoiler) {
		rec := f.pick(f.topics.Skipped, anyOne)
		f.onReread(rec.Topic, func() { f.edit(rec, `"event_id":"`, `"event_id":"X`) })
	}},
	{name: "a dead letter that vanished between two readings", main: Flicker, says: "has vanished", evidence: 1, spoil: func(f *spoiler) {
		rec := f.pick(f.topics.DeadLetters, anyOne)
		f.onReread(rec.Topic, func() { f.remove(rec) })
	}},
}

// spoiled applies faults, each to a partition.
func spoiled(r *recording, seed uint64, at []int32, faults ...fault) *recording {
	c := r.clone()
	rng := rand.New(rand.NewPCG(seed, 0xfa017))
	for i, f := range faults {
		s := &spoiler{recording: c, p: at[i], rng: rng}
		f.spoil(s)
	}
	return c
}

// faultless says what is not as a spoiled history demands: each fault found, with its evidence, and nothing else.
func faultless(r *Report, err error, faults ...fault) string {
	must, may, open := map[Verdict]bool{}, map[Verdict]bool{}, false
	for _, f := range faults {
		for _, v := range append(f.follows, f.main) {
			must[v] = true
		}
		for _, v := range f.may {
			may[v] = true
		}
		open = open || f.undecided
	}
	if _, undecided := errors.AsType[*UndecidedError](err); err != nil && !(undecided && open) {
		return err.Error()
	}
	for v := range r.Counts {
		if !must[v] && !may[v] {
			return fmt.Sprintf("%s is false", v)
		}
	}
	for v := range must {
		if r.Counts[v] == 0 && !(open && v == Money) { // sums of what was judged in part prove nothing
			return fmt.Sprintf("%s was not found", v)
		}
	}
	for _, f := range faults {
		if !(open && f.main == Money) && !slices.ContainsFunc(r.Violations, f.isIn) {
			return fmt.Sprintf("no %s says %q with %d records", f.main, f.says, f.evidence)
		}
	}
	return ""
}

func (f fault) isIn(v Violation) bool {
	return v.Verdict == f.main && strings.Contains(v.Text, f.says) && len(v.Evidence) >= f.evidence
}

const faultSeeds = 3 // of each single fault and run

// Each fault of the corpus, by seed, in two recorded runs, with control records as both transaction versions write them.
func TestEveryFaultOfARealRunIsFoundAndNothingElse(t *testing.T) {
	n, by := 0, map[Verdict]int{}
	for _, file := range recordedRuns {
		for _, bumped := range []bool{false, true} {
			run := loadRecording(t, file, bumped)
			for _, f := range faults {
				for seed := range uint64(faultSeeds) {
					if f.bumped && !bumped {
						continue
					}
					p := int32(seed) % run.partitions
					r, err := spoiled(run, seed, []int32{p}, f).audit(t)
					if fault := faultless(&r, err, f); fault != "" {
						t.Errorf("%s, %s, bumped %v, seed %d: %s %v %v", file, f.name, bumped, seed, fault, r.Counts, err)
					}
					n++
					by[f.main]++
				}
			}
		}
	}
	t.Logf("counts: faulty_histories=%d, of %d faults and %d verdicts: %v", n, len(faults), len(by), by)
	for _, v := range Verdicts(true, false) {
		if by[v] == 0 {
			t.Errorf("no fault provokes %s", v)
		}
	}
}

// Two faults of different verdicts, in two partitions and in one: each is found beside the other.
func TestEveryMixtureOfTwoFaultsIsFoundAndNothingElse(t *testing.T) {
	n, pairs := 0, map[string]bool{}
	for i, file := range recordedRuns {
		run := loadRecording(t, file, true)
		for x, f := range faults {
			for y, g := range faults[:x] {
				if f.main == g.main {
					continue
				}
				seed := uint64(1000*x + y)
				q := int32(x+y) % run.partitions
				p := (q + int32(i)) % run.partitions // in one partition of the first run, in two of the second
				if f.alone || g.alone || f.commit && g.commit {
					p = (q + 1) % run.partitions
				}
				r, err := spoiled(run, seed, []int32{p, q}, f, g).audit(t)
				if fault := faultless(&r, err, f, g); fault != "" {
					t.Errorf("%s, %s (%d) and %s (%d): %s %v %v", file, f.name, p, g.name, q, fault, r.Counts, err)
				}
				n++
				pairs[fmt.Sprint(min(f.main, g.main), max(f.main, g.main))] = true
			}
		}
	}
	t.Logf("counts: mixtures=%d, of %d pairs of verdicts", n, len(pairs))
	if verdicts := len(Verdicts(true, false)); len(pairs) != verdicts*(verdicts-1)/2 {
		t.Errorf("%d pairs of %d verdicts were mixed", len(pairs), verdicts)
	}
}
