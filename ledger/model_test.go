package ledger_test

import (
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/money"
)

// The model: one account written as a clerk would, in big rationals, one paragraph for each kind of event.
type clerk struct {
	exists           bool
	status, currency string
	balance, minimum *big.Rat
	version          int
}

func rat(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text)
	}
	return r
}

func tooLarge(r *big.Rat) bool { return new(big.Rat).Abs(r).Cmp(rat(largest)) > 0 }

func (c *clerk) credit(amount, currency string, create bool) string {
	n := rat(amount)
	if n.Sign() <= 0 {
		return "amount_not_positive"
	}
	if !c.exists && !create {
		return "unknown_account"
	}
	if !c.exists {
		*c = clerk{true, "open", currency, new(big.Rat), new(big.Rat), 0}
	}
	if c.status == "closed" {
		return "account_closed"
	}
	if c.currency != currency {
		return "currency_mismatch"
	}
	sum := new(big.Rat).Add(c.balance, n)
	if tooLarge(sum) {
		return "overflow"
	}
	c.balance, c.version = sum, c.version+1
	return ""
}

func (c *clerk) debit(amount, currency string) string {
	n := rat(amount)
	if n.Sign() <= 0 {
		return "amount_not_positive"
	}
	if !c.exists {
		return "unknown_account"
	}
	if c.status != "open" {
		return "account_" + c.status
	}
	if c.currency != currency {
		return "currency_mismatch"
	}
	left := new(big.Rat).Sub(c.balance, n)
	if left.Cmp(c.minimum) < 0 {
		return "insufficient_funds"
	}
	c.balance, c.version = left, c.version+1
	return ""
}

func (c *clerk) move(to, currency, minimum string) string {
	if !c.exists && to != "open" {
		return "unknown_account"
	}
	if c.status == "closed" {
		return "account_closed"
	}
	switch to {
	case "open":
		if !c.exists {
			*c = clerk{exists: true, currency: currency, balance: new(big.Rat)}
		}
		if c.currency != currency {
			return "account_exists"
		}
		c.minimum = rat(minimum)
	case "closed":
		if c.balance.Sign() != 0 {
			return "close_not_empty"
		}
	}
	c.status = to
	return ""
}

// agrees compares account and update with what the clerk has.
func (c *clerk) agrees(t *rapid.T, a ledger.Account, u ledger.Update, reason string) {
	if string(u.Reason) != reason || u.Applied() != (reason == "") {
		t.Fatalf("got %s %q, the model says %q", u.Outcome, u.Reason, reason)
	}
	if a.Exists() != c.exists || string(a.Status) != c.status || string(a.Currency) != c.currency || a.Version != int64(c.version) {
		t.Fatalf("got %+v, the model has %+v", a, c)
	}
	if !c.exists {
		return
	}
	digits := a.Currency.Digits()
	if a.Balance.Text() != c.balance.FloatString(digits) || u.Balance != a.Balance || a.Minimum.Text() != c.minimum.FloatString(digits) {
		t.Fatalf("got %s above %s, the model has %s above %s", a.Balance, a.Minimum, c.balance.FloatString(digits), c.minimum.FloatString(digits))
	}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestRulesAgreeWithTheClerk(t *testing.T) {
	amounts := rapid.OneOf(
		rapid.Map(rapid.IntRange(-2, 200), func(n int) string { return fmt.Sprint(n) }),
		rapid.SampledFrom([]string{"0", "0.01", "-0.01", largest, "-" + largest, "99999999999999999", "50000000000000000"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		rules := ledger.Rules{AutoCreate: rapid.Bool().Draw(t, "create")}
		var account ledger.Account
		c := &clerk{}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			e, reason := c.draw(t, amounts, rules.AutoCreate)
			var u ledger.Update
			before := account
			account, u = rules.Apply(account, &e)
			c.agrees(t, account, u, reason)
			checkL1(t, &before, &account, &u)
		}
	})
}

// draw makes an event and lets the clerk decide it.
func (c *clerk) draw(t *rapid.T, amounts *rapid.Generator[string], create bool) (ledger.Event, string) {
	currency := rapid.SampledFrom([]string{"INR", "INR", "INR", "EUR"}).Draw(t, "currency")
	amount := amounts.Draw(t, "amount")
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return open(currency, amount), c.move("open", currency, amount)
	case 1:
		return to(ledger.Frozen), c.move("frozen", "", "")
	case 2:
		return to(ledger.Closed), c.move("closed", "", "")
	case 3, 4, 5:
		return posting(ledger.Debit, amount, currency), c.debit(amount, currency)
	default:
		return posting(ledger.Credit, amount, currency), c.credit(amount, currency, create)
	}
}

// checkL1 reads the invariant off two updates, as a reader of ledger-updates would.
func checkL1(t *rapid.T, before, after *ledger.Account, u *ledger.Update) {
	if !u.Applied() || u.Type == ledger.Control {
		if after.Version != before.Version || after.Balance.Cmp(before.Balance) != 0 {
			t.Fatalf("L1: %s %s moved the balance", u.Outcome, u.Type)
		}
		return
	}
	signed := rat(u.Amount.Text())
	if u.Type == ledger.Debit {
		signed.Neg(signed)
	}
	was := before.Balance
	if !before.Exists() {
		was = money.Zero(after.Currency)
	}
	if rat(was.Text()).Add(rat(was.Text()), signed).Cmp(rat(u.Balance.Text())) != 0 || u.Version != before.Version+1 {
		t.Fatalf("L1: from version %d with %s to version %d with %s by %s", before.Version, was, u.Version, u.Balance, signed)
	}
}
