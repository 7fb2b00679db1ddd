package verify

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// faults are those of the corpus: each verdict of a whole history is the main one of one at least. Each lists all that it
// shows, violation by violation: what is neither in the list of a fault nor in that of the one it is mixed with is false.
var faults = []fault{
	{name: "a skipped note left out", main: Lost, spoil: func(f *spoiler) []sign {
		return f.leaveOut(f.pick(f.topics.Skipped, anyOne), "a skipped note was due")
	}},
	{name: "a dead letter left out", main: Lost, spoil: func(f *spoiler) []sign {
		return f.leaveOut(f.pick(f.topics.DeadLetters, anyOne), "a dead letter")
	}},
	{name: "a rejection left out", main: Lost, spoil: func(f *spoiler) []sign { return f.leaveOut(f.pickUpdate(false, false), "that rejects it") }},
	{name: "a posting left out", main: Lost, spoil: func(f *spoiler) []sign { return f.leaveOut(f.pickUpdate(true, false), "that applies it") }},
	{name: "an account's last posting left out", main: Lost, spoil: func(f *spoiler) []sign {
		rec := f.pickUpdate(true, true)
		return append(f.leaveOut(rec, "that applies it"), f.stale(rec.Key), f.drift(f.currencyOf(rec), f.inputOf(rec)))
	}},

	{name: "a posting again at the end", main: Duplicate, spoil: func(f *spoiler) []sign { return f.again(f.pickUpdate(true, false)) }},
	{name: "a posting twice in a row", main: Duplicate, spoil: func(f *spoiler) []sign {
		rec := f.pickUpdate(true, false)
		return []sign{f.sign(Duplicate, "has 2 outcomes", f.inputOf(rec), f.insert(rec.Topic, rec, endCommit, rec), rec)}
	}},
	{name: "a dead letter again at the end", main: Duplicate, spoil: func(f *spoiler) []sign { return f.again(f.pick(f.topics.DeadLetters, notTheLast)) }},

	{name: "a posting of another event", main: Ghost, spoil: func(f *spoiler) []sign {
		rec := f.edit(f.pickUpdate(true, false), `"event_id":"`, `"event_id":"X`)
		return []sign{f.sign(Ghost, "does not describe its input", f.inputOf(rec), rec)}
	}},
	{name: "a skipped note of another event", main: Ghost, spoil: func(f *spoiler) []sign {
		rec := f.edit(f.pick(f.topics.Skipped, anyOne), `"event_id":"`, `"event_id":"X`)
		return []sign{f.sign(Ghost, "names another event", f.inputOf(rec), rec)}
	}},
	{name: "an outcome of a control record", main: Ghost, spoil: func(f *spoiler) []sign {
		log := f.logs[f.topics.Input][f.p]
		rec := *f.pick(f.topics.Skipped, anyOne)
		i := slices.IndexFunc(log, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
		rec.Value = bytes.Replace(rec.Value, fmt.Appendf(nil, `"offset":%d}}`, f.sourceOf(&rec)), fmt.Appendf(nil, `"offset":%d}}`, log[i].Offset), 1)
		return []sign{f.sign(Ghost, "holds no committed record", f.insert(rec.Topic, nil, endCommit, &rec))}
	}},

	{name: "a version that leaps", main: Chain, spoil: func(f *spoiler) []sign { return []sign{f.broken(f.leap(f.pickUpdate(true, false)))} }},
	{name: "an account's last version leaps", main: Chain, spoil: func(f *spoiler) []sign {
		rec := f.leap(f.pickUpdate(true, true))
		return []sign{f.broken(rec), f.stale(rec.Key)}
	}},
	{name: "two updates changed places", main: Chain, spoil: func(f *spoiler) []sign { return f.swap() }},

	{name: "a stored account altered", main: State, spoil: func(f *spoiler) []sign {
		rec := f.edit(f.pickLive(storeAccounts), `"balance":"`, `"balance":"9`)
		return []sign{f.stale(accountOf(rec)), f.badDigest()}
	}},
	{name: "a stored account that compaction lost", main: State, spoil: func(f *spoiler) []sign {
		rec := f.pickLive(storeAccounts)
		for r := rec; r != nil; r = f.last(rec.Topic, rec.Key) {
			f.remove(r)
		}
		return []sign{f.stale(accountOf(rec)), f.badDigest()}
	}},
	{name: "a piece of the inbox that compaction lost", main: State, spoil: func(f *spoiler) []sign {
		f.remove(f.pickLive(storeInbox))
		return []sign{f.badDigest()}
	}},

	{name: "the committed offset set back", main: Offset, commit: true, spoil: func(f *spoiler) []sign { return f.recommit(-1, 0) }},
	{name: "the committed digest altered", main: Offset, commit: true, spoil: func(f *spoiler) []sign { return f.recommit(0, 1) }},

	{name: "a last balance from nowhere", main: Money, spoil: func(f *spoiler) []sign {
		rec := f.edit(f.pickUpdate(true, true), `"balance":"`, `"balance":"9`)
		return []sign{f.drift(f.currencyOf(rec), f.inputOf(rec), rec), f.broken(rec), f.stale(rec.Key)}
	}},

	{name: "one id in two partitions", main: DoubleCredit, commit: true, spoil: func(f *spoiler) []sign { return f.doubleCredit() }},

	{name: "the input of a skipped note was aborted", main: AbortedRead, spoil: func(f *spoiler) []sign {
		return f.abortAlone(f.pick(f.topics.Skipped, anyOne))
	}},
	{name: "the input of a dead letter was aborted", main: AbortedRead, spoil: func(f *spoiler) []sign {
		return f.abortAlone(f.pick(f.topics.DeadLetters, anyOne))
	}},
	{name: "a posting builds on an aborted one", main: AbortedRead, spoil: func(f *spoiler) []sign { return f.buildOnAborted() }},
	{name: "readers were shown an aborted input", main: AbortedRead, spoil: func(f *spoiler) []sign { return f.leak() }},

	{name: "a transaction aborted in the skipped notes alone", main: Torn, spoil: func(f *spoiler) []sign { return f.abortNotes() }},
	{name: "a transaction without an end in the skipped notes", main: Torn, alone: true, undecided: true, spoil: func(f *spoiler) []sign { return f.openNotes() }},
	{name: "a transaction aborted in the state alone", main: Torn, spoil: func(f *spoiler) []sign { return f.abortState() }},
	{name: "the last transaction aborted in the state alone", main: Torn, alone: true, commit: true, spoil: func(f *spoiler) []sign { return f.abortLastState() }},
	{name: "an outcome outside any transaction", main: Torn, spoil: func(f *spoiler) []sign {
		rec := f.replace(f.pick(f.topics.Skipped, anyOne), func(r *kgo.Record) { r.ProducerID, r.ProducerEpoch, r.Attrs = -1, -1, kgo.RecordAttrs{} })
		return []sign{f.sign(Torn, "outside any transaction", rec)}
	}},
	{name: "upstream's transaction committed in one partition alone", main: Torn, bumped: true, spoil: func(f *spoiler) []sign { return f.commitAborted() }},

	{name: "a note that changed between two readings", main: Flicker, spoil: func(f *spoiler) []sign {
		rec := f.pick(f.topics.Skipped, anyOne)
		f.onReread(rec.Topic, func() { f.edit(rec, `"event_id":"`, `"event_id":"X`) })
		_, end := f.transaction(rec)
		return []sign{f.sign(Flicker, "has changed", rec, rec, rec, end)} // as it was, as readers see it and as the log has it
	}},
	{name: "a dead letter that vanished between two readings", main: Flicker, spoil: func(f *spoiler) []sign {
		rec := f.pick(f.topics.DeadLetters, anyOne)
		f.onReread(rec.Topic, func() { f.remove(rec) })
		return []sign{f.sign(Flicker, "has vanished", rec)}
	}},
}

// spoiled applies faults, each to a partition, and notes what they show.
func spoiled(r *recording, seed uint64, at []int32, faults ...fault) *recording {
	c := r.clone()
	rng := rand.New(rand.NewPCG(seed, 0xfa017))
	for i, f := range faults {
		s := &spoiler{recording: c, p: at[i], rng: rng}
		c.signs = append(c.signs, f.spoil(s)...)
		c.undecided = c.undecided || f.undecided
	}
	return c
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
					c := spoiled(run, seed, []int32{p}, f)
					if !slices.ContainsFunc(c.signs, func(s sign) bool { return s.verdict == f.main && len(s.records) > 0 }) {
						t.Errorf("%s: %s is not among its signs", f.name, f.main)
					}
					r, err := c.audit(t)
					if fault := c.faultless(&r, err); fault != "" {
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
				c := spoiled(run, seed, []int32{p, q}, f, g)
				r, err := c.audit(t)
				if fault := c.faultless(&r, err); fault != "" {
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
