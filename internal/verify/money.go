package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// books sums over all partitions what one partition cannot see.
type books struct {
	sums   map[currency]*tally
	posted *postings
	told   map[currency]bool // of rounds: those whose sums were found wrong
	drifts map[currency][]Evidence
}

func newBooks(posted *postings, told map[currency]bool) books {
	return books{sums: map[currency]*tally{}, posted: posted, told: told, drifts: map[currency][]Evidence{}}
}

// tally sums one currency.
type tally struct{ credits, debits, balances total }

// total is a sum of amounts without a range: a part that fits, and the rest in ten-thousandths.
type total struct {
	low  amount
	high big.Int
}

// enough leaves room for one more amount.
const enough = 1 << 62

func (t *total) add(a amount) {
	t.low = t.low.add(a)
	if t.low.units > enough || t.low.units < -enough {
		t.high.Add(&t.high, t.low.big())
		t.low = amount{}
	}
}

func (t *total) value() *big.Int { return new(big.Int).Add(&t.high, t.low.big()) }

func (t *total) merge(other *total) { t.high.Add(&t.high, other.value()) }

func (b *books) add(p *partitionReport) {
	for c, ev := range p.drifts {
		if have := b.drifts[c]; len(have) < MaxShown {
			b.drifts[c] = append(have, ev...)
		}
	}
	for c, t := range p.sums {
		sum := b.sums[c]
		if sum == nil {
			sum = &tally{}
			b.sums[c] = sum
		}
		sum.credits.merge(&t.credits)
		sum.debits.merge(&t.debits)
		sum.balances.merge(&t.balances)
	}
}

// reconcile states the sums and, when they are complete, checks L3: per currency, the balances are what was credited less what
// was debited.
func (b *books) reconcile(r *Report, complete bool) {
	for _, c := range slices.SortedFunc(maps.Keys(b.sums), func(x, y currency) int { return cmp.Compare(x.String(), y.String()) }) {
		t := b.sums[c]
		digits := c.digits()
		credits, debits, balances := t.credits.value(), t.debits.value(), t.balances.value()
		s := Sum{decimal(credits, digits), decimal(debits, digits), decimal(balances, digits)}
		r.Sums[c.String()] = s
		due := new(big.Int).Sub(credits, debits)
		if !complete || b.told[c] || due.Cmp(balances) == 0 {
			continue
		}
		b.told[c] = true
		r.add(Violation{Money, -1, fmt.Sprintf("%s: the balances sum to %s, but credits %s less debits %s are %s: off by %s", c,
			s.Balances, s.Credits, s.Debits, decimal(due, digits), decimal(new(big.Int).Sub(balances, due), digits)), b.drifts[c]})
	}
}

// doubles finds ids that were applied in more than one partition (L2), and counts those that were applied again.
func (b *books) doubles(ctx context.Context, h history, input string, r *Report) error {
	var x posting
	first := true
	return b.posted.each(func(y posting) (err error) {
		switch {
		case first || x.id != y.id:
		case x.partition() != y.partition():
			err = doubled(ctx, h, input, r, x, y)
		case y.fresh():
			r.AppliedAgain++
		}
		x, first = y, false
		return err
	})
}

// doubled reports two postings of one id.
func doubled(ctx context.Context, h history, input string, r *Report, x, y posting) error {
	if r.Counts[DoubleCredit] >= MaxShown {
		r.Counts[DoubleCredit]++
		return nil
	}
	v := Violation{DoubleCredit, -1, fmt.Sprintf("%s/%d/%d and %s/%d/%d have one id, and both were applied", input,
		x.partition(), x.offset(), input, y.partition(), y.offset()), nil}
	for _, p := range [...]posting{x, y} {
		rec, err := h.lookup(ctx, input, p.partition(), p.offset())
		if err != nil {
			return err
		}
		v.Evidence = append(v.Evidence, present("input", rec)...)
	}
	r.add(v)
	return nil
}
