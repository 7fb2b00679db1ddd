package verify

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// leaveOut removes an outcome.
func (f *spoiler) leaveOut(rec *kgo.Record, due string) []sign {
	f.remove(rec)
	return []sign{f.lost(due, f.inputOf(rec))}
}

// again writes an outcome a second time, at the end.
func (f *spoiler) again(rec *kgo.Record) []sign {
	return []sign{f.sign(Duplicate, "has a second outcome", f.inputOf(rec), rec, f.insert(rec.Topic, nil, endCommit, rec))}
}

// leap makes an update's version one too high.
func (f *spoiler) leap(rec *kgo.Record) *kgo.Record {
	u := f.read(rec)
	return f.edit(rec, fmt.Sprintf(`"version":%d,`, u.version), fmt.Sprintf(`"version":%d,`, u.version+1))
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
func (f *spoiler) swap() []sign {
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
	return []sign{f.sign(Chain, "stands before that of input", rec, next)}
}

// pickLive chooses the record of a store that is the last of its key.
func (f *spoiler) pickLive(store string) *kgo.Record {
	return f.pick(f.topics.State, func(rec *kgo.Record, later []*kgo.Record) bool {
		name, _, ok := splitKey(rec.Key)
		return ok && name == store && rec.Value != nil && !slices.ContainsFunc(later, func(r *kgo.Record) bool { return bytes.Equal(r.Key, rec.Key) })
	})
}

// accountOf is the account of a stored one's record.
func accountOf(rec *kgo.Record) []byte {
	_, account, _ := splitKey(rec.Key)
	return account
}

func (f *spoiler) currencyOf(rec *kgo.Record) string { return f.read(rec).currency.String() }

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
func (f *spoiler) recommit(next int64, digest uint64) []sign {
	c := f.commits[f.p]
	f.commits = slices.Clone(f.commits)
	f.commits[f.p] = newCommit(c.next+next, fmt.Sprintf("tallystick/1 txn=%d digest=%016x", c.txnSeq, c.digest+digest))
	return []sign{f.sign(Offset, "the applied marker says", f.lastMarker())}
}

// doubleCredit gives a credit the id that one in the next partition has.
func (f *spoiler) doubleCredit() []sign {
	other := &spoiler{f.recording, (f.p + 1) % f.partitions, f.rng}
	its := other.pick(f.topics.Updates, func(rec *kgo.Record, _ []*kgo.Record) bool { return isApplied(rec) && !hasSource(rec) })
	mine := f.pick(f.topics.Updates, func(rec *kgo.Record, _ []*kgo.Record) bool {
		n, id := 0, []byte(`"`+f.idOf(rec)+`"`)
		for _, in := range f.logs[f.topics.Input][f.p] {
			if bytes.Contains(in.Value, id) {
				n++
			}
		}
		return isApplied(rec) && !hasSource(rec) && n == 1 && bytes.Contains(rec.Value, []byte(`"type":"credit"`))
	})
	ins := []*kgo.Record{f.inputOf(mine), other.inputOf(its)}
	f.rename(mine, f.idOf(mine), f.idOf(its))
	return []sign{{verdict: DoubleCredit, of: everywhere, says: "have one id", records: ins}}
}

// hasSource reports whether an id is of a CloudEvent: it counts together with its source.
func hasSource(rec *kgo.Record) bool { return bytes.Contains(rec.Value, []byte(`"event_source"`)) }

func (f *spoiler) idOf(rec *kgo.Record) string {
	var reader outcomeReader
	o := reader.read(updates, rec)
	return string(o.id)
}

// buildOnAborted repeats a posting on top of itself, as a job does that aborts and keeps its state.
func (f *spoiler) buildOnAborted() []sign {
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
	previous := f.previous(again)
	aborted := f.attempt(rec, previous) // an earlier one where the run itself had aborted this posting: that explains it as well
	_, end := f.transaction(aborted)
	return []sign{f.sign(AbortedRead, "builds on", f.inputOf(rec), previous, aborted, end, again)}
}

// attempt is the first aborted record of an update behind the one before it, which may be nil.
func (f *spoiler) attempt(rec, previous *kgo.Record) *kgo.Record {
	ends := f.ends(rec.Topic, f.p)
	for i, r := range f.logs[rec.Topic][f.p] {
		if ends[i] == endAbort && bytes.Equal(r.Value, rec.Value) && (previous == nil || r.Offset > previous.Offset) {
			return r
		}
	}
	panic(place(rec) + " was never aborted")
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
		if int32(p) != f.p && slices.ContainsFunc(log, func(r *kgo.Record) bool { return sameTransaction(r, rec) }) {
			return true
		}
	}
	return false
}

// leak shows an aborted input to readers.
func (f *spoiler) leak() []sign {
	in := f.pickAborted()
	f.leaked[in] = true
	_, end := f.transaction(in)
	return append(f.mayDrift(in), f.sign(AbortedRead, "was shown to readers", in, end), f.lost("has no outcome", in))
}

// commitAborted commits an aborted transaction of upstream in this partition alone.
func (f *spoiler) commitAborted() []sign {
	in := f.pickAborted()
	f.end(in, endCommit)
	records, end := f.transaction(in)
	signs := f.mayDrift(records...)
	for _, r := range records {
		signs = append(signs, f.lost("has no outcome", r))
	}
	for p := range f.logs[in.Topic] {
		if i := slices.IndexFunc(f.logs[in.Topic][p], func(r *kgo.Record) bool { return int32(p) != f.p && sameTransaction(r, in) }); i >= 0 {
			other := f.logs[in.Topic][p][i]
			_, otherEnd := f.transaction(other)
			return append(signs, sign{verdict: Torn, of: everywhere, says: "one transaction of", records: []*kgo.Record{records[0], end, other, otherEnd}})
		}
	}
	panic(place(in) + " is alone in its transaction")
}

// sameTransaction compares by the epoch, which serves one transaction in the recorded runs.
func sameTransaction(a, b *kgo.Record) bool {
	return !a.Attrs.IsControl() && a.ProducerID == b.ProducerID && a.ProducerEpoch == b.ProducerEpoch
}

// abortNotes aborts a transaction in the skipped notes alone.
func (f *spoiler) abortNotes() []sign {
	rec := f.pick(f.topics.Skipped, anyOne)
	f.end(rec, endAbort)
	records, _ := f.transaction(rec)
	signs := []sign{f.tornFrom("the outcome of the same transaction", f.claimOf(rec), records[0])}
	for _, r := range records {
		signs = append(signs, f.lost("a skipped note was due", f.inputOf(r)))
	}
	return signs
}

// openNotes leaves a transaction without an end in the skipped notes.
func (f *spoiler) openNotes() []sign {
	rec := f.pick(f.topics.Skipped, f.lastOfItsProducer)
	f.end(rec, stillOpen)
	records, _ := f.transaction(rec)
	return []sign{f.tornFrom("is open", f.claimOf(rec), records[0])}
}

// abortState aborts a transaction in the state alone: each topic of outcomes tells of it, and each account that nothing
// later put right.
func (f *spoiler) abortState() []sign {
	claim := f.pickClaim(false)
	records, _ := f.transaction(claim)
	records = slices.DeleteFunc(records, func(r *kgo.Record) bool {
		store, _, _ := splitKey(r.Key)
		return store != storeAccounts || r != f.last(r.Topic, r.Key)
	})
	f.end(claim, endAbort)
	signs := append(f.tornOutcomes(claim), f.badDigest())
	for _, r := range records {
		signs = append(signs, f.stale(accountOf(r)))
	}
	return signs
}

// abortLastState aborts the last transaction in the state alone: the partition is judged up to the one before.
func (f *spoiler) abortLastState() []sign {
	claim := f.pickClaim(true)
	f.end(claim, endAbort)
	_, end := f.transaction(claim)
	return append(f.tornOutcomes(claim), f.sign(Torn, "the state of the same transaction", claim, end), f.sign(Offset, "the applied marker says", f.lastMarker()))
}

func (f *spoiler) tornOutcomes(claim *kgo.Record) (signs []sign) {
	for _, part := range f.parts(claim) {
		signs = append(signs, f.tornFrom("the applied marker of the same transaction", part[0], claim))
	}
	return signs
}
