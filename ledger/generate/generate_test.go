package generate_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/ledger/money"
)

func workload(events int, seed uint64) generate.Config {
	return generate.Config{Events: events, Accounts: 50, Duplicates: 0.1, Conflicts: 0.05, Malformed: 0.1, Refused: 0.15, Seed: seed}
}

func mustNew(t testing.TB, cfg generate.Config) *generate.Generator {
	t.Helper()
	g, err := generate.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSameSeedSameRecords(t *testing.T) {
	a, b, other := mustNew(t, workload(5000, 7)), mustNew(t, workload(5000, 7)), mustNew(t, workload(5000, 8))
	differs := false
	for r := range a.All() {
		s, _ := b.Next()
		if !reflect.DeepEqual(r, s) {
			t.Fatalf("%v and %v", r, s)
		}
		o, _ := other.Next()
		differs = differs || !bytes.Equal(r.Value, o.Value)
	}
	if _, more := b.Next(); more || !differs {
		t.Errorf("more records: %v; other seed, other records: %v", more, differs)
	}
	if !reflect.DeepEqual(a.Balances(), b.Balances()) {
		t.Error("balances differ")
	}
}

// book is the ledger of one key space: package ledger's rules and a map as inbox.
type book struct {
	accounts map[string]ledger.Account
	inbox    map[string]ledger.Content
}

func TestClassesAndBalancesAgreeWithTheLedger(t *testing.T) {
	for seed := range uint64(5) {
		g := mustNew(t, workload(20000, seed))
		b := book{map[string]ledger.Account{}, map[string]ledger.Content{}}
		for r := range g.All() {
			if got := b.handle(t, r); got != r.Class {
				t.Fatalf("seed %d: %s %v is %v, the generator says %v", seed, r.Value, r.Headers, got, r.Class)
			}
		}
		b.compare(t, g.Balances())
	}
}

func (b *book) compare(t *testing.T, want []generate.Balance) {
	t.Helper()
	if len(want) != len(b.accounts) {
		t.Errorf("%d accounts, the generator has %d", len(b.accounts), len(want))
	}
	for _, w := range want {
		a := b.accounts[w.Account]
		got := generate.Balance{Account: w.Account, Currency: string(a.Currency), Balance: a.Balance.Text(), Version: a.Version, Status: string(a.Status)}
		if got != w {
			t.Errorf("got %v, the generator says %v", got, w)
		}
	}
}

// handle classifies well-formed events; malformed ones are the decoder's, in package topology, and believed here.
func (b *book) handle(t *testing.T, r generate.Record) generate.Class {
	if r.Class.Outcome == ledger.DeadLettered && r.Class.Reason != ledger.Conflict {
		return r.Class
	}
	e := decode(t, r)
	if first, ok := b.inbox[e.Identity()]; ok {
		if first == e.Content() {
			return generate.Class{Outcome: ledger.Passed, Reason: ledger.Duplicate}
		}
		return generate.Class{Outcome: ledger.DeadLettered, Reason: ledger.Conflict}
	}
	b.inbox[e.Identity()] = e.Content()
	after, u := ledger.Rules{AutoCreate: true}.Apply(b.accounts[e.AccountID], &e)
	if u.Applied() {
		b.accounts[e.AccountID] = after
	}
	return generate.Class{Outcome: u.Outcome, Reason: u.Reason}
}

func decode(t *testing.T, r generate.Record) ledger.Event {
	t.Helper()
	raw := map[string]string{}
	if err := json.Unmarshal(r.Value, &raw); err != nil {
		t.Fatalf("%s: %v", r.Value, err)
	}
	if raw["account_id"] != string(r.Key) {
		t.Fatalf("%s under key %s", r.Value, r.Key)
	}
	e := ledger.Event{EventID: raw["event_id"], Type: ledger.Type(raw["type"]), AccountID: raw["account_id"], Currency: money.Currency(raw["currency"]), To: ledger.Status(raw["to"])}
	if e.Type == "" {
		e.Type = ledger.Credit
	}
	for _, h := range r.Headers {
		switch h.Key {
		case "ce_id":
			e.EventID = string(h.Value)
		case "ce_source":
			e.Source = string(h.Value)
		}
	}
	var err error
	if e.OccurredAt, err = time.Parse(time.RFC3339, raw["occurred_at"]); err != nil {
		t.Fatal(err)
	}
	e.Amount, e.Minimum = amount(t, raw["amount"], e.Currency), amount(t, raw["minimum"], e.Currency)
	if e.To == ledger.Open && raw["minimum"] == "" {
		e.Minimum = money.Zero(e.Currency)
	}
	return e
}

func amount(t *testing.T, text string, c money.Currency) (a money.Amount) {
	t.Helper()
	if text == "" {
		return a
	}
	a, err := money.Parse(text, c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestEveryKindOccursInItsShare(t *testing.T) {
	cfg := workload(30000, 3)
	g := mustNew(t, cfg)
	reasons, outcomes := map[ledger.Reason]int{}, map[ledger.Outcome]float64{}
	for r := range g.All() {
		reasons[r.Class.Reason]++
		outcomes[r.Class.Outcome]++
	}
	// What the engine decides before or beside the event: not the value's fault, so not generated.
	notOurs := map[ledger.Reason]bool{ledger.MalformedKey: true, ledger.WrongPartition: true, ledger.FutureTimestamp: true, ledger.OutsideDedupeWindow: true}
	for _, row := range ledger.Table() {
		if reasons[row.Reason] == 0 && !notOurs[row.Reason] {
			t.Errorf("no record is %s %q", row.Outcome, row.Reason)
		}
	}
	for outcome, want := range map[ledger.Outcome]float64{
		ledger.Passed: cfg.Duplicates, ledger.DeadLettered: cfg.Conflicts + cfg.Malformed, ledger.Rejected: cfg.Refused, ledger.Applied: 0.6,
	} {
		if got := outcomes[outcome] / float64(cfg.Events); math.Abs(got-want) > 0.01 {
			t.Errorf("%s: %.3f of the records, want %.3f", outcome, got, want)
		}
	}
}

func TestSmallWorkloadsStartAndEnd(t *testing.T) {
	for _, cfg := range []generate.Config{
		{}, {Events: 1, Duplicates: 1}, {Events: 100, Accounts: 1, Refused: 1}, {Events: 300, Accounts: 1, Malformed: 1}, {Events: 10, Conflicts: 0.5, Duplicates: 0.5},
	} {
		n := 0
		for range mustNew(t, cfg).All() {
			n++
		}
		if n != cfg.Events {
			t.Errorf("%+v: %d records", cfg, n)
		}
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for _, cfg := range []generate.Config{
		{Events: -1}, {Accounts: -1}, {Duplicates: -0.1}, {Malformed: 1.1}, {Refused: math.NaN()}, {Duplicates: 0.6, Conflicts: 0.6},
	} {
		if _, err := generate.New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	cfg := workload(math.MaxInt, 1)
	g := mustNew(b, cfg)
	b.ReportAllocs()
	for b.Loop() {
		g.Next()
	}
}
