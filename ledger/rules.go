package ledger

// Rules are the choices that a ledger leaves to its configuration. The zero value refuses credits to unknown accounts.
type Rules struct {
	AutoCreate bool // the first credit opens an unknown account
}

// Apply decides one event. It never fails: a refusal is an outcome. The account returned is to be stored if the update is
// applied; otherwise it is the one given. The update lacks Source and RedriveOf, which the caller knows. It does not
// allocate.
func (r Rules) Apply(before Account, e *Event) (Account, Update) {
	for _, c := range checks {
		if c.on&kindOf(e) != 0 && r.violates(c.reason, &before, e) {
			return before, refused(&before, e, c.reason)
		}
	}
	after := before
	if !after.Exists() {
		after = opened(e.Currency)
	}
	if e.Type == Control {
		after.control(e)
	} else {
		after.post(e)
		after.assertPosted(&before, e)
	}
	return after, describe(&after, e, Applied, "")
}

func (a *Account) control(e *Event) {
	a.Status = e.To
	if e.To == Open {
		a.Minimum = e.Minimum
	}
}

// post moves the balance. The checks have excluded a sum out of range.
func (a *Account) post(e *Event) {
	if e.Type == Debit {
		a.Balance, _ = a.Balance.Sub(e.Amount)
	} else {
		a.Balance, _ = a.Balance.Add(e.Amount)
	}
	a.Version++
}

// kind is a set of what events do.
type kind uint8

const (
	credits kind = 1 << iota
	debits
	opens
	freezes
	closes
	postings = credits | debits
	all      = postings | opens | freezes | closes
)

func kindOf(e *Event) kind {
	switch {
	case e.Type == Credit:
		return credits
	case e.Type == Debit:
		return debits
	case e.To == Open:
		return opens
	case e.To == Frozen:
		return freezes
	}
	return closes
}

// checks is the order in which the rules are asked; the first one violated names the reason. The order is part of the
// ledger's promise: it decides what a client is told.
var checks = [...]struct {
	reason Reason
	on     kind
}{
	{AmountNotPositive, postings},
	{UnknownAccount, credits | debits | freezes | closes},
	{AccountClosed, all},
	{AccountFrozen, debits},
	{AccountExists, opens},
	{CurrencyMismatch, postings},
	{CloseNotEmpty, closes},
	{InsufficientFunds, debits},
	{Overflow, credits},
}

// violates is a switch and not a column of functions, so that nothing escapes to the heap.
func (r Rules) violates(reason Reason, a *Account, e *Event) bool {
	switch reason {
	case AmountNotPositive:
		return e.Amount.Sign() <= 0
	case UnknownAccount:
		return !a.Exists() && !(e.Type == Credit && r.AutoCreate)
	case AccountClosed:
		return a.Status == Closed
	case AccountFrozen:
		return a.Status == Frozen
	case AccountExists, CurrencyMismatch:
		return a.Exists() && a.Currency != e.Currency
	case CloseNotEmpty:
		return a.Balance.Sign() != 0 || a.Held.Sign() != 0
	case InsufficientFunds:
		return a.shortOf(e.Amount)
	case Overflow:
		_, err := a.Balance.Add(e.Amount)
		return err != nil
	}
	panic("ledger: check without a rule: " + string(reason))
}
