package money

import (
	"errors"

	"github.com/quagmt/udecimal"
)

// Amount is an exact amount with a fixed number of digits after the point, within ±99,999,999,999,999,999.99. Amounts are
// values: copy them freely. The zero value is no amount: it counts as zero, prints "0", and is what JSON's omitzero omits,
// while the zero of a currency (Zero) is an amount like any other.
//
// Two amounts of the same currency are equal exactly when == says so.
type Amount struct {
	value udecimal.Decimal
	scale uint8 // digits after the point, plus one; 0 is no amount
}

// ErrRange says that an amount or a sum lies outside ±99,999,999,999,999,999.99.
var ErrRange = errors.New("amount out of range, |amount| is at most 99999999999999999.99")

// limit is the largest DECIMAL(19,2). It holds for every currency, so that one column type stores them all.
var limit = udecimal.MustParse("99999999999999999.99")

// Zero returns the zero of a currency.
func Zero(c Currency) Amount { return Amount{scale: uint8(c.Digits()) + 1} }

// Add returns a+b, or ErrRange. The amounts must be of one currency.
func (a Amount) Add(b Amount) (Amount, error) {
	return Amount{a.value.Add(b.value), max(a.scale, b.scale)}.checked()
}

// Sub returns a-b, or ErrRange. The amounts must be of one currency.
func (a Amount) Sub(b Amount) (Amount, error) {
	return Amount{a.value.Sub(b.value), max(a.scale, b.scale)}.checked()
}

// Neg returns -a; the range is symmetric, so it always exists.
func (a Amount) Neg() Amount { return Amount{a.value.Neg(), a.scale} }

// Cmp returns -1, 0 or 1 as a is below, equal to or above b, as numbers: digits do not count.
func (a Amount) Cmp(b Amount) int { return a.value.Cmp(b.value) }

// Sign returns -1, 0 or 1.
func (a Amount) Sign() int { return a.value.Sign() }

// Digits returns how many digits a prints after the point.
func (a Amount) Digits() int { return max(0, int(a.scale)-1) }

// limitUnits is limit without its point.
const limitUnits = 99999999999999999_99

func (a Amount) checked() (Amount, error) {
	_, hi, lo, digits, fits := a.value.ToHiLo()
	if fits && hi == 0 && lo <= limitUnits && digits >= limitDigits {
		return a, nil // without the library's comparison in 256 bits
	}
	if a.value.Abs().Cmp(limit) > 0 {
		return Amount{}, ErrRange
	}
	return a, nil
}
