package generate

import (
	"math/big"
	"strconv"

	"github.com/tallystick/tallystick/ledger"
)

// refusals are taken in turn, so that each occurs in a workload of any size. One that returns false cannot be made yet.
var refusals = [...]func(*Generator) (Record, bool){
	(*Generator).zeroAmount,
	(*Generator).negativeAmount,
	(*Generator).unknownDebit,
	(*Generator).unknownFreeze,
	(*Generator).insufficientFunds,
	(*Generator).currencyMismatch,
	(*Generator).accountExists,
	(*Generator).closeNotEmpty,
	(*Generator).frozenDebit,
	(*Generator).closedCredit,
	(*Generator).closedOpen,
	(*Generator).overflow,
}

// largest is the largest amount that any currency has, in whole units.
const largest = "99999999999999999"

func (g *Generator) refused() Record {
	kind := refusals[g.refusal%len(refusals)]
	g.refusal++
	r, ok := kind(g)
	if !ok {
		return g.applied()
	}
	return r
}

// refuse writes an event that leaves its account as it is. The inbox remembers it like any other.
func (g *Generator) refuse(e event, why ledger.Reason) (Record, bool) {
	g.remember(e)
	return g.record(e, Class{ledger.Rejected, why}), true
}

func (g *Generator) anyAccount() *account { return &g.accounts[g.rng.IntN(len(g.accounts))] }

// existing looks for an account that suits, for a few draws.
func (g *Generator) existing(suits func(*account) bool) (*account, bool) {
	for range 16 {
		if a := g.anyAccount(); a.status != "" && suits(a) {
			return a, true
		}
	}
	return nil, false
}

func (g *Generator) priced(a *account, typ, amount string) event {
	e := g.event(a, typ)
	e.amount, e.currency = amount, a.currency
	return e
}

func (g *Generator) zeroAmount() (Record, bool) {
	a := g.anyAccount()
	return g.refuse(g.priced(a, "credit", decimal("0", a.digits)), ledger.AmountNotPositive)
}

func (g *Generator) negativeAmount() (Record, bool) {
	a := g.anyAccount()
	return g.refuse(g.priced(a, "credit", decimal(strconv.Itoa(-1-g.rng.IntN(1000)), a.digits)), ledger.AmountNotPositive)
}

// unknown is an account that nothing ever opens.
func (g *Generator) unknown() account {
	return newAccount("NEW-"+strconv.Itoa(g.made), g.made)
}

func (g *Generator) unknownDebit() (Record, bool) {
	a := g.unknown()
	return g.refuse(g.priced(&a, "debit", "1"), ledger.UnknownAccount)
}

func (g *Generator) unknownFreeze() (Record, bool) {
	a := g.unknown()
	e := g.event(&a, "account")
	e.to = "frozen"
	return g.refuse(e, ledger.UnknownAccount)
}

func (g *Generator) insufficientFunds() (Record, bool) {
	a, ok := g.existing(func(a *account) bool { return a.status == "open" && a.available() < 1<<62 })
	if !ok {
		return Record{}, false
	}
	one := big.NewInt(a.available() + 1)
	return g.refuse(g.priced(a, "debit", a.text(one)), ledger.InsufficientFunds)
}

// other returns a currency that an account has not, with as many digits or more.
func (a *account) other() string {
	if a.currency == "CLF" {
		return "UYW"
	}
	return "CLF"
}

func (g *Generator) currencyMismatch() (Record, bool) {
	a, ok := g.existing(func(a *account) bool { return a.status == "open" })
	if !ok {
		return Record{}, false
	}
	e := g.priced(a, "credit", "5")
	e.currency = a.other()
	return g.refuse(e, ledger.CurrencyMismatch)
}

func (g *Generator) accountExists() (Record, bool) {
	a, ok := g.existing(func(*account) bool { return true })
	if !ok {
		return Record{}, false
	}
	e := g.event(a, "account")
	e.to, e.currency = "open", a.other()
	return g.refuse(e, ledger.AccountExists)
}

func (g *Generator) closeNotEmpty() (Record, bool) {
	a, ok := g.existing(func(a *account) bool { return a.balance.Sign() != 0 })
	if !ok {
		return Record{}, false
	}
	e := g.event(a, "account")
	e.to = "closed"
	return g.refuse(e, ledger.CloseNotEmpty)
}

// frozenDebit, closedCredit, closedOpen and overflow first bring their account into the state that they need.
func (g *Generator) frozenDebit() (Record, bool) {
	a := &g.special[frozenAccount]
	switch a.status {
	case "":
		return g.credit(a, 1_000_000), true
	case "open":
		return g.move(a, "frozen"), true
	}
	return g.refuse(g.priced(a, "debit", "1"), ledger.AccountFrozen)
}

func (g *Generator) closed() (a *account, step Record, ready bool) {
	a = &g.special[closedAccount]
	switch a.status {
	case "":
		return a, g.open(a, 0), false
	case "open":
		return a, g.move(a, "closed"), false
	}
	return a, Record{}, true
}

func (g *Generator) closedCredit() (Record, bool) {
	a, step, ready := g.closed()
	if !ready {
		return step, true
	}
	return g.refuse(g.priced(a, "credit", "1"), ledger.AccountClosed)
}

func (g *Generator) closedOpen() (Record, bool) {
	a, step, ready := g.closed()
	if !ready {
		return step, true
	}
	e := g.event(a, "account")
	e.to, e.currency = "open", a.currency
	return g.refuse(e, ledger.AccountClosed)
}

func (g *Generator) overflow() (Record, bool) {
	a := &g.special[fullAccount] // in JPY: the largest amount in whole units is the largest of all
	if a.status == "" {
		a.balance.SetString(largest, 10)
		a.status, a.version = "open", 1
		e := g.priced(a, "credit", largest)
		g.remember(e)
		return g.record(e, applied), true
	}
	return g.refuse(g.priced(a, "credit", "1"), ledger.Overflow)
}
