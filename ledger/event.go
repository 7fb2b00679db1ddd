package ledger

import (
	"time"

	"github.com/tallystick/tallystick/ledger/money"
)

// Type says what an event does.
type Type string

// The types of events.
const (
	Credit  Type = "credit"  // adds money
	Debit   Type = "debit"   // takes money
	Control Type = "account" // opens, freezes or closes an account
)

// Status is the status of an account; the zero value is that of an account that does not exist.
type Status string

// The statuses, which are also where a Control event moves an account to.
const (
	Open   Status = "open"
	Frozen Status = "frozen"
	Closed Status = "closed"
)

// Event is one well-formed instruction for one account. Which fields are set depends on Type; the others are zero.
type Event struct {
	EventID    string
	Source     string // CloudEvents source; "" for an event that is not a CloudEvent
	Type       Type
	AccountID  string
	Amount     money.Amount   // Credit, Debit; any sign: the rules refuse what is not above zero
	Currency   money.Currency // Credit, Debit, and Control to Open
	OccurredAt time.Time
	To         Status       // Control
	Minimum    money.Amount // Control to Open; the currency's zero when the event does not say
}

// identitySeparator stands between source and id: a control character, which no id may contain.
const identitySeparator = "\x1f"

// Identity returns what makes the event the same event again: its id, and its source where it has one. It allocates for a
// CloudEvent only.
func (e *Event) Identity() string {
	if e.Source == "" {
		return e.EventID
	}
	return e.Source + identitySeparator + e.EventID
}

// Content is what an event says, without its identity: two events of one identity and equal content are one event delivered
// twice. Compare it with ==. It is typed, so that spelling does not matter: 5.0 and 5.00, one instant in two zones.
type Content struct {
	Type       Type
	AccountID  string
	Amount     money.Amount
	Currency   money.Currency
	OccurredAt time.Time // UTC
	To         Status
	Minimum    money.Amount
}

// Content returns what the event says.
func (e *Event) Content() Content {
	return Content{e.Type, e.AccountID, e.Amount, e.Currency, e.OccurredAt.UTC(), e.To, e.Minimum}
}
