package verify

import (
	"math/big"
	"strconv"
)

const (
	scale     = 10_000 // amounts are kept in ten-thousandths, the finest that a currency has
	maxWhole  = 17     // digits before the point
	maxFrac   = 4      // digits after it
	limitUnit = 99_999_999_999_999_999
	limitFrac = 9_900
)

// amount is exact money: units + frac/scale, with 0 <= frac < scale. Negative amounts have negative units, so the pair
// compares by units first. A sum of two amounts in range cannot overflow units.
type amount struct {
	units int64
	frac  int32
}

func (a amount) add(b amount) amount {
	s := amount{a.units + b.units, a.frac + b.frac}
	if s.frac >= scale {
		s.units, s.frac = s.units+1, s.frac-scale
	}
	return s
}

func (a amount) neg() amount {
	if a.frac == 0 {
		return amount{-a.units, 0}
	}
	return amount{-a.units - 1, scale - a.frac}
}

func (a amount) sub(b amount) amount { return a.add(b.neg()) }

func (a amount) less(b amount) bool {
	return a.units < b.units || a.units == b.units && a.frac < b.frac
}

func (a amount) isZero() bool { return a == amount{} }

// inRange is |a| <= 99,999,999,999,999,999.99, that of DECIMAL(19,2), for every currency.
func (a amount) inRange() bool {
	limit := amount{limitUnit, limitFrac}
	return !limit.less(a) && !a.less(limit.neg())
}

// big returns a in ten-thousandths, for sums over accounts, which have no range.
func (a amount) big() *big.Int {
	n := new(big.Int).Mul(big.NewInt(a.units), big.NewInt(scale))
	return n.Add(n, big.NewInt(int64(a.frac)))
}

func (a amount) String() string { return decimal(a.big(), maxFrac) }

// text prints a with the digits of a currency.
func (a amount) text(digits int) string { return decimal(a.big(), digits) }

// decimal prints ten-thousandths with at least the given digits after the point, more when they are not zero.
func decimal(n *big.Int, digits int) string {
	whole, rest := new(big.Int).QuoRem(new(big.Int).Abs(n), big.NewInt(scale), new(big.Int))
	frac := strconv.FormatInt(scale+rest.Int64(), 10)[1:]
	for len(frac) > digits && frac[len(frac)-1] == '0' {
		frac = frac[:len(frac)-1]
	}
	text := whole.String()
	if frac != "" {
		text += "." + frac
	}
	if n.Sign() < 0 {
		text = "-" + text
	}
	return text
}

// written is an amount as it stood in a text: its value and how many digits stood after the point.
type written struct {
	amount
	digits int
}

// parseAmount reads -?(0|[1-9][0-9]{0,16})(\.[0-9]{1,4})? for a currency of the given digits, and returns every reason
// for which the text is refused, none if it is an amount.
func parseAmount(text []byte, digits int) (w written, bad reasons) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	whole, frac, point := cut(text, '.')
	if !allDigits(whole) || point && !allDigits(frac) || len(whole) > 1 && whole[0] == '0' {
		return w, set(amountSyntax)
	}
	if len(whole) > maxWhole {
		bad |= set(amountRange, amountSyntax)
	}
	if len(frac) > maxFrac {
		bad |= set(amountDigits, amountSyntax)
	}
	if len(frac) > digits {
		bad |= set(amountDigits)
	}
	if bad == 0 {
		w = written{value(whole, frac), len(frac)}
		bad |= refuseValue(w.amount, negative)
	}
	if negative {
		w.amount = w.neg()
	}
	return w, bad
}

func refuseValue(a amount, negative bool) (bad reasons) {
	if negative && a.isZero() {
		bad |= set(negativeZero)
	}
	if !a.inRange() {
		bad |= set(amountRange)
	}
	return bad
}

// value needs at most 17 digits before and 4 after the point.
func value(whole, frac []byte) (a amount) {
	for _, c := range whole {
		a.units = a.units*10 + int64(c-'0')
	}
	weight := int32(scale)
	for _, c := range frac {
		weight /= 10
		a.frac += int32(c-'0') * weight
	}
	return a
}

func allDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
}

func cut(text []byte, sep byte) (before, after []byte, found bool) {
	for i, c := range text {
		if c == sep {
			return text[:i], text[i+1:], true
		}
	}
	return text, nil, false
}
