package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fault is one thing that is made wrong in a recorded run, as a second cluster would hold it: a record left out, repeated,
// altered, moved, or a transaction that ended otherwise.
type fault struct {
	name      string
	main      Verdict
	undecided bool                    // it also keeps the partition from being judged to its end
	alone     bool                    // it ends the judgement of its partition early: others are mixed with it in another one
	commit    bool                    // it is about the committed offset: two such are not mixed in one partition
	bumped    bool                    // it shows only where control records carry an epoch of their own
	spoil     func(f *spoiler) []sign // makes it, and returns all that it shows
}

// spoiler spoils one partition of a recording. Its choice is the seed's.
type spoiler struct {
	*recording
	p   int32
	rng *rand.Rand
}

// pick chooses a visible record of a topic that fits and that no other fault has touched, and marks it.
func (f *spoiler) pick(topic string, fits func(rec *kgo.Record, later []*kgo.Record) bool) *kgo.Record {
	log, _ := f.visible(topic, f.p)
	var all []*kgo.Record
	for i, rec := range log {
		if !f.used[rec] && fits(rec, log[i+1:]) {
			all = append(all, rec)
		}
	}
	if len(all) == 0 {
		panic(fmt.Sprintf("nothing in %s/%d fits the fault", topic, f.p))
	}
	rec := all[f.rng.IntN(len(all))]
	f.used[rec] = true
	return rec
}

// anyOne fits every record.
func anyOne(*kgo.Record, []*kgo.Record) bool { return true }

func notTheLast(_ *kgo.Record, later []*kgo.Record) bool { return len(later) > 0 }

// pickUpdate chooses an update whose account is posted to later, or has no later update, and marks all of its account.
func (f *spoiler) pickUpdate(applied, last bool) *kgo.Record {
	rec := f.pick(f.topics.Updates, func(rec *kgo.Record, later []*kgo.Record) bool {
		again := slices.ContainsFunc(later, func(r *kgo.Record) bool { return bytes.Equal(r.Key, rec.Key) && (last || isApplied(r)) })
		return isApplied(rec) == applied && again != last && !bytes.Contains(rec.Value, []byte(`"type":"account"`))
	})
	log, _ := f.visible(f.topics.Updates, f.p)
	for _, r := range log {
		f.used[r] = f.used[r] || bytes.Equal(r.Key, rec.Key)
	}
	return rec
}

func isApplied(r *kgo.Record) bool { return bytes.Contains(r.Value, []byte(`"outcome":"applied"`)) }

func (f *spoiler) remove(rec *kgo.Record) {
	rec = f.now(rec)
	log := f.logs[rec.Topic][f.p]
	f.logs[rec.Topic][f.p] = slices.DeleteFunc(slices.Clone(log), func(r *kgo.Record) bool { return r == rec })
}

// replace puts an altered copy in a record's place: recordings are shared.
func (f *spoiler) replace(rec *kgo.Record, alter func(r *kgo.Record)) *kgo.Record {
	rec = f.now(rec)
	c := *rec
	c.Headers = slices.Clone(rec.Headers)
	alter(&c)
	log := slices.Clone(f.logs[rec.Topic][f.p])
	log[slices.Index(log, rec)] = &c
	f.logs[rec.Topic][f.p], f.used[&c], f.became[rec] = log, true, &c
	return &c
}

func (f *spoiler) edit(rec *kgo.Record, old, new string) *kgo.Record {
	return f.replace(rec, func(r *kgo.Record) {
		if !bytes.Contains(r.Value, []byte(old)) {
			panic(fmt.Sprintf("%q is not in %s", old, r.Value))
		}
		r.Value = bytes.Replace(r.Value, []byte(old), []byte(new), 1)
	})
}

// insert puts a record before another one, in a transaction of its own, and moves everything behind. at is nil for the end.
func (f *spoiler) insert(topic string, at *kgo.Record, how ending, rec *kgo.Record) *kgo.Record {
	log := f.logs[topic][f.p]
	i := len(log)
	if at != nil {
		i = slices.Index(log, at)
	}
	by := 1_000_000 + f.rng.Int64N(1_000_000)
	c := *rec
	c.ProducerID, c.ProducerEpoch, c.Topic, c.Partition, c.Offset = by, 0, topic, f.p, -1
	c.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true})
	f.used[&c] = true
	f.logs[topic][f.p] = f.renumber(slices.Insert(slices.Clone(log), i, &c, endRecord(topic, f.p, by, how)))
	return f.now(&c)
}

// renumber gives records the offsets of a log without holes, altering what it must: marks move along.
func (f *spoiler) renumber(log []*kgo.Record) []*kgo.Record {
	for i, rec := range log {
		if rec.Offset != int64(i) {
			c := *rec
			c.Offset = int64(i)
			log[i], f.used[&c], f.became[rec] = &c, f.used[rec], &c
		}
	}
	return log
}

func endRecord(topic string, p int32, by int64, how ending) *kgo.Record {
	key := []byte{0, 0, 0, 0}
	if how == endCommit {
		key[3] = 1
	}
	return &kgo.Record{Topic: topic, Partition: p, Key: key, ProducerID: by, ProducerEpoch: 1, Timestamp: time.UnixMilli(testNow),
		Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: true})}
}

// end makes the transaction of a record end otherwise in its partition.
func (f *spoiler) end(rec *kgo.Record, how ending) {
	log := f.logs[rec.Topic][f.p]
	for i, r := range log {
		if r.ProducerID != rec.ProducerID || r.ProducerEpoch < rec.ProducerEpoch {
			continue
		}
		f.used[r] = true
		if !r.Attrs.IsControl() || i < slices.Index(log, rec) {
			continue
		}
		if how == stillOpen {
			f.remove(r)
		} else {
			f.replace(r, func(r *kgo.Record) { r.Key = endRecord(r.Topic, r.Partition, 0, how).Key })
		}
		return
	}
	panic("the transaction of " + place(rec) + " has no end")
}

// abortAlone makes the input of an outcome the only record of a transaction that aborts.
func (f *spoiler) abortAlone(rec *kgo.Record) []sign {
	by := 1_000_000 + f.rng.Int64N(1_000_000)
	in := f.replace(f.inputOf(rec), func(r *kgo.Record) { r.ProducerID, r.ProducerEpoch = by, 0 })
	log := f.logs[f.topics.Input][f.p]
	end := endRecord(f.topics.Input, f.p, by, endAbort)
	end.Offset = log[len(log)-1].Offset + 1
	f.logs[f.topics.Input][f.p] = append(slices.Clone(log), end)
	return []sign{f.sign(AbortedRead, "is the outcome of", in, end, rec)}
}

func (f *spoiler) sourceOf(rec *kgo.Record) int64 {
	var reader outcomeReader
	return reader.read(f.laneOf(rec.Topic), rec).source.offset
}

func (f *spoiler) laneOf(topic string) lane {
	return map[string]lane{f.topics.Updates: updates, f.topics.Skipped: skipped, f.topics.DeadLetters: letters}[topic]
}

// rename gives an applied input another id, wherever the job wrote the old one down: input, update, inbox, digest.
func (f *spoiler) rename(update *kgo.Record, old, new string) {
	f.edit(f.inputOf(update), old, new)
	f.edit(update, old, new)
	was, is := sha256.Sum256([]byte(old)), sha256.Sum256([]byte(new))
	stored, _ := f.visible(f.topics.State, f.p)
	for _, rec := range stored {
		if i := bytes.Index(rec.Value, was[:16]); i >= 0 && !isMarkerKey(rec.Key) {
			before, _ := entryHash(rec.Key, rec.Value, nil)
			c := f.replace(rec, func(r *kgo.Record) { r.Value = slices.Replace(slices.Clone(r.Value), i, i+16, is[:16]...) })
			after, _ := entryHash(c.Key, c.Value, nil)
			f.redigest(after - before)
			return
		}
	}
	panic("no inbox knows " + old)
}

// redigest adds to the digest that the last marker and the group claim.
func (f *spoiler) redigest(by uint64) {
	log, _ := f.visible(f.topics.State, f.p)
	for _, rec := range slices.Backward(log) {
		if m, ok := parseMarker(rec.Value); ok && isMarkerKey(rec.Key) {
			was, is := binary.BigEndian.AppendUint64(nil, m.digest), binary.BigEndian.AppendUint64(nil, m.digest+by)
			f.replace(rec, func(r *kgo.Record) { r.Value = bytes.Replace(r.Value, was, is, 1) })
			break
		}
	}
	c := f.commits[f.p]
	f.commits = slices.Clone(f.commits)
	f.commits[f.p] = newCommit(c.next, fmt.Sprintf("tallystick/1 txn=%d digest=%016x", c.txnSeq, c.digest+by))
}

// onReread changes what a log holds between the two readings of it.
func (f *spoiler) onReread(topic string, change func()) {
	before, done := f.reread, false
	f.reread = func(t string, p int32) {
		if before != nil {
			before(t, p)
		}
		if t == topic && p == f.p && !done {
			done, f.shown = true, nil
			change()
		}
	}
}
