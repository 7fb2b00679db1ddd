package ledger

import (
	"fmt"

	"github.com/tallystick/tallystick/ledger/money"
)

// Account is the state of one account. The zero value is an account that does not exist.
type Account struct {
	Currency money.Currency `json:"currency"`
	Balance  money.Amount   `json:"balance"` // posted money
	Held     money.Amount   `json:"held"`    // sum of open holds
	Minimum  money.Amount   `json:"minimum"` // what a debit must leave available
	Status   Status         `json:"status"`
	Version  int64          `json:"version"` // number of applied postings
}

// Exists reports whether the account was ever opened.
func (a *Account) Exists() bool { return a.Status != "" }

func opened(c money.Currency) Account {
	zero := money.Zero(c)
	return Account{Currency: c, Balance: zero, Held: zero, Minimum: zero, Status: Open}
}

// Check returns what is impossible about an account that exists, as one read from a store: a rule of its own kept it out when
// it was written.
func (a *Account) Check() error {
	digits := a.Currency.Digits()
	switch {
	case a.Status != Open && a.Status != Frozen && a.Status != Closed:
		return fmt.Errorf("account has status %q", a.Status)
	case !a.known():
		return fmt.Errorf("account has currency %q", a.Currency)
	case !hasDigits(a.Balance, digits) || !hasDigits(a.Held, digits) || !hasDigits(a.Minimum, digits):
		return fmt.Errorf("account in %s lacks an amount, or one of %s, %s, %s has other than %d digits", a.Currency, a.Balance, a.Held, a.Minimum, digits)
	case a.Version < 0:
		return fmt.Errorf("account has version %d", a.Version)
	case a.Held.Sign() < 0:
		return fmt.Errorf("L3b: account holds %s", a.Held)
	}
	return nil
}

func hasDigits(a money.Amount, digits int) bool { return a != (money.Amount{}) && a.Digits() == digits }

func (a *Account) known() bool {
	_, err := money.ParseCurrency(a.Currency)
	return err == nil
}

// assertPosted panics unless the step from before to a is one that L1 and L3b allow.
func (a *Account) assertPosted(before *Account, e *Event) {
	step, err := a.Balance.Sub(before.Balance)
	signed := e.Amount
	if e.Type == Debit {
		signed = e.Amount.Neg()
	}
	// A step may be wider than the range of amounts: from -max to max.
	if err == nil && step.Cmp(signed) != 0 || a.Version != before.Version+1 {
		panic(fmt.Sprintf("L1: version %d with %s became version %d with %s by %s %s", before.Version, before.Balance, a.Version, a.Balance, e.Type, e.Amount))
	}
	if a.Held.Sign() < 0 || e.Type == Debit && a.shortOf(money.Amount{}) {
		panic(fmt.Sprintf("L3b: held %s, balance %s, minimum %s after %s %s", a.Held, a.Balance, a.Minimum, e.Type, e.Amount))
	}
}

// shortOf reports whether taking amount would leave less than the minimum available. Every minimum is in range, so a
// difference below the range is below the minimum.
func (a *Account) shortOf(amount money.Amount) bool {
	available, err := a.Balance.Sub(a.Held)
	if err != nil {
		return true
	}
	left, err := available.Sub(amount)
	return err != nil || left.Cmp(a.Minimum) < 0
}
