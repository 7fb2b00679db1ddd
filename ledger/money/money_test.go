package money_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/ledger/money"
)

const (
	largest = "99999999999999999.99"
	whole17 = "99999999999999999"
)

func TestParseNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		text, currency string
		want           error
	}{
		{"", "INR", money.ErrSyntax},
		{"-", "INR", money.ErrSyntax},
		{".5", "INR", money.ErrSyntax},
		{"5.", "INR", money.ErrSyntax},
		{"+5", "INR", money.ErrSyntax},
		{"--5", "INR", money.ErrSyntax},
		{"05", "INR", money.ErrSyntax},
		{"00", "INR", money.ErrSyntax},
		{"-01.00", "INR", money.ErrSyntax},
		{" 5", "INR", money.ErrSyntax},
		{"5 ", "INR", money.ErrSyntax},
		{"5\n", "INR", money.ErrSyntax},
		{"1e3", "INR", money.ErrSyntax},
		{"1E-3", "INR", money.ErrSyntax},
		{"1,000.00", "INR", money.ErrSyntax},
		{"1_000", "INR", money.ErrSyntax},
		{"1.2.3", "INR", money.ErrSyntax},
		{"0x10", "INR", money.ErrSyntax},
		{"NaN", "INR", money.ErrSyntax},
		{"Infinity", "INR", money.ErrSyntax},
		{"٥٠", "INR", money.ErrSyntax}, // Arabic-Indic digits
		{"5\x00", "INR", money.ErrSyntax},
		{"1.234", "INR", money.ErrDigits},
		{"1.000", "INR", money.ErrDigits}, // zeros count
		{"1.0", "JPY", money.ErrDigits},
		{"1.0", "ISK", money.ErrDigits},
		{"1.2345", "KWD", money.ErrDigits},
		{"1.23456", "CLF", money.ErrDigits},
		{"-0.000", "INR", money.ErrDigits}, // before negative zero
		{"100000000000000000", "INR", money.ErrRange},
		{"-100000000000000000.00", "INR", money.ErrRange},
		{strings.Repeat("9", 1000), "JPY", money.ErrRange},
		{whole17 + ".991", "KWD", money.ErrRange}, // a DECIMAL(19,2) bounds every currency
		{"-" + whole17 + ".9901", "CLF", money.ErrRange},
		{"-0", "INR", money.ErrNegativeZero},
		{"-0.00", "INR", money.ErrNegativeZero},
		{"-0", "JPY", money.ErrNegativeZero},
	} {
		got, err := money.Parse(c.text, mustCurrency(t, c.currency))
		if !errors.Is(err, c.want) || got != (money.Amount{}) {
			t.Errorf("%.40q %s: got %v, %v; want %v", c.text, c.currency, got, err, c.want)
		}
	}
}

func TestParsePrintsTheCurrencysDigits(t *testing.T) {
	for _, c := range []struct{ text, currency, want string }{
		{"0", "INR", "0.00"},
		{"0.0", "INR", "0.00"},
		{"5", "INR", "5.00"},
		{"5.1", "INR", "5.10"},
		{"-5.01", "EUR", "-5.01"},
		{"0.05", "EUR", "0.05"},
		{"-0.01", "EUR", "-0.01"},
		{"5", "JPY", "5"},
		{"-5", "ISK", "-5"},
		{"0", "JPY", "0"},
		{"1.2", "KWD", "1.200"},
		{"0.001", "KWD", "0.001"},
		{"1", "CLF", "1.0000"},
		{"-12.0304", "CLF", "-12.0304"},
		{largest, "INR", largest},
		{"-" + largest, "INR", "-" + largest},
		{whole17, "JPY", whole17},
		{whole17 + ".99", "KWD", whole17 + ".990"},
		{whole17 + ".99", "CLF", whole17 + ".9900"},
		{"1.5", "XCG", "1.50"},
		{"1.5", "ANG", "1.50"},
		{"1.5", "BGN", "1.50"},
	} {
		a, err := money.Parse(c.text, mustCurrency(t, c.currency))
		if err != nil || a.Text() != c.want {
			t.Errorf("%s %s: got %v, %v; want %s", c.text, c.currency, a, err, c.want)
		}
	}
}

func TestDifferentSpellingsAreTheSameAmount(t *testing.T) {
	inr := mustCurrency(t, "INR")
	a, b := mustParse(t, "50", inr), mustParse(t, "50.00", inr)
	if a != b {
		t.Error("50 and 50.00 differ")
	}
	zero, err := a.Sub(b)
	if err != nil || zero != money.Zero(inr) || zero != mustParse(t, "0.0", inr) {
		t.Errorf("50 - 50.00 = %v, %v", zero, err)
	}
}

func TestSumsOutOfRangeAreRefused(t *testing.T) {
	inr := mustCurrency(t, "INR")
	top, cent := mustParse(t, largest, inr), mustParse(t, "0.01", inr)
	if _, err := top.Add(cent); !errors.Is(err, money.ErrRange) {
		t.Errorf("largest + 0.01: %v", err)
	}
	if _, err := top.Neg().Sub(cent); !errors.Is(err, money.ErrRange) {
		t.Errorf("-largest - 0.01: %v", err)
	}
	if got, err := top.Add(top.Neg()); err != nil || got != money.Zero(inr) {
		t.Errorf("largest - largest = %v, %v", got, err)
	}
	below, err := top.Sub(cent)
	if err != nil || below.Text() != "99999999999999999.98" || below.Cmp(top) != -1 || top.Cmp(below) != 1 {
		t.Errorf("largest - 0.01 = %v, %v", below, err)
	}
}

func TestNoAmountIsNotTheZeroOfACurrency(t *testing.T) {
	jpy := mustCurrency(t, "JPY")
	if money.Zero(jpy) == (money.Amount{}) {
		t.Fatal("0 JPY would be omitted from JSON")
	}
	five := mustParse(t, "5", jpy)
	if sum, err := (money.Amount{}).Add(five); err != nil || sum != five {
		t.Errorf("nothing + 5 = %v, %v", sum, err)
	}
	if s := (money.Amount{}).Text(); s != "0" {
		t.Errorf("no amount prints %q", s)
	}
}

func TestJSONIsAStringWithFixedDigits(t *testing.T) {
	in := struct {
		A money.Amount
		B money.Amount `json:",omitzero"`
	}{A: mustParse(t, "-5", mustCurrency(t, "KWD"))}
	b, err := json.Marshal(in)
	if err != nil || string(b) != `{"A":"-5.000"}` {
		t.Fatalf("got %s, %v", b, err)
	}
	out := in
	out.A = money.Amount{}
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Fatalf("got %v, %v; want %v", out, err, in)
	}
	for _, bad := range []string{`{"A":5}`, `{"A":"1.23456"}`, `{"A":"-0.00"}`, `{"A":""}`} {
		if json.Unmarshal([]byte(bad), &out) == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestCurrencyTable(t *testing.T) {
	for code, digits := range map[string]int{
		"INR": 2, "EUR": 2, "USD": 2, "JPY": 0, "KRW": 0, "VND": 0, "ISK": 0, "UGX": 0, "CLP": 0, "UYI": 0,
		"KWD": 3, "BHD": 3, "IQD": 3, "JOD": 3, "LYD": 3, "OMR": 3, "TND": 3, "CLF": 4, "UYW": 4,
		"XCG": 2, "ANG": 2, "BGN": 2, "HRK": 2, "MGA": 2, "MRU": 2, "HUF": 2, "AED": 2, "ZWL": 2, "ZWG": 2, "SLE": 2,
	} {
		c, err := money.ParseCurrency(code)
		if err != nil || string(c) != code || c.Digits() != digits {
			t.Errorf("%s: got %q with %d digits, %v; want %d", code, c, c.Digits(), err, digits)
		}
	}
	for _, code := range []string{"", "IN", "INRS", "inr", "Inr", "XXX", "XAU", "XTS", "XDR", "AAA", "ZZZ", "ED2", "2AF", "₹", "\x00\x00\x00"} {
		if c, err := money.ParseCurrency(code); !errors.Is(err, money.ErrCurrency) || c != "" || money.Currency(code).Digits() != 0 {
			t.Errorf("%q: got %q, %v", code, c, err)
		}
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	text, code, dst := []byte("12345.67"), []byte("EUR"), make([]byte, 0, 64)
	got := testing.AllocsPerRun(100, func() {
		c, _ := money.ParseCurrency(code)
		a, _ := money.Parse(text, c)
		b, _ := a.Add(money.Zero(c))
		b, _ = b.Sub(a.Neg())
		dst, _ = b.AppendText(dst[:0])
	})
	if got != 0 || string(dst) != "24691.34" {
		t.Errorf("%v allocations, %s", got, dst)
	}
}

func mustCurrency(t testing.TB, code string) money.Currency {
	t.Helper()
	c, err := money.ParseCurrency(code)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustParse(t testing.TB, text string, c money.Currency) money.Amount {
	t.Helper()
	a, err := money.Parse(text, c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
