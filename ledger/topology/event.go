package topology

import (
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/money"
	"github.com/tallystick/tallystick/record"
)

// EventCodec reads and writes the values of credit-events. Decode returns a [record.MalformedError] whose reason is one of
// [ledger.Reason]; it leaves EventID empty when the value has none, because a CloudEvent has it in its headers. Append writes
// the instant in UTC and no source, which is a header's.
var EventCodec record.Codec[ledger.Event] = eventCodec{}

type eventCodec struct{}

func (eventCodec) ID() string { return "json" }

func (eventCodec) Decode(src []byte) (ledger.Event, error) {
	switch {
	case src == nil:
		return ledger.Event{}, malformed(ledger.NullValue, "the value is null: the ledger has no deletions")
	case len(src) == 0:
		return ledger.Event{}, malformed(ledger.EmptyValue, "the value is empty")
	}
	var m members
	if m.readPlain(src) {
		return m.event(nil)
	}
	return decodeStrict(src)
}

// decodeStrict is Decode by the library alone.
func decodeStrict(src []byte) (ledger.Event, error) {
	var m members
	first, broken := m.read(src)
	if broken != nil {
		return ledger.Event{}, broken
	}
	return m.event(first)
}

// event judges the members by their type. first is the first member that is wrong whatever the type.
func (m *members) event(first error) (e ledger.Event, err error) {
	if e.Type, err = m.eventType(); err != nil {
		return ledger.Event{}, err
	}
	if first != nil {
		return ledger.Event{}, first
	}
	if e.Type == ledger.Control {
		err = m.control(&e)
	} else {
		err = m.posting(&e)
	}
	if err != nil {
		return ledger.Event{}, err
	}
	return e, nil
}

func (m *members) eventType() (ledger.Type, error) {
	if m[typ] == nil {
		return ledger.Credit, nil
	}
	switch string(m[typ]) {
	case "credit":
		return ledger.Credit, nil
	case "debit":
		return ledger.Debit, nil
	case "account":
		return ledger.Control, nil
	case "payment", "settlement", "order":
		return "", malformed(ledger.UnsupportedType, "type %q comes with a later version: this one has credit, debit and account", m[typ])
	}
	return "", malformed(ledger.UnknownType, "type %.40q: use credit, debit or account", m[typ])
}

func (m *members) posting(e *ledger.Event) error {
	if err := m.only("a credit or debit", 1<<eventID|1<<typ|1<<accountID|1<<amount|1<<currency|1<<occurredAt); err != nil {
		return err
	}
	if err := m.require(accountID, amount, currency, occurredAt); err != nil {
		return err
	}
	if err := m.ids(e); err != nil {
		return err
	}
	var err error
	if e.Currency, err = m.currency(); err != nil {
		return err
	}
	if e.Amount, err = m.amount(amount, e.Currency); err != nil {
		return err
	}
	return m.time(e)
}

func (m *members) control(e *ledger.Event) (err error) {
	if err := m.only("an account event", moving|1<<currency|1<<minimum); err != nil {
		return err
	}
	if err := m.require(accountID, occurredAt, to); err != nil {
		return err
	}
	if e.To, err = m.transition(); err != nil {
		return err
	}
	if err := m.ids(e); err != nil {
		return err
	}
	if e.To == ledger.Open {
		if err := m.terms(e); err != nil {
			return err
		}
	}
	return m.time(e)
}

// transition reads where an account event moves its account to, and refuses members that only an opening has.
func (m *members) transition() (ledger.Status, error) {
	switch string(m[to]) {
	case "open":
		return ledger.Open, m.require(currency)
	case "frozen":
		return ledger.Frozen, m.only("an account event that opens nothing", moving)
	case "closed":
		return ledger.Closed, m.only("an account event that opens nothing", moving)
	}
	return "", malformed(ledger.BadTransition, "to %.40q: use open, frozen or closed", m[to])
}

// terms reads what an opening says about the account.
func (m *members) terms(e *ledger.Event) (err error) {
	if e.Currency, err = m.currency(); err != nil {
		return err
	}
	if m[minimum] == nil {
		e.Minimum = money.Zero(e.Currency)
		return nil
	}
	e.Minimum, err = m.amount(minimum, e.Currency)
	return err
}

// moving are the members of an account event that opens nothing.
const moving uint = 1<<eventID | 1<<typ | 1<<accountID | 1<<occurredAt | 1<<to

// only refuses members beside the allowed ones, a set of bits.
func (m *members) only(what string, allowed uint) error {
	for i := range m {
		if m[i] != nil && allowed&(1<<i) == 0 {
			return malformed(ledger.UnknownName, "member %q: %s has no such member", memberName(i), what)
		}
	}
	return nil
}

func (m *members) require(needed ...int) error {
	for _, i := range needed {
		if m[i] == nil {
			return malformed(ledger.MissingMember, "member %q is missing", memberName(i))
		}
	}
	return nil
}

func (m *members) ids(e *ledger.Event) error {
	e.EventID, e.AccountID = string(m[eventID]), string(m[accountID])
	if m[eventID] != nil {
		if err := ledger.CheckID(e.EventID); err != nil {
			return malformedBy(ledger.BadID, fmt.Errorf("event_id: %w", err))
		}
	}
	if err := ledger.CheckID(e.AccountID); err != nil {
		return malformedBy(ledger.BadID, fmt.Errorf("account_id: %w", err))
	}
	return nil
}

func (m *members) currency() (money.Currency, error) {
	c, err := money.ParseCurrency(m[currency])
	if err != nil {
		return "", malformedBy(ledger.BadCurrency, err)
	}
	return c, nil
}

func (m *members) amount(i int, c money.Currency) (money.Amount, error) {
	a, err := money.Parse(m[i], c)
	if err != nil {
		return a, malformedBy(amountReason(err), fmt.Errorf("%s: %w", memberName(i), err))
	}
	return a, nil
}

func amountReason(err error) ledger.Reason {
	switch {
	case errors.Is(err, money.ErrDigits):
		return ledger.AmountDigits
	case errors.Is(err, money.ErrRange):
		return ledger.AmountRange
	case errors.Is(err, money.ErrNegativeZero):
		return ledger.NegativeZero
	}
	return ledger.AmountSyntax
}

func (m *members) time(e *ledger.Event) (err error) {
	if e.OccurredAt, err = parseTime(m[occurredAt]); err != nil {
		return malformedBy(ledger.BadTime, fmt.Errorf("occurred_at %.40q: %w", m[occurredAt], err))
	}
	return nil
}
