package topology_test

import (
	"bytes"
	"testing"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
)

func generated(t testing.TB, events int, seed uint64) *generate.Generator {
	t.Helper()
	g, err := generate.New(generate.Config{Events: events, Accounts: 100, Duplicates: 0.1, Conflicts: 0.05, Malformed: 0.1, Refused: 0.15, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func messageOf(r generate.Record) message {
	m := message{key: r.Key, value: r.Value}
	for _, h := range r.Headers {
		m.headers = append(m.headers, record.Header(h))
	}
	return m
}

// classOf reads the class off the outcome.
func classOf(t testing.TB, out pipeline.Out) generate.Class {
	switch out.Topic {
	case "bank-dead-letters":
		return generate.Class{Outcome: ledger.DeadLettered, Reason: reason(out)}
	case "ledger-skipped":
		return generate.Class{Outcome: ledger.Passed, Reason: ledger.Duplicate}
	}
	u := update(t, out)
	return generate.Class{Outcome: u.Outcome, Reason: u.Reason}
}

// TestAWorkloadComesOutAsItsGeneratorSays runs the stage with commits and aborts in between. An aborted record is sent again,
// as after a rewind, and its outcome must be the same bytes.
func TestAWorkloadComesOutAsItsGeneratorSays(t *testing.T) {
	g := generated(t, 20000, 11)
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	last := map[string]ledger.Update{}
	for r := range g.All() {
		m := messageOf(r)
		if b.offset%7 == 0 {
			b.commit()
		}
		out := b.send(m)
		if b.offset%7 == 1 { // the transaction holds this record alone
			first := bytes.Clone(out.Value)
			b.task.Drop()
			b.offset--
			if out = b.send(m); !bytes.Equal(out.Value, first) {
				t.Fatalf("%s\nfirst  %s\nsecond %s", r.Value, first, out.Value)
			}
		}
		if got := classOf(t, out); got != r.Class {
			t.Fatalf("%s under %q with %v\nis %v %s, the generator says %v", r.Value, r.Key, r.Headers, got, header(out, pipeline.HeaderMessage), r.Class)
		}
		if out.Topic == "ledger-updates" {
			chain(t, last, update(t, out))
		}
	}
	b.commit()
	compareBalances(t, b, last, g.Balances())
}

// chain is L1, read off the updates.
func chain(t *testing.T, last map[string]ledger.Update, u ledger.Update) {
	t.Helper()
	before, known := last[u.AccountID]
	posted := u.Applied() && u.Type != ledger.Control
	want := before.Version
	if posted {
		want++
	}
	if u.Version != want {
		t.Fatalf("L1: %s has version %d after %d", u.AccountID, u.Version, before.Version)
	}
	step := u.Amount
	if u.Type == ledger.Debit {
		step = step.Neg()
	}
	if !posted && known && u.Balance.Cmp(before.Balance) != 0 {
		t.Fatalf("rule 0: %s moved from %s to %s by %s %s", u.AccountID, before.Balance, u.Balance, u.Outcome, u.Type)
	}
	if sum, err := before.Balance.Add(step); posted && (err != nil || sum.Cmp(u.Balance) != 0) {
		t.Fatalf("L1: %s has %s after %s and %s", u.AccountID, u.Balance, before.Balance, step)
	}
	if u.Applied() || known {
		last[u.AccountID] = u
	}
}

// compareBalances compares the independent sum with the last updates and, L4, with the committed store.
func compareBalances(t *testing.T, b *bench, last map[string]ledger.Update, want []generate.Balance) {
	t.Helper()
	stored := map[string]ledger.Account{}
	err := b.base.Ascend([]byte("\x08accounts"), []byte("\x08accountt"), func(key, value []byte) bool {
		a, err := topology.Accounts.Decode(value)
		if err != nil {
			t.Fatal(err)
		}
		stored[string(key[len("\x08accounts"):])] = a
		return true
	})
	if err != nil || len(stored) != len(want) {
		t.Errorf("%d accounts in the store, want %d; %v", len(stored), len(want), err)
	}
	for _, w := range want {
		a, u := stored[w.Account], last[w.Account]
		got := generate.Balance{Account: w.Account, Currency: string(a.Currency), Balance: a.Balance.Text(), Version: a.Version, Status: string(a.Status)}
		if got != w || u.Balance != a.Balance || u.Version != a.Version {
			t.Errorf("L4: stored %v, last update %s version %d, independent sum %v", got, u.Balance, u.Version, w)
		}
	}
}
