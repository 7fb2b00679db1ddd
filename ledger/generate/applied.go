package generate

import (
	"math/big"
	"strconv"
)

// applied makes an event that no rule is against, for some account.
func (g *Generator) applied() Record {
	a := &g.accounts[g.rng.IntN(len(g.accounts))]
	draw := g.rng.IntN(100)
	switch {
	case a.status == "" && draw < 25:
		return g.open(a, -1000*int64(g.rng.IntN(3)))
	case a.status == "frozen" && draw < 50:
		return g.open(a, -1000*int64(g.rng.IntN(3)))
	case a.status == "open" && draw == 0:
		return g.move(a, "frozen")
	case a.status == "open" && draw < 40 && a.available() > 0:
		return g.debit(a)
	}
	return g.credit(a, 1+g.rng.Int64N(1_000_000))
}

func (g *Generator) credit(a *account, units int64) Record {
	a.post(units)
	return g.posting(a, "credit", units)
}

func (g *Generator) debit(a *account) Record {
	units := 1 + g.rng.Int64N(min(a.available(), 1_000_000))
	a.post(-units)
	return g.posting(a, "debit", units)
}

func (g *Generator) posting(a *account, typ string, units int64) Record {
	e := g.event(a, typ)
	e.amount, e.currency = decimal(strconv.FormatInt(units, 10), a.digits), a.currency
	g.remember(e)
	return g.record(e, applied)
}

// open opens an account, or an open or frozen one again, with a minimum in minor units that its balance keeps.
func (g *Generator) open(a *account, minimum int64) Record {
	if a.balance.Sign() < 0 {
		minimum = -2000 // the lowest ever given
	}
	a.status = "open"
	a.minimum.SetInt64(minimum)
	e := g.event(a, "account")
	e.to, e.currency = "open", a.currency
	if minimum != 0 || g.rng.IntN(2) == 0 {
		e.minimum = a.text(big.NewInt(minimum))
	}
	g.remember(e)
	return g.record(e, applied)
}

func (g *Generator) move(a *account, to string) Record {
	a.status = to
	e := g.event(a, "account")
	e.to = to
	g.remember(e)
	return g.record(e, applied)
}
