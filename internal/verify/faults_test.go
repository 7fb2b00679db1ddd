package verify

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// leap makes an update's version one too high.
func (f *spoiler) leap(rec *kgo.Record) {
	u := f.read(rec)
	f.edit(rec, fmt.Sprintf(`"version":%d,`, u.version), fmt.Sprintf(`"version":%d,`, u.version+1))
}

func (f *spoiler) read(rec *kgo.Record) update {
	var reader outcomeReader
	o := reader.read(updates, rec)
	return o.update
}

// lastOfItsProducer fits records whose producer ends no later transaction in their partition.
func (f *spoiler) lastOfItsProducer(rec *kgo.Record, _ []*kgo.Record) bool {
	n := 0
	for _, r := range f.logs[rec.Topic][f.p] {
		if r.Attrs.IsControl() && r.ProducerID == rec.ProducerID && r.Offset > rec.Offset {
			n++
		}
	}
	return n == 1
}

// swap exchanges two neighbouring updates of different accounts.
func (f *spoiler) swap() {
	var next *kgo.Record
	rec := f.pick(f.topics.Updates, func(rec *kgo.Record, later []*kgo.Record) bool {
		ok := len(later) > 0 && !f.used[later[0]] && !bytes.Equal(rec.Key, later[0].Key)
		return ok
	})
	log, _ := f.visible(f.topics.Updates, f.p)
	next = log[slices.Index(log, rec)+1]
	a, b := *rec, *next
	f.replace(rec, func(r *kgo.Record) { r.Key, r.Value, r.Timestamp = b.Key, b.Value, b.Timestamp })
	f.replace(next, func(r *kgo.Record) { r.Key, r.Value, r.Timestamp = a.Key, a.Value, a.Timestamp })
}

// pickLive chooses the record of a store that is the last of its key.
func (f *spoiler) pickLive(store string) *kgo.Record {
	return f.pick(f.topics.State, func(rec *kgo.Record, later []*kgo.Record) bool {
		name, _, ok := splitKey(rec.Key)
		return ok && name == store && rec.Value != nil && !slices.ContainsFunc(later, func(r *kgo.Record) bool { return bytes.Equal(r.Key, rec.Key) })
	})
}

// sameKey returns a record that has the key of one that was removed, nil when none is left.
func (f *spoiler) sameKey(rec *kgo.Record) *kgo.Record {
	log, _ := f.visible(rec.Topic, f.p)
	for _, r := range log {
		if bytes.Equal(r.Key, rec.Key) {
			return r
		}
	}
	return nil
}

// pickClaim chooses the applied marker of a transaction that wrote outcomes: the last one, or one whose inbox record is
// missed when it goes.
func (f *spoiler) pickClaim(last bool) *kgo.Record {
	return f.pick(f.topics.State, func(rec *kgo.Record, later []*kgo.Record) bool {
		isLast := !slices.ContainsFunc(later, func(r *kgo.Record) bool { return isMarkerKey(r.Key) })
		return isMarkerKey(rec.Key) && isLast == last && (last || f.wroteTo(f.topics.State, rec, func(r *kgo.Record) bool { return !isMarkerKey(r.Key) })) &&
			(last || f.wroteTo(f.topics.Updates, rec, isApplied))
	})
}

// wroteTo reports whether the transaction of a record wrote another that fits to a topic.
func (f *spoiler) wroteTo(topic string, rec *kgo.Record, fits func(*kgo.Record) bool) bool {
	log, _ := f.visible(topic, f.p)
	return slices.ContainsFunc(log, func(r *kgo.Record) bool {
		return r.ProducerID == rec.ProducerID && r.ProducerEpoch == rec.ProducerEpoch && fits(r)
	})
}

// recommit alters what the group has committed.
func (f *spoiler) recommit(next int64, digest uint64) {
	c := f.commits[f.p]
	f.commits = slices.Clone(f.commits)
	f.commits[f.p] = newCommit(c.next+next, fmt.Sprintf("tallystick/1 txn=%d digest=%016x", c.txnSeq, c.digest+digest))
}

// doubleCredit gives a credit the id that one in the next partition has.
func (f *spoiler) doubleCredit() {
	other := &spoiler{f.recording, (f.p + 1) % f.partitions, f.rng}
	new := other.idOf(other.pick(f.topics.Updates, func(rec *kgo.Record, _ []*kgo.Record) bool { return isApplied(rec) && !hasSource(rec) }))
	mine := f.pick(f.topics.Updates, func(rec *kgo.Record, _ []*kgo.Record) bool {
		n, id := 0, []byte(`"`+f.idOf(rec)+`"`)
		for _, in := range f.logs[f.topics.Input][f.p] {
			if bytes.Contains(in.Value, id) {
				n++
			}
		}
		return isApplied(rec) && !hasSource(rec) && n == 1 && bytes.Contains(rec.Value, []byte(`"type":"credit"`))
	})
	f.rename(mine, f.idOf(mine), new)
}

// hasSource reports whether an id is of a CloudEvent: it counts together with its source.
func hasSource(rec *kgo.Record) bool { return bytes.Contains(rec.Value, []byte(`"event_source"`)) }

func (f *spoiler) idOf(rec *kgo.Record) string {
	var reader outcomeReader
	o := reader.read(updates, rec)
	return string(o.id)
}

// buildOnAborted repeats a posting on top of itself, as a job does that aborts and keeps its state.
func (f *spoiler) buildOnAborted() {
	rec := f.pickUpdate(true, false)
	for f.read(rec).kind != credit { // funds for the second
		rec = f.pickUpdate(true, false)
	}
	u := f.read(rec)
	e := event{kind: u.kind, amount: u.amount.amount}
	again := f.replace(rec, func(r *kgo.Record) {
		r.Value = bytes.Replace(r.Value, fmt.Appendf(nil, `"version":%d,`, u.version), fmt.Appendf(nil, `"version":%d,`, u.version+1), 1)
		r.Value = bytes.Replace(r.Value, fmt.Appendf(nil, `"balance":%q`, u.balance.text(u.balance.digits)),
			fmt.Appendf(nil, `"balance":%q`, u.balance.add(e.signed()).text(u.balance.digits)), 1)
	})
	f.insert(rec.Topic, again, endAbort, rec)
}

// pickAborted chooses an input of a transaction that aborted and wrote to another partition, too.
func (f *spoiler) pickAborted() *kgo.Record {
	ends := f.ends(f.topics.Input, f.p)
	var all []*kgo.Record
	for i, rec := range f.logs[f.topics.Input][f.p] {
		if ends[i] == endAbort && !rec.Attrs.IsControl() && !f.used[rec] && f.elsewhere(rec) && rec.Offset < f.commits[f.p].next-20 {
			all = append(all, rec)
		}
	}
	rec := all[f.rng.IntN(len(all))]
	f.used[rec] = true
	return rec
}

func (f *spoiler) elsewhere(rec *kgo.Record) bool {
	for p, log := range f.logs[rec.Topic] {
		if int32(p) != f.p && slices.ContainsFunc(log, func(r *kgo.Record) bool {
			return !r.Attrs.IsControl() && r.ProducerID == rec.ProducerID && r.ProducerEpoch == rec.ProducerEpoch
		}) {
			return true
		}
	}
	return false
}

// leak shows an aborted input to readers.
func (f *spoiler) leak() { f.leaked[f.pickAborted()] = true }

// commitAborted commits an aborted transaction of upstream in this partition alone.
func (f *spoiler) commitAborted() { f.end(f.pickAborted(), endCommit) }
