package ledger_test

import (
	"testing"
	"time"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/money"
)

const largest = "99999999999999999.99"

func posting(typ ledger.Type, amount, currency string) ledger.Event {
	c := currencyOf(currency)
	return ledger.Event{EventID: "e", Type: typ, AccountID: "a", Amount: amountOf(amount, c), Currency: c, OccurredAt: time.Unix(0, 0)}
}

func open(currency, minimum string) ledger.Event {
	c := currencyOf(currency)
	return ledger.Event{EventID: "o", Type: ledger.Control, AccountID: "a", To: ledger.Open, Currency: c, Minimum: amountOf(minimum, c)}
}

func to(s ledger.Status) ledger.Event {
	return ledger.Event{EventID: "s", Type: ledger.Control, AccountID: "a", To: s}
}

func currencyOf(code string) money.Currency {
	c, err := money.ParseCurrency(code)
	if err != nil {
		panic(err)
	}
	return c
}

func amountOf(text string, c money.Currency) money.Amount {
	a, err := money.Parse(text, c)
	if err != nil {
		panic(err)
	}
	return a
}

// scripts holds, for each reason of a rule, events whose last one is refused for it; "" is applied.
var scripts = map[ledger.Reason][][]ledger.Event{
	"": {
		{posting(ledger.Credit, "50", "INR")},
		{open("INR", "-100"), posting(ledger.Debit, "100.00", "INR")},
		{open("INR", "10"), posting(ledger.Credit, "11", "INR"), posting(ledger.Debit, "1", "INR")},
		{open("INR", "0"), to(ledger.Frozen), posting(ledger.Credit, "1", "INR")},
		{open("INR", "0"), to(ledger.Frozen), to(ledger.Frozen)},
		{open("INR", "0"), to(ledger.Frozen), open("INR", "0")},
		{open("INR", "0"), to(ledger.Frozen), to(ledger.Closed)},
		{posting(ledger.Credit, "5", "INR"), posting(ledger.Debit, "5", "INR"), to(ledger.Closed)},
		{posting(ledger.Credit, largest, "INR")},
		{open("INR", "-"+largest), posting(ledger.Debit, largest, "INR"), posting(ledger.Credit, largest, "INR")},
	},
	ledger.AmountNotPositive: {
		{posting(ledger.Credit, "0", "INR")},
		{posting(ledger.Debit, "-0.01", "INR")},
		{open("INR", "0"), to(ledger.Closed), posting(ledger.Credit, "-5", "EUR")}, // before all others
	},
	ledger.UnknownAccount: {
		{posting(ledger.Debit, "1", "INR")},
		{to(ledger.Frozen)},
		{to(ledger.Closed)},
	},
	ledger.AccountClosed: {
		{open("INR", "0"), to(ledger.Closed), posting(ledger.Credit, "1", "EUR")}, // before the currency
		{open("INR", "0"), to(ledger.Closed), posting(ledger.Debit, "1", "INR")},
		{open("INR", "0"), to(ledger.Closed), open("INR", "0")},
		{open("INR", "0"), to(ledger.Closed), open("EUR", "0")},
		{open("INR", "0"), to(ledger.Closed), to(ledger.Frozen)},
		{open("INR", "0"), to(ledger.Closed), to(ledger.Closed)},
	},
	ledger.AccountFrozen: {
		{posting(ledger.Credit, "5", "INR"), to(ledger.Frozen), posting(ledger.Debit, "1", "INR")},
		{posting(ledger.Credit, "5", "INR"), to(ledger.Frozen), posting(ledger.Debit, "1", "EUR")},
	},
	ledger.AccountExists: {
		{open("INR", "0"), open("EUR", "0")},
		{open("INR", "0"), to(ledger.Frozen), open("EUR", "0")},
	},
	ledger.CurrencyMismatch: {
		{posting(ledger.Credit, "5", "INR"), posting(ledger.Credit, "5", "EUR")},
		{posting(ledger.Credit, "5", "INR"), posting(ledger.Debit, "50", "EUR")}, // before the funds
	},
	ledger.CloseNotEmpty: {
		{posting(ledger.Credit, "5", "INR"), to(ledger.Closed)},
		{open("INR", "-5"), posting(ledger.Debit, "5", "INR"), to(ledger.Closed)},
	},
	ledger.InsufficientFunds: {
		{posting(ledger.Credit, "5", "INR"), posting(ledger.Debit, "5.01", "INR")},
		{open("INR", "10"), posting(ledger.Credit, "5", "INR"), posting(ledger.Debit, "0.01", "INR")},
		{open("INR", "-"+largest), posting(ledger.Debit, largest, "INR"), posting(ledger.Debit, "0.01", "INR")},
	},
	ledger.Overflow: {
		{posting(ledger.Credit, largest, "INR"), posting(ledger.Credit, "0.01", "INR")},
		{open("INR", "0"), posting(ledger.Credit, largest, "INR"), to(ledger.Frozen), posting(ledger.Credit, "0.01", "INR")},
	},
}

func TestEveryRowOfTheTableThatARuleDecides(t *testing.T) {
	for _, row := range ledger.Table() {
		if row.Topic != ledger.ToUpdates {
			continue
		}
		if len(scripts[row.Reason]) == 0 {
			t.Errorf("%q has no script", row.Reason)
		}
		for i, events := range scripts[row.Reason] {
			before, after, u := play(events)
			if u.Outcome != row.Outcome || u.Reason != row.Reason {
				t.Errorf("%q, script %d: got %s %q", row.Reason, i, u.Outcome, u.Reason)
			}
			if row.Outcome == ledger.Rejected && (after != before || u.Version != before.Version || before.Exists() && (u.Balance != before.Balance || u.Held != before.Held)) {
				t.Errorf("%q, script %d: rule 0: the account changed from %v to %v, update %v", row.Reason, i, before, after, u)
			}
		}
	}
}

func play(events []ledger.Event) (before, after ledger.Account, u ledger.Update) {
	rules := ledger.Rules{AutoCreate: true}
	for i := range events {
		before = after
		after, u = rules.Apply(before, &events[i])
	}
	return before, after, u
}

func TestTableNamesEachReasonOnceAndEachOutcomeOneTopic(t *testing.T) {
	seen := map[ledger.Reason]bool{}
	topic := map[ledger.Outcome]ledger.Destination{}
	for _, row := range ledger.Table() {
		if seen[row.Reason] {
			t.Errorf("%q stands twice", row.Reason)
		}
		seen[row.Reason] = true
		if other, ok := topic[row.Outcome]; ok && other != row.Topic {
			t.Errorf("%s goes to %s and %s", row.Outcome, other, row.Topic)
		}
		topic[row.Outcome] = row.Topic
	}
	if len(topic) != 4 {
		t.Errorf("%d outcomes: %v", len(topic), topic)
	}
}

func TestCreditOpensAnUnknownAccountOnlyWhenAllowed(t *testing.T) {
	e := posting(ledger.Credit, "50", "JPY")
	after, u := ledger.Rules{}.Apply(ledger.Account{}, &e)
	if u.Reason != ledger.UnknownAccount || after.Exists() || u.Balance.Text() != "0" || u.Version != 0 || u.Applied() {
		t.Errorf("refused: got %v, %v", after, u)
	}
	after, u = ledger.Rules{AutoCreate: true}.Apply(ledger.Account{}, &e)
	if !u.Applied() || after.Balance != e.Amount || after.Version != 1 || after.Status != ledger.Open || after.Check() != nil {
		t.Errorf("allowed: got %v, %v", after, u)
	}
}

func TestRefusalOfAnUnknownAccountPrintsZeroInTheEventsCurrency(t *testing.T) {
	for _, c := range []struct {
		e    ledger.Event
		want string
	}{
		{posting(ledger.Debit, "1", "KWD"), "0.000"},
		{posting(ledger.Credit, "-1", "INR"), "0.00"},
		{to(ledger.Frozen), "0"},
	} {
		_, _, u := play([]ledger.Event{c.e})
		if u.Balance.Text() != c.want || u.Held.Text() != c.want || u.Version != 0 || u.Status != "" || u.Currency != c.e.Currency {
			t.Errorf("%s: got %+v", c.e.Type, u)
		}
	}
}

func TestControlEventsHaveNoVersionAndShowTheAccount(t *testing.T) {
	_, after, u := play([]ledger.Event{posting(ledger.Credit, "5", "INR"), to(ledger.Frozen), open("INR", "-7")})
	if u.Version != 1 || after.Version != 1 || u.Minimum.Text() != "-7.00" || u.Status != ledger.Open || u.Currency != "INR" || u.Amount != (money.Amount{}) {
		t.Errorf("got %+v", u)
	}
	_, _, u = play([]ledger.Event{posting(ledger.Credit, "5", "INR"), to(ledger.Closed)})
	if u.Status != ledger.Open || u.Minimum.Text() != "0.00" || u.Currency != "INR" {
		t.Errorf("refused: got %+v", u)
	}
}

func TestContentIgnoresIdentityAndSpelling(t *testing.T) {
	a, b := posting(ledger.Credit, "5", "INR"), posting(ledger.Credit, "5.00", "INR")
	b.EventID, b.Source = "other", "elsewhere"
	b.OccurredAt = a.OccurredAt.In(time.FixedZone("", 5*3600))
	if a.Content() != b.Content() {
		t.Error("one content, two values")
	}
	for name, change := range map[string]func(*ledger.Event){
		"type":        func(e *ledger.Event) { e.Type = ledger.Debit },
		"account":     func(e *ledger.Event) { e.AccountID = "b" },
		"amount":      func(e *ledger.Event) { e.Amount = amountOf("5.01", "INR") },
		"currency":    func(e *ledger.Event) { e.Currency = "EUR" },
		"occurred_at": func(e *ledger.Event) { e.OccurredAt = e.OccurredAt.Add(1) },
		"to":          func(e *ledger.Event) { e.To = ledger.Closed },
		"minimum":     func(e *ledger.Event) { e.Minimum = money.Zero("INR") },
	} {
		c := a
		change(&c)
		if c.Content() == a.Content() {
			t.Errorf("%s is not part of the content", name)
		}
	}
}

func TestIdentityKeepsSourceAndIDApart(t *testing.T) {
	plain, cloud := ledger.Event{EventID: "x"}, ledger.Event{EventID: "x", Source: "s"}
	if plain.Identity() != "x" || cloud.Identity() != "s\x1fx" {
		t.Errorf("got %q and %q", plain.Identity(), cloud.Identity())
	}
}

func TestCheckFindsAccountsThatNoRuleMakes(t *testing.T) {
	good, _ := ledger.Rules{AutoCreate: true}.Apply(ledger.Account{}, &[]ledger.Event{posting(ledger.Credit, "5", "INR")}[0])
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*ledger.Account){
		"status":   func(a *ledger.Account) { a.Status = "asleep" },
		"currency": func(a *ledger.Account) { a.Currency = "XXX" },
		"digits":   func(a *ledger.Account) { a.Balance = money.Zero("JPY") },
		"version":  func(a *ledger.Account) { a.Version = -1 },
		"amount":   func(a *ledger.Account) { a.Minimum = money.Amount{} },
		"held":     func(a *ledger.Account) { a.Held = amountOf("-1", "INR") },
	} {
		bad := good
		spoil(&bad)
		if bad.Check() == nil {
			t.Errorf("a bad %s passes", name)
		}
	}
}

func TestABrokenAccountPanicsByInvariant(t *testing.T) {
	good, _ := ledger.Rules{AutoCreate: true}.Apply(ledger.Account{}, &[]ledger.Event{posting(ledger.Credit, "5", "INR")}[0])
	good.Held = amountOf("-1", "INR")
	defer func() {
		if r := recover(); r == nil {
			t.Error("a posting on a negative hold went through")
		}
	}()
	e := posting(ledger.Credit, "1", "INR")
	ledger.Rules{}.Apply(good, &e)
}

func TestApplyDoesNotAllocate(t *testing.T) {
	a, _ := ledger.Rules{AutoCreate: true}.Apply(ledger.Account{}, &[]ledger.Event{posting(ledger.Credit, "5", "INR")}[0])
	credit, debit, refused := posting(ledger.Credit, "1", "INR"), posting(ledger.Debit, "1", "INR"), posting(ledger.Debit, "100", "INR")
	rules := ledger.Rules{}
	n := testing.AllocsPerRun(100, func() {
		a, _ = rules.Apply(a, &credit)
		a, _ = rules.Apply(a, &debit)
		a, _ = rules.Apply(a, &refused)
		_, _ = refused.Identity(), refused.Content()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkApply(b *testing.B) {
	a, _ := ledger.Rules{AutoCreate: true}.Apply(ledger.Account{}, &[]ledger.Event{posting(ledger.Credit, "5", "INR")}[0])
	e := posting(ledger.Credit, "1", "INR")
	b.ReportAllocs()
	for b.Loop() {
		a, _ = ledger.Rules{}.Apply(a, &e)
	}
}
