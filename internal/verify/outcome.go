package verify

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lane is one of the three topics that carry outcomes.
type lane uint8

const (
	updates lane = iota
	skipped
	letters
	laneCount
)

// position names a record by its own offset, as outcomes do.
type position struct {
	topic     string
	partition int32
	offset    int64
}

func (p position) String() string { return fmt.Sprintf("%s/%d/%d", p.topic, p.partition, p.offset) }

// outcome is one decoded record of a lane. Its texts alias the record.
type outcome struct {
	rec    *kgo.Record
	lane   lane
	source position
	fault  string // why it is no outcome at all; nothing else is valid then
	first  position
	update update
	letter letter
	id     []byte // updates and skipped notes
	eventSource,
	account []byte
}

// update holds the members that only updates have.
type update struct {
	kind                   kind
	applied                bool
	reason                 reason
	currency               currency
	amount                 written
	balance, held, minimum written
	status                 status
	version                int64
	redriveOf              position
	have                   uint // bits of the members that are there, as updateMember counts them
}

// The members of updates and skipped notes.
const (
	uEventID = iota
	uEventSource
	uAccountID
	uType
	uOutcome
	uReason
	uAmount
	uCurrency
	uBalance
	uHeld
	uMinimum
	uStatus
	uVersion
	uRedriveOf
	uSource
	uFirst
)

const (
	updateMembers  = 1<<uFirst - 1
	updateNeeds    = 1<<uAccountID | 1<<uEventID | 1<<uType | 1<<uOutcome | 1<<uBalance | 1<<uHeld | 1<<uVersion | 1<<uSource
	skippedMembers = 1<<uEventID | 1<<uAccountID | 1<<uReason | 1<<uFirst | 1<<uSource
)

func (u *update) has(m int) bool { return u.have&(1<<m) != 0 }

func updateMember(name []byte) int {
	switch string(name) {
	case "event_id":
		return uEventID
	case "event_source":
		return uEventSource
	case "account_id":
		return uAccountID
	case "type":
		return uType
	case "outcome":
		return uOutcome
	case "reason":
		return uReason
	case "amount":
		return uAmount
	case "currency":
		return uCurrency
	case "balance":
		return uBalance
	case "held":
		return uHeld
	case "minimum":
		return uMinimum
	case "status":
		return uStatus
	case "version":
		return uVersion
	case "redrive_of":
		return uRedriveOf
	case "source":
		return uSource
	case "first":
		return uFirst
	}
	return -1
}

// outcomeReader decodes outcomes. It is owned by one goroutine and reused.
type outcomeReader struct {
	scan, nested scanner
	topic        string // the last one read: positions repeat it
}

// read decodes a record of a lane. It never fails: a record that cannot be read has a fault.
func (r *outcomeReader) read(l lane, rec *kgo.Record) outcome {
	o := outcome{rec: rec, lane: l}
	switch l {
	case updates:
		o.fault = r.object(&o, updateMembers, updateNeeds)
	case skipped:
		o.fault = r.object(&o, skippedMembers, skippedMembers)
	case letters:
		o.fault = readLetter(&o)
	}
	return o
}

// object reads the members; an error text says which one is wrong.
func (r *outcomeReader) object(o *outcome, allowed, needed uint) string {
	if rec := o.rec; len(rec.Value) == 0 || r.scan.open(rec.Value) != '{' {
		return "its value is no JSON object"
	}
	err := r.scan.enter()
	for err == nil {
		var m member
		var ok bool
		if m, ok, err = r.scan.next(); !ok {
			break
		}
		name, _ := text(m.name)
		i := updateMember(name)
		if i < 0 || allowed&(1<<i) == 0 || o.update.has(i) {
			return fmt.Sprintf("it has no place for a member %s", m.name)
		}
		o.update.have |= 1 << i
		if !r.member(o, i, m.value) {
			return fmt.Sprintf("its member %s is %s", m.name, clip(m.value))
		}
	}
	if err != nil || !r.scan.atEnd() {
		return "its value is no JSON object"
	}
	if o.update.have&needed != needed {
		return "it lacks a member"
	}
	return ""
}

// member stores one value; false when it is not of the kind that the member has.
func (r *outcomeReader) member(o *outcome, i int, raw []byte) (ok bool) {
	u := &o.update
	switch i {
	case uVersion:
		u.version, ok = parseInt(raw)
		return ok && u.version >= 0
	case uRedriveOf:
		u.redriveOf, ok = r.position(raw)
		return ok
	case uSource:
		o.source, ok = r.position(raw)
		return ok
	case uFirst:
		o.first, ok = r.position(raw)
		return ok
	}
	content, ok := text(raw)
	return ok && u.text(o, i, content)
}

func (u *update) text(o *outcome, i int, content []byte) (ok bool) {
	switch i {
	case uEventID:
		o.id = content
	case uEventSource:
		o.eventSource = content
	case uAccountID:
		o.account = content
	case uType:
		u.kind = parseKind(content)
		return u.kind != noKind
	case uOutcome:
		u.applied = string(content) == "applied"
		return u.applied || string(content) == "rejected"
	case uReason:
		if o.lane == skipped {
			return string(content) == "duplicate"
		}
		u.reason, ok = parseReason(content)
		return ok
	case uCurrency:
		u.currency, _, ok = parseCurrency(content)
		return ok
	case uStatus:
		u.status = parseStatus(content)
		return u.status != noStatus
	default:
		w, bad := parseAmount(content, maxFrac)
		*u.amountOf(i) = w
		return bad == 0
	}
	return true
}

func (u *update) amountOf(i int) *written {
	switch i {
	case uAmount:
		return &u.amount
	case uBalance:
		return &u.balance
	case uHeld:
		return &u.held
	}
	return &u.minimum
}

// parseInt reads a JSON number without point and exponent.
func parseInt(raw []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

func clip(b []byte) string {
	const limit = 80
	if len(b) > limit {
		return fmt.Sprintf("%q…", b[:limit])
	}
	return fmt.Sprintf("%q", b)
}
