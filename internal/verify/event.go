package verify

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kind is the type of an event.
type kind uint8

const (
	noKind kind = iota
	credit
	debit
	accountEvent
)

func (k kind) String() string { return [...]string{"", "credit", "debit", "account"}[k] }

// parseKind returns the kind of a type that the job knows.
func parseKind(word []byte) kind {
	for _, k := range [...]kind{credit, debit, accountEvent} {
		if k.String() == string(word) {
			return k
		}
	}
	return noKind
}

// status is what an account event moves an account to.
type status uint8

const (
	noStatus status = iota
	open
	frozen
	closed
)

func (s status) String() string { return [...]string{"", "open", "frozen", "closed"}[s] }

func parseStatus(word []byte) status {
	for _, s := range [...]status{open, frozen, closed} {
		if s.String() == string(word) {
			return s
		}
	}
	return noStatus
}

// event is a well-formed input. Its texts alias the record.
type event struct {
	kind       kind
	id, source []byte // source only for CloudEvents
	account    []byte
	amount     amount
	currency   currency
	digits     int // of currency
	at         instant
	to         status
	minimum    amount
	hasMinimum bool
}

// The members of an event, as bits and as indexes.
const (
	mEventID = iota
	mType
	mAccountID
	mAmount
	mCurrency
	mOccurredAt
	mTo
	mMinimum
	memberCount
)

func memberIndex(name []byte) int {
	switch string(name) {
	case "event_id":
		return mEventID
	case "type":
		return mType
	case "account_id":
		return mAccountID
	case "amount":
		return mAmount
	case "currency":
		return mCurrency
	case "occurred_at":
		return mOccurredAt
	case "to":
		return mTo
	case "minimum":
		return mMinimum
	}
	return -1
}

// eventReader decodes inputs. It is owned by one goroutine and reused.
type eventReader struct {
	scan  scanner
	texts [memberCount][]byte // contents of the members that are strings
	have  uint                // bits of the members that are there, strings or not
	bad   reasons
}

// read decodes a record and returns every reason for which it is no event; none means it is well formed.
func (r *eventReader) read(rec *kgo.Record) (e event, bad reasons) {
	r.bad, r.have, r.texts = 0, 0, [memberCount][]byte{}
	ce := readCloudEvent(rec.Headers)
	r.bad |= ce.bad
	switch {
	case rec.Value == nil:
		r.bad |= set(nullValue)
	case len(rec.Value) == 0:
		r.bad |= set(emptyValue)
	default:
		r.members(rec.Value)
	}
	if rec.Key == nil {
		r.bad |= set(nullKey)
	}
	if r.bad&set(nullValue, emptyValue, malformedJSON) == 0 {
		e = r.event(rec.Key, ce)
	}
	return e, r.bad
}

// members collects the members of the object and what is wrong with the JSON.
func (r *eventReader) members(src []byte) {
	if r.scan.open(src) != '{' {
		r.bad |= set(malformedJSON, wrongType, nullMember)
		return
	}
	err := r.scan.enter()
	for err == nil {
		var m member
		var ok bool
		if m, ok, err = r.scan.next(); !ok {
			break
		}
		r.member(m)
	}
	if err != nil || !r.scan.atEnd() {
		r.bad |= set(malformedJSON)
	}
	if r.bad != 0 && repeats(src) {
		r.bad |= set(duplicateName)
	}
}

func (r *eventReader) member(m member) {
	name, _ := text(m.name)
	i := memberIndex(name)
	if i < 0 {
		r.bad |= set(unknownName)
		return
	}
	if r.have&(1<<i) != 0 {
		r.bad |= set(duplicateName)
		return
	}
	r.have |= 1 << i
	content, ok := text(m.value)
	if !ok {
		r.bad |= refuseType(i, m.value)
		return
	}
	r.texts[i] = content
}

func refuseType(i int, raw []byte) reasons {
	switch {
	case jsontext.Value(raw).Kind() == 'n':
		return set(nullMember)
	case i == mAmount || i == mMinimum:
		return set(amountNotString, wrongType)
	}
	return set(wrongType)
}

// event judges the members as what the type says they are.
func (r *eventReader) event(key []byte, ce cloudEvent) (e event) {
	e.kind = r.kind()
	r.identity(&e, ce)
	r.accountID(&e, key)
	if r.texts[mOccurredAt] != nil {
		var ok bool
		e.at, ok = parseTime(r.texts[mOccurredAt])
		r.require(ok, badTime)
	}
	switch e.kind {
	case credit, debit:
		r.posting(&e)
	case accountEvent:
		r.transition(&e)
	}
	return e
}

func (r *eventReader) require(ok bool, why ...reason) {
	if !ok {
		r.bad |= set(why...)
	}
}

func (r *eventReader) kind() kind {
	if r.have&(1<<mType) == 0 {
		return credit
	}
	word := r.texts[mType]
	k := parseKind(word)
	switch {
	case word == nil || k != noKind:
	case string(word) == "payment", string(word) == "settlement", string(word) == "order":
		r.bad |= set(unsupportedType)
	default:
		r.bad |= set(unknownType)
	}
	return k
}

func (r *eventReader) identity(e *event, ce cloudEvent) {
	e.id = r.texts[mEventID]
	if r.texts[mEventID] != nil {
		r.require(validID(e.id), badID)
	}
	if !ce.binary {
		return
	}
	r.require(e.id == nil || bytes.Equal(e.id, ce.id), cloudEventsInvalid)
	e.id, e.source = ce.id, ce.source
}

func (r *eventReader) accountID(e *event, key []byte) {
	if e.account = r.texts[mAccountID]; e.account == nil {
		return
	}
	r.require(validID(e.account), badID)
	r.require(bytes.Equal(e.account, key), keyMismatch)
}

// posting is a credit or a debit.
func (r *eventReader) posting(e *event) {
	r.only(1<<mEventID|1<<mType|1<<mAccountID|1<<mAmount|1<<mCurrency|1<<mOccurredAt, 0)
	r.needs(e, 1<<mAccountID|1<<mAmount|1<<mCurrency|1<<mOccurredAt)
	if r.currency(e) && r.texts[mAmount] != nil {
		w, bad := parseAmount(r.texts[mAmount], e.digits)
		e.amount = w.amount
		r.bad |= bad
	} else if r.texts[mAmount] != nil {
		_, bad := parseAmount(r.texts[mAmount], maxFrac)
		r.bad |= bad
	}
}

// transition is an account event.
func (r *eventReader) transition(e *event) {
	r.needs(e, 1<<mAccountID|1<<mOccurredAt|1<<mTo)
	if r.texts[mTo] != nil {
		e.to = parseStatus(r.texts[mTo])
		r.require(e.to != noStatus, badTransition)
	}
	allowed := uint(1<<mEventID | 1<<mType | 1<<mAccountID | 1<<mOccurredAt | 1<<mTo)
	if e.to == open || e.to == noStatus {
		allowed |= 1<<mCurrency | 1<<mMinimum
	}
	r.only(allowed, 1<<mCurrency|1<<mMinimum)
	if e.to != open {
		return
	}
	r.needs(e, 1<<mCurrency)
	if r.currency(e) && r.texts[mMinimum] != nil {
		w, bad := parseAmount(r.texts[mMinimum], e.digits)
		e.minimum, e.hasMinimum = w.amount, true
		r.bad |= bad
	}
}

// only refuses members that this type has not. For those in question (a currency where nothing is opened) the job may name
// the transition instead.
func (r *eventReader) only(allowed, question uint) {
	if r.have&^allowed == 0 {
		return
	}
	r.bad |= set(unknownName)
	if r.have&^allowed&question != 0 {
		r.bad |= set(badTransition)
	}
}

// needs refuses an event without the members of the mask or without an identity.
func (r *eventReader) needs(e *event, mask uint) {
	r.require(r.have&mask == mask, missingMember)
	r.require(e.id != nil || r.have&(1<<mEventID) != 0, missingMember)
}

func (r *eventReader) currency(e *event) (ok bool) {
	if r.texts[mCurrency] == nil {
		return false
	}
	e.currency, e.digits, ok = parseCurrency(r.texts[mCurrency])
	r.require(ok, badCurrency)
	return ok
}
