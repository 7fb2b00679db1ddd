package verify

import (
	"fmt"
	"testing"
)

// ordinary is a correct history with every kind of outcome, over two partitions and several transactions.
func ordinary() *world {
	w := newWorld(2)
	for p := range int32(2) {
		a, b, c := w.accountOn(p, 0), w.accountOn(p, 1), w.accountOn(p, 2)
		id := func(s string) string { return fmt.Sprintf("%s-%d", s, p) }
		w.feed(p,
			in{id: id("e1"), kind: "credit", account: a, cents: 5000, at: 90_000},
			in{id: id("e2"), kind: "credit", account: b, cents: 700, currency: "USD", at: 80_000},
			in{id: id("e1"), kind: "credit", account: a, cents: 5000, at: 79_000},
			in{id: id("e1"), kind: "credit", account: a, cents: 5001, at: 78_000},
			in{id: id("e3"), kind: "debit", account: a, cents: 2000, at: 77_000},
		)
		w.jobs[p].commit()
		w.feed(p,
			in{id: id("e4"), kind: "debit", account: a, cents: 999_999, at: 20_000},
			in{id: id("e5"), kind: "credit", account: a, cents: -5, at: 20_000},
			in{raw: "{", reason: "malformed_json", account: a, at: 19_000},
			in{id: id("e6"), kind: "credit", account: a, cents: 1, at: 89_000}, // expired
			in{id: id("e7"), kind: "account", account: c, to: "frozen", at: 18_000},
			in{id: id("e8"), kind: "account", account: c, to: "open", minimum: -10_000, at: 18_000},
			in{id: id("e9"), kind: "debit", account: c, cents: 9_000, at: 17_000},
			in{id: id("e10"), kind: "account", account: c, to: "frozen", at: 16_000},
			in{id: id("e11"), kind: "debit", account: c, cents: 1, at: 15_000},
			in{id: id("e12"), kind: "credit", account: c, cents: 9_000, at: 15_000},
			in{id: id("e13"), kind: "credit", account: c, cents: 9_000, currency: "USD", at: 15_000},
			in{id: id("e14"), kind: "account", account: c, to: "closed", at: 14_000},
			in{id: id("e15"), kind: "credit", account: c, cents: 9_000, at: 13_000},
			in{id: id("e16"), kind: "account", account: a, to: "closed", at: 13_000},
			in{id: id("e17"), kind: "account", account: b, to: "open", at: 13_000},
			in{id: id("e1"), kind: "credit", account: a, cents: 5000, at: 12_000}, // again: its window has passed
		)
		w.jobs[p].commit()
	}
	return w
}

func TestACorrectHistoryHasNoViolation(t *testing.T) {
	r, err := ordinary().audit(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Inputs != 42 || r.Applied != 18 || r.Duplicates != 2 || r.AppliedAgain != 2 || r.DeadLetters["conflict"] != 2 || r.Accounts != 6 {
		t.Errorf("%+v", r)
	}
	want := Sum{Credits: "380.00", Debits: "220.00", Balances: "160.00"}
	if r.Sums["EUR"] != want {
		t.Errorf("sum %+v, want %+v", r.Sums["EUR"], want)
	}
}
