package money

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/quagmt/udecimal"
)

// What can be wrong with the text of an amount, besides ErrRange. They are judged in this order: syntax, digits, range,
// negative zero; the first one that fits is returned.
var (
	ErrSyntax       = errors.New("not an amount")
	ErrDigits       = errors.New("too many digits after the point")
	ErrNegativeZero = errors.New("negative zero")
)

const (
	maxDigits      = 4  // of any currency
	maxWholeDigits = 17 // 99,999,999,999,999,999
	limitDigits    = 2  // of the limit, 99,999,999,999,999,999.99
)

// pow10 shifts whole units by the digits of a currency.
var pow10 = [maxDigits + 1]uint64{1, 10, 100, 1000, 10000}

// Parse reads an amount of currency c by the grammar
//
//	-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,4})?
//
// with at most the currency's digits after the point. No exponent, no plus sign, no leading zero, no white space, no
// digits of other scripts. More than 17 digits before the point is ErrRange, more than 4 after it ErrDigits. The result
// has the currency's digits, however many were written. It does not allocate unless it fails.
func Parse[T ~string | ~[]byte](text T, c Currency) (Amount, error) {
	return parse(text, c.Digits())
}

func parse[T ~string | ~[]byte](text T, digits int) (Amount, error) {
	s, ok := scan(text)
	switch {
	case !ok:
		return Amount{}, fmt.Errorf("%w: %.40q: write it as -?digits[.digits], without exponent, plus sign or leading zero",
			ErrSyntax, text)
	case s.fracDigits > digits:
		return Amount{}, fmt.Errorf("%w: %.40q has %d, the currency allows %d", ErrDigits, text, s.fracDigits, digits)
	case s.wholeDigits > maxWholeDigits:
		return Amount{}, fmt.Errorf("%w: %.40q", ErrRange, text)
	case s.negative && s.whole == 0 && s.frac == 0:
		return Amount{}, fmt.Errorf("%w: %.40q: write 0", ErrNegativeZero, text)
	}
	a, err := s.amount(digits)
	if err != nil {
		return Amount{}, fmt.Errorf("%w: %.40q", err, text)
	}
	return a, nil
}

// scanned is a text that fits the grammar, with any number of digits; whole and frac are valid up to the limits above.
type scanned struct {
	negative                bool
	whole, frac             uint64
	wholeDigits, fracDigits int
}

func scan[T ~string | ~[]byte](text T) (s scanned, ok bool) {
	i := 0
	if len(text) > 0 && text[0] == '-' {
		s.negative, i = true, 1
	}
	first := i
	s.whole, s.wholeDigits, i = number(text, i)
	if s.wholeDigits == 0 || s.wholeDigits > 1 && text[first] == '0' {
		return s, false
	}
	if i == len(text) {
		return s, true
	}
	if text[i] != '.' {
		return s, false
	}
	s.frac, s.fracDigits, i = number(text, i+1)
	return s, s.fracDigits > 0 && i == len(text)
}

// number reads ASCII digits from i on. The value wraps for a number that the caller refuses by its digits.
func number[T ~string | ~[]byte](text T, i int) (value uint64, digits, next int) {
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		value = value*10 + uint64(text[i]-'0')
		digits++
	}
	return value, digits, i
}

func (s scanned) amount(digits int) (Amount, error) {
	hi, lo := bits.Mul64(s.whole, pow10[digits])
	lo, carry := bits.Add64(lo, s.frac*pow10[digits-s.fracDigits], 0)
	value, err := udecimal.NewFromHiLo(s.negative, hi+carry, lo, uint8(digits))
	if err != nil {
		return Amount{}, err
	}
	a := Amount{value, uint8(digits) + 1}
	if digits <= limitDigits { // then 17 digits before the point, which the caller has counted, are in range
		return a, nil
	}
	return a.checked()
}

// AppendText appends a with its fixed digits, as "-12.50"; the error is always nil. Within one currency the text is
// canonical: equal amounts, equal bytes. It makes an amount a JSON string.
func (a Amount) AppendText(dst []byte) ([]byte, error) {
	negative, hi, lo, prec, _ := a.value.ToHiLo() // in range, so it always fits 128 bits
	digits := a.Digits()
	if int(prec) < digits { // zero only: the library drops its digits
		hi, lo = bits.Mul64(lo, pow10[digits-int(prec)])
	}
	whole, frac := bits.Div64(hi, lo, pow10[digits]) // whole < 10^17
	if negative {
		dst = append(dst, '-')
	}
	dst = strconv.AppendUint(dst, whole, 10)
	if digits == 0 {
		return dst, nil
	}
	dst = append(dst, '.')
	for unit := pow10[digits-1]; unit > 0; unit /= 10 {
		dst = append(dst, '0'+byte(frac/unit%10))
	}
	return dst, nil
}

// MarshalText is AppendText into a new slice.
func (a Amount) MarshalText() ([]byte, error) { return a.AppendText(nil) }

// Text returns what AppendText appends.
func (a Amount) Text() string {
	var buf [32]byte
	text, _ := a.AppendText(buf[:0])
	return string(text)
}

// String is Text.
func (a Amount) String() string { return a.Text() }

// UnmarshalText reads what AppendText wrote: the digits are those of the text. Use Parse for a text whose currency is
// known, since it checks the digits.
func (a *Amount) UnmarshalText(text []byte) error {
	s, _ := scan(text)
	parsed, err := parse(text, min(s.fracDigits, maxDigits))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}
