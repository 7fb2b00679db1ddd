package verify

import (
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// expected is what an input has to lead to, by this package's own rules.
type expected struct {
	lane     lane
	why      reasons // of a dead letter or a rejection, any of which may be named; none on updates: applied
	event    event
	ruling   ruling
	first    int64 // offset of the first event, for duplicates and conflicts
	id       identity
	content  uint64
	account  account  // before the event
	due      *account // behind it, when the update says something else
	future   bool     // a dead letter proves by its clock that the record was ahead of it, whatever else was due
	withheld bool     // an earlier program may have written its letter: see mending
	known    bool     // event, ruling, id and content are valid: the input is well formed
}

// maxAhead is how far a record may be stamped ahead of the clock that sees it.
const maxAhead = time.Hour

// expect decides an input. The account is the one that the outcomes so far describe.
func (a *audit) expect(in *kgo.Record) (x expected) {
	var bad reasons
	x.event, bad = a.events.read(in)
	if in.Timestamp.After(a.now().Add(maxAhead)) {
		bad |= set(futureTimestamp)
	}
	if in.Key != nil {
		bad |= a.refuseKey(in.Key)
	}
	if bad != 0 {
		x.lane, x.why = letters, bad
		return x
	}
	x.known = true
	x.id, x.content = a.hash.identity(&x.event), a.hash.content(&x.event)
	x.ruling, x.first = a.inbox.rule(x.id, x.content, in.Timestamp.UnixMilli())
	switch x.ruling {
	case isDuplicate:
		x.lane = skipped
	case isConflict:
		x.lane, x.why = letters, set(conflict)
	case isExpired:
		x.lane, x.why = letters, set(outsideWindow)
	default:
		a.expectUpdate(&x)
	}
	return x
}

func (a *audit) refuseKey(key []byte) (bad reasons) {
	if a.place(key, a.partitions) != a.p {
		bad |= set(wrongPartition)
	}
	if !utf8.Valid(key) {
		bad |= set(malformedKey)
	}
	return bad
}

// expectUpdate asks the rules.
func (a *audit) expectUpdate(x *expected) {
	x.lane = updates
	if known := a.accounts[string(x.event.account)]; known != nil {
		x.account = *known
	}
	x.why = x.account.refusals(&x.event, a.autoCreate)
}

// book counts what had to be posted, whatever was: the balances are reconciled with that.
func (a *audit) book(x *expected) {
	if x.posts() && !x.future && !x.withheld {
		a.enter(&x.event)
	}
}

// posts reports whether the input moves money.
func (x *expected) posts() bool {
	return x.lane == updates && x.why == 0 && x.event.kind != accountEvent
}

func (a *audit) enter(e *event) {
	t := a.tally(e.currency)
	if e.kind == credit {
		t.credits.add(e.amount)
	} else {
		t.debits.add(e.amount)
	}
}

func (a *audit) tally(c currency) *tally {
	t := a.report.sums[c]
	if t == nil {
		t = &tally{}
		a.report.sums[c] = t
	}
	return t
}

// String says what had to come.
func (x *expected) String() string {
	switch {
	case x.lane == letters:
		return "a dead letter (" + x.why.String() + ")"
	case x.lane == skipped:
		return "a skipped note"
	case x.why != 0:
		return "an update that rejects it (" + x.why.String() + ")"
	}
	return "an update that applies it"
}
