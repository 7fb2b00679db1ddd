package topology_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/money"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/record"
)

func anyAmount(t *rapid.T, name string) money.Amount {
	c, _ := money.ParseCurrency(rapid.SampledFrom([]string{"JPY", "INR", "KWD", "CLF"}).Draw(t, name+" currency"))
	a, err := money.Parse(rapid.StringMatching(`-?[1-9][0-9]{0,16}|0`).Draw(t, name), c)
	if err != nil {
		return money.Zero(c)
	}
	return a
}

func anyPosition(t *rapid.T, name string) ledger.Position {
	return ledger.Position{
		Topic: rapid.String().Draw(t, name), Partition: rapid.Int32Min(0).Draw(t, name+" partition"), Offset: rapid.Int64Min(0).Draw(t, name+" offset"),
	}
}

func anyUpdate(t *rapid.T) ledger.Update {
	u := ledger.Update{
		EventID: rapid.String().Draw(t, "id"), EventSource: rapid.String().Draw(t, "source"), AccountID: rapid.String().Draw(t, "account"),
		Type: ledger.Credit, Outcome: ledger.Applied, Balance: anyAmount(t, "balance"), Held: anyAmount(t, "held"), Version: rapid.Int64Min(0).Draw(t, "version"),
		Source: anyPosition(t, "at"),
	}
	if rapid.Bool().Draw(t, "posting") {
		u.Amount, u.Currency, u.Reason = anyAmount(t, "amount"), "INR", ledger.Overflow
	} else {
		u.Minimum, u.Status, u.RedriveOf = anyAmount(t, "minimum"), ledger.Closed, anyPosition(t, "redrive of")
	}
	return u
}

// sameAsLibrary compares a codec's bytes with the library's for the same value, and reads them back.
func sameAsLibrary[T comparable](t *rapid.T, c record.Codec[T], v T) {
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Append([]byte("before"), v)
	if err != nil || string(got) != "before"+string(want) {
		t.Fatalf("got  %s, %v\nwant %s", got, err, want)
	}
	back, err := c.Decode(want)
	if err != nil || back != v {
		t.Fatalf("%s\nreads as %+v, %v\nwant     %+v", want, back, err, v)
	}
}

func TestUpdatesAndSkippedAreWrittenAsTheLibraryWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sameAsLibrary(t, topology.Updates.Value, anyUpdate(t))
		sameAsLibrary(t, topology.Skipped.Value, ledger.Skipped{
			EventID: rapid.String().Draw(t, "skipped id"), AccountID: "a", Reason: ledger.Duplicate, First: anyPosition(t, "first"), Source: anyPosition(t, "source"),
		})
	})
}

func TestInvalidUTF8IsNotWritten(t *testing.T) {
	if _, err := topology.Updates.Value.Append(nil, ledger.Update{EventID: "\xff"}); err == nil {
		t.Error("an update with invalid UTF-8 was written")
	}
	if _, err := topology.EventCodec.Append(nil, ledger.Event{EventID: "\xff"}); err == nil {
		t.Error("an event with invalid UTF-8 was written")
	}
	if _, err := topology.EventCodec.Append(nil, ledger.Event{OccurredAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Error("a time that RFC 3339 has not was written")
	}
}

func TestEventsAreReadAsTheyAreWritten(t *testing.T) {
	c := topology.EventCodec
	for _, in := range []string{
		`{"event_id":"EVT-1","type":"credit","account_id":"ACC-7","amount":"5.00","currency":"INR","occurred_at":"2026-11-30T10:00:00Z"}`,
		`{"event_id":"\"\\","type":"debit","account_id":"é","amount":"-5","currency":"JPY","occurred_at":"0000-01-01T00:00:00.000000001Z"}`,
		`{"type":"account","account_id":"ACC-7","currency":"CLF","occurred_at":"9999-12-31T23:59:59Z","to":"open","minimum":"-0.0001"}`,
		`{"event_id":"x","type":"account","account_id":"ACC-7","occurred_at":"2024-02-29T00:00:00Z","to":"closed"}`,
	} {
		e, err := c.Decode([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if out, err := c.Append(nil, e); err != nil || string(out) != in {
			t.Errorf("%s\nis written as %s, %v", in, out, err)
		}
	}
}

func TestInstantsAreReadInAnyZoneAndFraction(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-11-30T10:00:00Z":              time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC),
		"2026-11-30T00:30:00-23:59":         time.Date(2026, 12, 1, 0, 29, 0, 0, time.UTC),
		"2026-11-30T10:00:00.5+05:30":       time.Date(2026, 11, 30, 4, 30, 0, 5e8, time.UTC),
		"2026-11-30T10:00:00.123456789Z":    time.Date(2026, 11, 30, 10, 0, 0, 123456789, time.UTC),
		"2026-11-30T10:00:00.1234567891Z":   time.Date(2026, 11, 30, 10, 0, 0, 123456789, time.UTC),
		"0000-01-01T00:00:00+23:59":         time.Date(-1, 12, 31, 0, 1, 0, 0, time.UTC),
		"9999-12-31T23:59:59.999999999999Z": time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
		"2000-02-29T00:00:00-00:00":         time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC),
	} {
		e, err := topology.EventCodec.Decode(replace("2026-11-30T10:00:00Z", text).value)
		if err != nil || e.OccurredAt != want {
			t.Errorf("%s: got %v, %v; want %v", text, e.OccurredAt, err, want)
		}
	}
}

// FuzzEvent holds the decoder to four promises: it never panics; its fast path accepts nothing that the library refuses, and
// reads the same; what it accepts the library calls one JSON object without repeated names; and it re-encodes to the same
// content.
func FuzzEvent(f *testing.F) {
	for _, messages := range bad {
		for _, m := range messages {
			if len(m.value) < 1<<10 {
				f.Add(m.value)
			}
		}
	}
	f.Add([]byte(whole))
	f.Add([]byte(" {\t\"account_id\" :\n\"é\" , " + good + "}\r\n"))
	f.Add([]byte(`{"type":"account","account_id":"ACC-7","currency":"CLF","occurred_at":"9999-12-31T23:59:59Z","to":"open","minimum":"-0.0001"}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		original := bytes.Clone(value)
		e, err := topology.EventCodec.Decode(value)
		strict, strictErr := topology.DecodeStrict(value)
		if e != strict || (err == nil) != (strictErr == nil) {
			t.Fatalf("%q\nfast: %+v, %v\nlibrary: %+v, %v", value, e, err, strict, strictErr)
		}
		if !bytes.Equal(value, original) {
			t.Fatal("decoding changed its source")
		}
		if err != nil {
			if m, ok := err.(*record.MalformedError); !ok || m.Reason == "" || (e != ledger.Event{}) {
				t.Fatalf("%q: %v is no malformed error", value, err)
			}
			return
		}
		checkAccepted(t, value, e)
	})
}

func checkAccepted(t *testing.T, value []byte, e ledger.Event) {
	var object map[string]string
	if err := json.Unmarshal(value, &object); err != nil {
		t.Fatalf("%q was accepted, the library says %v", value, err)
	}
	if object["account_id"] != e.AccountID || object["event_id"] != e.EventID {
		t.Fatalf("%q: read as %+v", value, e)
	}
	for name := range object {
		if strings.ToLower(name) != name {
			t.Fatalf("%q: member %q was accepted", value, name)
		}
	}
	if e.OccurredAt.Year() < 0 {
		return // the zone moved it before the year 0, which has no text
	}
	again, err := topology.EventCodec.Append(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := topology.EventCodec.Decode(again)
	if err != nil || back.Content() != e.Content() || back.EventID != e.EventID {
		t.Fatalf("%q\nre-encodes to %s\nread as %+v, %v", value, again, back, err)
	}
}

func FuzzAccount(f *testing.F) {
	f.Add([]byte(`{"currency":"INR","balance":"5.00","held":"0.00","minimum":"-1.00","status":"open","version":7}`))
	f.Add([]byte(`{"currency":"JPY","balance":"5","held":"0","minimum":"0","status":"closed","version":0}x`))
	f.Add([]byte(`{"version":1,"currency":"INR","balance":"5.00","held":"0.00","minimum":"0.00","status":"frozen"}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		a, err := topology.Accounts.Decode(value)
		if err != nil {
			return
		}
		strict, err := record.JSON[ledger.Account]().Decode(value)
		if err != nil || strict != a {
			t.Fatalf("%q: got %+v, the library %+v, %v", value, a, strict, err)
		}
		again, err := topology.Accounts.Append(nil, a)
		if back, err2 := topology.Accounts.Decode(again); err != nil || err2 != nil || back != a {
			t.Fatalf("%q: written as %s, %v; read as %+v, %v", value, again, err, back, err2)
		}
	})
}

func TestAccountsAreWrittenAsTheLibraryWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := money.ParseCurrency("INR")
		a := ledger.Account{
			Currency: c, Balance: money.Zero(c), Held: money.Zero(c), Minimum: money.Zero(c),
			Status: rapid.SampledFrom([]ledger.Status{ledger.Open, ledger.Frozen, ledger.Closed}).Draw(t, "status"), Version: rapid.Int64Min(0).Draw(t, "version"),
		}
		a.Balance, _ = money.Parse(rapid.StringMatching(`[1-9][0-9]{0,16}\.[0-9]{2}`).Draw(t, "balance"), c)
		if a.Balance == (money.Amount{}) {
			a.Balance = money.Zero(c)
		}
		sameAsLibrary(t, topology.Accounts, a)
	})
}

func TestAnImpossibleAccountIsNeitherReadNorWritten(t *testing.T) {
	for _, in := range []string{
		`{"currency":"INR","balance":"5.000","held":"0.00","minimum":"0.00","status":"open","version":1}`,
		`{"currency":"INR","balance":"5.00","held":"-1.00","minimum":"0.00","status":"open","version":1}`,
		`{"currency":"INR","balance":"5.00","held":"0.00","minimum":"0.00","status":"asleep","version":1}`,
		`{"currency":"INR","balance":"5.00","held":"0.00","minimum":"0.00","status":"open","version":-1}`,
		`{"currency":"XXX","balance":"5.00","held":"0.00","minimum":"0.00","status":"open","version":1}`,
		`{"currency":"INR","balance":"5.00","status":"open","version":1}`,
		`{"currency":"JPY","balance":"5","held":null,"minimum":"0","status":"open","version":1}`,
		`{"currency":"JPY","balance":"5","held":"0","status":"open","version":1}`,
		`{"currency":"INR","balance":"5.00","held":"0.00","minimum":"0.00","status":"open","version":1}{}`,
		`{"currency":"INR","balance":"5.00","held":"0.00","minimum":"0.00","status":"open","version":01}`,
		`{}`, ``, `null`,
	} {
		if a, err := topology.Accounts.Decode([]byte(in)); err == nil {
			t.Errorf("%s was read as %+v", in, a)
		}
	}
	if _, err := topology.Accounts.Append(nil, ledger.Account{}); err == nil {
		t.Error("an account that does not exist was written")
	}
}
