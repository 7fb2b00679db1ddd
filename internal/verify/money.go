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
	posted []posting
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

// posting is an applied event: 24 bytes, sortable, so that many can be sorted on disk.
type posting struct {
	id    identity
	place uint64
}

const offsetBits = 44

func newPosting(id identity, partition int32, offset int64) posting {
	return posting{id, uint64(partition)<<offsetBits | uint64(offset)}
}

func (p posting) partition() int32 { return int32(p.place >> offsetBits) }
func (p posting) offset() int64    { return int64(p.place & (1<<offsetBits - 1)) }

func (b *books) add(p *partitionReport) {
	b.posted = append(b.posted, p.posted...)
	p.posted = nil
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
		if !complete || due.Cmp(balances) == 0 {
			continue
		}
		r.add(Violation{Money, -1, fmt.Sprintf("%s: the balances sum to %s, but credits %s less debits %s are %s: off by %s", c,
			s.Balances, s.Credits, s.Debits, decimal(due, digits), decimal(new(big.Int).Sub(balances, due), digits)), nil})
	}
}

// doubles finds ids that were applied in more than one partition (L2).
func (b *books) doubles(ctx context.Context, h history, input string, r *Report) error {
	slices.SortFunc(b.posted, func(x, y posting) int {
		return cmp.Or(slices.Compare(x.id[:], y.id[:]), cmp.Compare(x.place, y.place))
	})
	for i := 1; i < len(b.posted); i++ {
		x, y := b.posted[i-1], b.posted[i]
		if x.id != y.id || x.partition() == y.partition() {
			continue
		}
		if r.Counts[DoubleCredit] >= MaxShown {
			r.Counts[DoubleCredit]++
			continue
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
	}
	return nil
}
