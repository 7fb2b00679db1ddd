package verify

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// drift is what an account has beside what its inputs posted: the evidence for money.
type drift struct {
	by       amount
	currency currency
	records  []Evidence // of the first input that it comes from, and of that one's outcome
}

// maxDrifts bounds the accounts of a partition that are followed so, shownDrifts those that are evidence for a currency.
const (
	maxDrifts   = 1000
	shownDrifts = 3
)

// drift adds to an account's drift. What a later update puts right cancels out.
func (a *audit) drift(id []byte, c currency, by amount, records func() []Evidence) {
	if by.isZero() {
		return
	}
	d := a.drifts[string(id)]
	if d == nil && len(a.drifts) < maxDrifts {
		d = &drift{currency: c, records: records()}
		a.drifts[string(id)] = d
	}
	if d != nil {
		d.by = d.by.add(by)
	}
}

// drifted compares what an input did to its account with what it had to post.
func (a *audit) drifted(in *kgo.Record, x *expected, before amount) {
	by := a.balanceOf(x).sub(before)
	if x.posts() && !x.future && !x.withheld {
		by = by.sub(x.event.signed())
	}
	a.drift(x.event.account, x.event.currency, by, func() []Evidence {
		ev := present("input", in)
		for i := range a.found {
			ev = append(ev, evidence("outcome", a.found[i].rec))
		}
		return ev
	})
}

// balanceOf is the balance of an event's account as the outcomes so far tell.
func (a *audit) balanceOf(x *expected) amount {
	if acc := a.accounts[string(x.event.account)]; acc != nil {
		return acc.balance
	}
	return amount{}
}

// lasting returns the records behind the drifts that nothing put right, by currency, a few of each.
func (a *audit) lasting() map[currency][]Evidence {
	found, n := map[currency][]Evidence{}, map[currency]int{}
	for _, id := range slices.SortedFunc(maps.Keys(a.drifts), cmp.Compare) {
		if d := a.drifts[id]; !d.by.isZero() && n[d.currency] < shownDrifts {
			found[d.currency] = append(found[d.currency], d.records...)
			n[d.currency]++
		}
	}
	return found
}
