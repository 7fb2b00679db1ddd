package verify

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// orphan reports an outcome whose input offset holds no committed record. In raw mode it says what does stand there: the job
// may have read what was aborted.
func (a *audit) orphan(ctx context.Context, o *outcome) error {
	if a.continued && o.source.offset < a.begin { // retention may have taken it since
		a.violate(Duplicate, fmt.Sprintf("%s is a second outcome of input %d, which an earlier audit judged", place(o.rec), o.source.offset), evidence("second", o.rec))
		return nil
	}
	text := fmt.Sprintf("%s names offset %d of the input, which holds no committed record", place(o.rec), o.source.offset)
	if !a.raw || a.report.counts[AbortedRead] >= MaxShown && !a.mayLook() {
		a.violate(Ghost, text, evidence("outcome", o.rec))
		return nil
	}
	in, marker, err := a.fate(ctx, a.topics.Input, a.p, o.source.offset)
	if err != nil {
		return err
	}
	how := stillOpen
	if marker != nil {
		how, _ = control(marker)
	}
	if in == nil || how == endCommit { // committed since: then a second look would have seen it
		a.violate(Ghost, text, evidence("outcome", o.rec))
		return nil
	}
	a.violate(AbortedRead, fmt.Sprintf("%s is the outcome of %s, whose transaction is %s", place(o.rec), place(in), how),
		slices.Concat(rawEvidence("input", in), rawEvidence("marker", marker), present("outcome", o.rec))...)
	return nil
}

// buildsOnAborted looks, in raw mode, for an aborted update that explains an update which does not follow from the account's
// previous one: whoever wrote it had read the other. It reports what it finds, and searches until maxSearched records are read.
func (a *audit) buildsOnAborted(ctx context.Context, in *kgo.Record, x *expected, o *outcome, ev []Evidence) (found bool, err error) {
	if !a.raw || a.searched >= maxSearched {
		return false, nil
	}
	log, err := a.openLog(ctx, a.topics.Updates, max(0, x.account.last+1))
	if err != nil {
		return false, err
	}
	defer func() { a.searched += max(log.records, leastSearch) }()
	bases := map[*stretch]*kgo.Record{} // the last update of each transaction that the update may build on
	var base, marker *stretch
	for base == nil {
		rec, s, err := log.next(ctx, func(s *stretch) {
			if s.end == endAbort && bases[s] != nil && marker == nil {
				marker = s
			}
		})
		if err != nil {
			return false, err
		}
		if base = marker; rec == nil || rec.Offset >= o.rec.Offset || base != nil {
			break
		}
		if s != nil && bytes.Equal(rec.Key, o.rec.Key) && a.follows(rec, x, o) {
			bases[s] = rec
		}
	}
	if base == nil {
		return false, nil
	}
	rec, end, err := a.fate(ctx, a.topics.Updates, a.p, bases[base].Offset)
	if err != nil {
		return false, err
	}
	ev = slices.Concat(ev, rawEvidence("aborted update", rec), rawEvidence("marker", end), present("update", o.rec))
	a.violate(AbortedRead, fmt.Sprintf("%s builds on %s, whose transaction was aborted, and not on the account's previous update", place(o.rec), place(rec)), ev...)
	return true, nil
}

// maxSearched bounds the records of a partition that are read in search of aborted updates; a search counts as leastSearch at the
// least, because it fetches.
const (
	maxSearched = 1 << 22
	leastSearch = 1 << 12
)

// follows reports whether an update is what another one leads to.
func (a *audit) follows(base *kgo.Record, x *expected, o *outcome) bool {
	b := a.second.read(updates, base)
	if _, lost := a.missing[b.source.offset]; lost { // the loss of its input's outcome explains the gap
		return false
	}
	if b.fault != "" || !b.update.applied || !bytes.Equal(b.account, o.account) || b.update.kind == accountEvent {
		return false
	}
	from := account{currency: b.update.currency, digits: b.update.currency.digits(), status: open, minimum: x.account.minimum,
		balance: b.update.balance.amount, held: b.update.held.amount, version: b.update.version, last: base.Offset}
	if x.account.exists() {
		from.status = x.account.status
	}
	return o.fits(x.on(&from, a.autoCreate))
}
