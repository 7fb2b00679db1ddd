package money_test

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tallystick/tallystick/ledger/money"
)

// The model: an amount is a big.Rat, its grammar a regular expression.
var (
	grammar = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,4})?$`)
	top, _  = new(big.Rat).SetString(largest)
)

func modelAccepts(text string, c money.Currency) (*big.Rat, bool) {
	if !grammar.MatchString(text) {
		return nil, false
	}
	_, frac, _ := strings.Cut(text, ".")
	r, _ := new(big.Rat).SetString(text)
	negativeZero := r.Sign() == 0 && text[0] == '-'
	inRange := new(big.Rat).Abs(r).Cmp(top) <= 0
	return r, len(frac) <= c.Digits() && inRange && !negativeZero
}

func agree(t interface {
	Fatalf(format string, args ...any)
}, text string, c money.Currency) {
	want, ok := modelAccepts(text, c)
	got, err := money.Parse(text, c)
	if ok != (err == nil) {
		t.Fatalf("%q %s: got %v, %v; the model says %v", text, c, got, err, ok)
	}
	fromBytes, errBytes := money.Parse([]byte(text), c)
	if fromBytes != got || (errBytes == nil) != (err == nil) {
		t.Fatalf("%q: text and bytes differ", text)
	}
	if !ok {
		return
	}
	if s := got.Text(); s != want.FloatString(c.Digits()) {
		t.Fatalf("%q %s: prints %s, want %s", text, c, s, want.FloatString(c.Digits()))
	}
	var back money.Amount
	if err := back.UnmarshalText([]byte(got.Text())); err != nil || back != got {
		t.Fatalf("%q: read back as %v, %v", text, back, err)
	}
}

func someCurrency() *rapid.Generator[money.Currency] {
	return rapid.Map(rapid.SampledFrom([]string{"JPY", "INR", "KWD", "CLF"}), func(code string) money.Currency {
		c, _ := money.ParseCurrency(code)
		return c
	})
}

func TestParseAgreesWithTheGrammar(t *testing.T) {
	nearly := rapid.StringMatching(`-?[0-9]{0,19}\.?[0-9]{0,5}[eE+ ]?`)
	rapid.Check(t, func(t *rapid.T) {
		agree(t, nearly.Draw(t, "text"), someCurrency().Draw(t, "currency"))
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0", "-0", "1.5", largest, "1e5", "00.1", "100000000000000000", "1.99999", "-.1"} {
		f.Add(s, uint8(1))
	}
	codes := []string{"JPY", "INR", "KWD", "CLF"}
	f.Fuzz(func(t *testing.T, text string, code uint8) {
		agree(t, text, mustCurrency(t, codes[int(code)%len(codes)]))
	})
}

// TestSumsAgreeWithBigRat walks a running sum, like a balance, and leaves it unchanged when a step is out of range.
func TestSumsAgreeWithBigRat(t *testing.T) {
	valid := rapid.StringMatching(`-?(0|[1-9][0-9]{0,16})`)
	rapid.Check(t, func(t *rapid.T) {
		c := someCurrency().Draw(t, "currency")
		sum, model := money.Zero(c), new(big.Rat)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			a, err := money.Parse(valid.Draw(t, "amount"), c)
			if err != nil {
				continue
			}
			sum, model = step(t, sum, model, a, rapid.Bool().Draw(t, "subtract"))
			if sum.Text() != model.FloatString(c.Digits()) || sum.Sign() != model.Sign() {
				t.Fatalf("got %s, want %s", sum, model.FloatString(c.Digits()))
			}
		}
	})
}

func step(t *rapid.T, sum money.Amount, model *big.Rat, a money.Amount, subtract bool) (money.Amount, *big.Rat) {
	delta, _ := new(big.Rat).SetString(a.Text())
	next, err := sum.Add(a)
	if subtract {
		delta.Neg(delta)
		next, err = sum.Sub(a)
	}
	want := new(big.Rat).Add(model, delta)
	if fits := want.Abs(want).Cmp(top) <= 0; fits != (err == nil) {
		t.Fatalf("%s and %s: got %v", sum, a, err)
	}
	if errors.Is(err, money.ErrRange) {
		return sum, model
	}
	if next.Cmp(sum) != delta.Sign() {
		t.Fatalf("%s after %s compares %d", next, sum, next.Cmp(sum))
	}
	return next, new(big.Rat).Add(model, delta)
}
