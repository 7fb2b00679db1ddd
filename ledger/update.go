package ledger

import "github.com/tallystick/tallystick/ledger/money"

// Position names a record of a topic, by its own offset (not the next one).
type Position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Update says what one event did to its account: the record of ledger-updates. Updates are a function of the inputs alone.
type Update struct {
	EventID     string         `json:"event_id"`
	EventSource string         `json:"event_source,omitzero"` // of a CloudEvent
	AccountID   string         `json:"account_id"`
	Type        Type           `json:"type"`
	Outcome     Outcome        `json:"outcome"` // Applied or Rejected
	Reason      Reason         `json:"reason,omitzero"`
	Amount      money.Amount   `json:"amount,omitzero"`   // of a posting, as given; Type says its sign
	Currency    money.Currency `json:"currency,omitzero"` // the event's; the account's where the event has none
	Balance     money.Amount   `json:"balance"`           // after the event
	Held        money.Amount   `json:"held"`
	Minimum     money.Amount   `json:"minimum,omitzero"` // control events only, as Status
	Status      Status         `json:"status,omitzero"`
	Version     int64          `json:"version"`
	RedriveOf   Position       `json:"redrive_of,omitzero"` // the record that a redriven one repeats
	Source      Position       `json:"source"`              // the event's record
}

// Skipped says that an event was delivered before: the record of ledger-skipped.
type Skipped struct {
	EventID   string   `json:"event_id"`
	AccountID string   `json:"account_id"`
	Reason    Reason   `json:"reason"`
	First     Position `json:"first"`  // the record that was decided
	Source    Position `json:"source"` // the record that was skipped
}

// Applied reports whether the event changed the account.
func (u *Update) Applied() bool { return u.Outcome == Applied }

// refused describes an account that an event left as it was. One that does not exist has balance zero in the event's
// currency, or "0" where the event names none.
func refused(a *Account, e *Event, reason Reason) Update {
	if a.Exists() || e.Currency == "" {
		return describe(a, e, Rejected, reason)
	}
	none := Account{Balance: money.Zero(e.Currency), Held: money.Zero(e.Currency)}
	return describe(&none, e, Rejected, reason)
}

func describe(a *Account, e *Event, outcome Outcome, reason Reason) Update {
	u := Update{
		EventID: e.EventID, EventSource: e.Source, AccountID: e.AccountID, Type: e.Type, Outcome: outcome, Reason: reason,
		Amount: e.Amount, Currency: e.Currency, Balance: a.Balance, Held: a.Held, Version: a.Version,
	}
	if e.Currency == "" {
		u.Currency = a.Currency
	}
	if e.Type == Control {
		u.Minimum, u.Status = a.Minimum, a.Status
	}
	return u
}
