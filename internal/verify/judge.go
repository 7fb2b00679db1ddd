package verify

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// violate records a violation of this partition. Evidence beyond the shown ones is dropped.
func (a *audit) violate(v Verdict, text string, ev ...Evidence) {
	a.report.counts[v]++
	if a.report.counts[v] <= MaxShown {
		a.report.violations = append(a.report.violations, Violation{v, a.p, text, ev})
	}
}

// judge compares an input's outcomes with what had to come, then follows what did.
func (a *audit) judge(ctx context.Context, in *kgo.Record) error {
	a.report.inputs++
	before := a.findings()
	x := a.expect(in)
	if err := a.inbox.ids.err; err != nil {
		return err // what it said of the id is worth nothing
	}
	balance, broken := x.account.balance, x.account.due != nil
	if x.lane != updates && x.known {
		balance = a.balanceOf(&x)
	}
	switch len(a.found) {
	case 0:
		a.miss(in.Offset, &x)
		a.book(&x)
		a.drifted(in, &x, balance)
		a.withhold(&x)
		return nil
	case 1:
	default:
		a.several(in, &x)
	}
	o := &a.found[0]
	a.count(o)
	err := a.compare(ctx, in, &x, o)
	right := a.findings() == before
	if right {
		a.mend(in, o)
	}
	a.book(&x)
	a.follow(in, &x, o)
	if !right || broken {
		a.drifted(in, &x, balance)
	}
	return cmp.Or(err, a.handOn(minPostings))
}

// handOn gives what was applied to the sorting over all partitions, when there are so many.
func (a *audit) handOn(enough int) error {
	if len(a.report.posted) < enough {
		return nil
	}
	err := a.posted.add(a.report.posted)
	a.report.posted = a.report.posted[:0]
	return err
}

// several reports two or more outcomes of one input, and puts the one to go on with first.
func (a *audit) several(in *kgo.Record, x *expected) {
	ev := []Evidence{evidence("input", in)}
	for _, o := range a.found {
		ev = append(ev, evidence("outcome", o.rec))
	}
	a.violate(Duplicate, fmt.Sprintf("%s has %d outcomes", place(in), len(a.found)), ev...)
	if i := slices.IndexFunc(a.found, func(o outcome) bool { return o.lane == x.lane }); i > 0 {
		a.found[0], a.found[i] = a.found[i], a.found[0]
	}
}

func (a *audit) count(o *outcome) {
	switch {
	case o.lane == skipped:
		a.report.duplicates++
	case o.lane == letters && o.letter.known:
		a.report.letters[o.letter.reason]++
	case o.lane == updates && o.update.applied:
		a.report.applied++
	case o.lane == updates:
		a.report.rejected[o.update.reason]++
	}
}

// follow moves the model on by what the job did: what it did wrong was reported, once.
func (a *audit) follow(in *kgo.Record, x *expected, o *outcome) {
	if o.lane == letters {
		return // a dead letter undoes everything, stream time too
	}
	ms := in.Timestamp.UnixMilli()
	if x.known && x.ruling != isDuplicate && x.ruling != isConflict {
		a.inbox.remember(x.id, x.content, in.Offset, ms, o.lane == updates && o.update.applied)
	}
	a.inbox.advance(ms)
	for i := range a.found {
		a.post(in, x, &a.found[i])
	}
}

// post takes over the account that an applied update describes.
func (a *audit) post(in *kgo.Record, x *expected, o *outcome) {
	u := &o.update
	if o.lane != updates {
		return
	}
	known := a.accounts[string(o.account)]
	if known != nil && x.lane == updates && bytes.Equal(o.account, x.event.account) {
		*known = x.account // which may be the one that a broken update should have left
	}
	if !u.applied {
		if known != nil {
			known.last = o.rec.Offset
		}
		return
	}
	if known == nil || !known.exists() {
		known = &account{status: open, currency: u.currency, digits: u.currency.digits()}
		a.accounts[string(o.account)] = known
	}
	known.due = x.due
	known.balance, known.held, known.version, known.last = u.balance.amount, u.held.amount, u.version, o.rec.Offset
	if u.kind == accountEvent {
		known.status, known.minimum = u.status, u.minimum.amount
	}
	if x.known {
		fresh := x.ruling != isDuplicate && x.ruling != isConflict
		a.report.posted = append(a.report.posted, newPosting(x.id, a.p, in.Offset, fresh))
	}
}

// maxMissing bounds the inputs without an outcome that are remembered: what comes later for one of them is told from a second one.
// Those beyond are lost.
const maxMissing = 1 << 16

func (a *audit) miss(offset int64, x *expected) {
	if len(a.missing) >= maxMissing {
		a.alsoLost++
		return
	}
	a.missing[offset] = x.String()
}

// withhold keeps both ways open behind an input without an outcome: that it was applied and its update is lost, and that it
// was not. The account's next update shows which.
func (a *audit) withhold(x *expected) {
	if x.lane != updates || x.why != 0 {
		return
	}
	known := a.accounts[string(x.event.account)]
	if known == nil {
		known = &account{last: -1}
		a.accounts[string(x.event.account)] = known
	}
	base := known
	if known.due != nil {
		base = known.due
	}
	due := base.after(&x.event)
	known.due = &due
}

// stray judges an outcome of an input that the join has passed.
func (a *audit) stray(ctx context.Context, o *outcome) error {
	offset := o.source.offset
	if _, late := a.missing[offset]; late {
		delete(a.missing, offset)
		in, err := a.lookupFor(ctx, Chain, a.topics.Input, offset)
		a.violate(Chain, fmt.Sprintf("%s comes after outcomes of later inputs: its input is %d", place(o.rec), offset),
			append(present("input", in), evidence("outcome", o.rec))...)
		return err
	}
	if a.report.counts[Duplicate] >= MaxShown && (a.report.counts[Ghost] >= MaxShown || !a.mayLook()) {
		a.violate(Duplicate, "")
		return nil
	}
	in, err := a.h.lookup(ctx, a.topics.Input, a.p, offset)
	if err != nil {
		return err
	}
	if in == nil {
		return a.orphan(ctx, o)
	}
	if a.report.counts[Duplicate] < MaxShown {
		a.wanted[offset] = len(a.report.violations)
	}
	a.violate(Duplicate, fmt.Sprintf("%s has a second outcome, %s", place(in), place(o.rec)), evidence("input", in), evidence("second", o.rec))
	return nil
}

// compare judges one outcome of an input.
func (a *audit) compare(ctx context.Context, in *kgo.Record, x *expected, o *outcome) error {
	if excused, err := a.excused(ctx, in, x, o); err != nil || excused {
		return err
	}
	switch o.lane {
	case letters:
		a.compareLetter(in, x, o)
		return nil
	case skipped:
		return a.compareSkipped(ctx, in, x, o)
	}
	return a.compareUpdate(ctx, in, x, o)
}

func (a *audit) compareLetter(in *kgo.Record, x *expected, o *outcome) {
	if fault := o.carries(in); fault != "" {
		a.violate(Ghost, fmt.Sprintf("%s is not the dead letter of %s: %s", place(o.rec), place(in), fault), evidence("input", in), evidence("dead letter", o.rec))
		return
	}
	if v, fault := o.judgeLetter(in, x, a); fault != "" {
		a.hold(in, x, v, fault, o.rec)
	}
}

// judgeLetter returns what is wrong with the decision for a dead letter, "" if nothing.
func (o *outcome) judgeLetter(in *kgo.Record, x *expected, a *audit) (Verdict, string) {
	future := o.letter.known && o.letter.reason == futureTimestamp
	if x.future = future && o.wasFuture(in); x.future {
		return "", "" // by the clock that the job read: the one outcome that depends on more than the input
	}
	switch {
	case x.lane == updates:
		return Lost, fmt.Sprintf("%s is a new event and was not posted: it became a dead letter (%s), where %s was due", place(in), o.letter.word, x)
	case x.lane == skipped || !o.letter.known || future || !x.why.has(o.letter.reason):
		return Ghost, fmt.Sprintf("%s is labelled %s, but %s was due", place(o.rec), o.letter.word, x)
	case x.ruling == isConflict && x.known && o.first != (position{a.topics.Input, a.p, x.first}):
		return Ghost, fmt.Sprintf("%s names %s as the first event, but it is offset %d", place(o.rec), o.first, x.first)
	}
	return "", ""
}

// wasFuture checks a future timestamp against the clock in the letter, and that clock against the time of writing.
func (o *outcome) wasFuture(in *kgo.Record) bool {
	ahead := maxAhead.Milliseconds()
	clock, wrote := o.letter.clock, o.rec.Timestamp.UnixMilli()
	if clock == noTime || in.Timestamp.UnixMilli() <= clock+ahead {
		return false
	}
	return clock > wrote-ahead && clock < wrote+ahead
}

func (a *audit) compareSkipped(ctx context.Context, in *kgo.Record, x *expected, o *outcome) error {
	if x.lane != skipped {
		verdict := Ghost
		if x.lane == updates {
			verdict = Lost
		}
		first, err := a.lookupFirst(ctx, verdict, o.first)
		ev := append(present("input", in), present("skipped", o.rec)...)
		ev = append(ev, present("claimed first", first)...)
		a.violate(verdict, fmt.Sprintf("%s was skipped as a duplicate of %s, but %s was due", place(in), o.first, x), ev...)
		return err
	}
	fault := ""
	switch {
	case !bytes.Equal(o.id, x.event.id) || !bytes.Equal(o.account, x.event.account):
		fault = "it names another event"
	case !sameBytes(o.rec.Key, in.Key):
		fault = "its key is not the input's"
	case o.first != (position{a.topics.Input, a.p, x.first}):
		fault = fmt.Sprintf("it names %s as the first event, but that is offset %d", o.first, x.first)
	case !sameTime(o.rec, in):
		fault = "its record time is not the input's"
	}
	if fault != "" {
		a.violate(Ghost, fmt.Sprintf("%s does not describe its input %s: %s", place(o.rec), place(in), fault),
			evidence("input", in), evidence("skipped", o.rec))
	}
	return nil
}

// lookupFirst fetches what a skipped note names as first, when it is of this input.
func (a *audit) lookupFirst(ctx context.Context, v Verdict, p position) (*kgo.Record, error) {
	if p.topic != a.topics.Input || p.partition != a.p {
		return nil, nil
	}
	return a.lookupFor(ctx, v, p.topic, p.offset)
}

// lookupFor fetches a record of this partition as evidence for a verdict; nil once enough of those are shown. In a history that is
// wrong everywhere the look-ups would take longer than the rest.
func (a *audit) lookupFor(ctx context.Context, v Verdict, topic string, offset int64) (*kgo.Record, error) {
	if a.report.counts[v] >= MaxShown {
		return nil, nil
	}
	return a.h.lookup(ctx, topic, a.p, offset)
}

// maxLooks bounds the look-ups of a partition that only tell one verdict from another, when one of the two is shown often enough.
const maxLooks = 1000

func (a *audit) mayLook() bool {
	a.looks++
	return a.looks <= maxLooks
}

// sameTime compares record times where both are the producers'.
func sameTime(o, in *kgo.Record) bool {
	const createTime = 0
	return o.Attrs.TimestampType() > createTime || in.Attrs.TimestampType() > createTime ||
		o.Timestamp.UnixMilli() == in.Timestamp.UnixMilli()
}
