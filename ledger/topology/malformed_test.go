package topology_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
)

func keyed(key, value string) message { return message{key: []byte(key), value: []byte(value)} }

func raw(value string) message { return keyed("ACC-7", value) }

func withHeaders(m message, pairs ...string) message {
	m.headers = headers(pairs...)
	return m
}

func opening(members string) message {
	return credit(`"type":"account","occurred_at":"2026-11-30T10:00:00Z",` + members)
}

func id(account, event string) message {
	return raw(`{"event_id":"` + event + `","account_id":"` + account + `",` + good + `}`)
}

const whole = `{"event_id":"EVT-1","account_id":"ACC-7",` + good + `}`

// bad holds inputs that are dead letters by the value, key or headers of one record.
var bad = map[ledger.Reason][]message{
	ledger.NullKey: {{value: []byte(whole)}},
	ledger.KeyMismatch: {
		keyed("", whole), keyed("ACC-8", whole), keyed("ACC-7\n", whole), keyed("acc-7", whole), keyed("\xff", whole), keyed("ACC-7\x00", whole),
	},
	ledger.NullValue:  {{key: []byte("ACC-7")}},
	ledger.EmptyValue: {keyed("ACC-7", "")},
	ledger.MalformedJSON: {
		raw("hello"), raw(whole[:40]), raw(whole + "}"), raw(whole + whole), raw("[" + whole + "]"), raw("null"), raw("17"), raw(`"x"`), raw(" "),
		raw("\ufeff" + whole), raw("\x00\x00\x00\x00\x07" + whole), raw(strings.Replace(whole, "ACC-7", "ACC-\xff", 1)), raw(strings.Replace(whole, `"ACC-7"`, "'ACC-7'", 1)),
		raw(`{"event_id":"\ud800","account_id":"ACC-7",` + good + `}`), raw(strings.Replace(whole, "}", ",}", 1)), raw("{" + whole[1:len(whole)-1]), raw(`{event_id:1}`),
		raw(strings.Replace(whole, `"ACC-7"`, "\"ACC\n-7\"", 1)), raw(strings.Repeat("[", 20000)), raw(`{"memo":` + strings.Repeat(`[`, 20000)), credit(good + `,"x":tru`), raw(`{"a"}`), raw(`{,}`), raw("{}{}"),
	},
	ledger.DuplicateName: {
		credit(good + `,"currency":"INR"`), credit(good + `,"\u0063urrency":"INR"`), credit(good + `,"memo":{"a":1,"a":2}`), credit(good + `,"event_id":null`),
	},
	ledger.UnknownName: {
		credit(good + `,"memo":"x"`), credit(good + `,"version":7`), replace(`"amount"`, `"Amount"`), replace(`"amount"`, `"AMOUNT"`), credit(good + `,"to":"open"`),
		credit(good + `,"minimum":"0"`), credit(good + `,"":""`), credit(`"type":"debit","minimum":"0",` + good),
		opening(`"to":"open","currency":"INR","amount":"1"`), opening(`"to":"frozen","currency":"INR"`), opening(`"to":"closed","minimum":"0"`),
	},
	ledger.NullMember: {
		replace(`"5.00"`, `null`), replace(`"INR"`, `null`), replace(`"2026-11-30T10:00:00Z"`, `null`), credit(good + `,"type":null`), raw(strings.Replace(whole, `"EVT-1"`, `null`, 1)),
		opening(`"to":"open","currency":"INR","minimum":null`), opening(`"to":null`),
	},
	ledger.MissingMember: {
		raw("{}"), raw(`{"account_id":"ACC-7",` + good + `}`), raw(`{"event_id":"EVT-1",` + good + `}`), credit(`"amount":"5.00","currency":"INR"`),
		credit(`"amount":"5.00","occurred_at":"2026-11-30T10:00:00Z"`), credit(`"currency":"INR","occurred_at":"2026-11-30T10:00:00Z"`),
		opening(`"to":"open"`), opening(`"currency":"INR"`), credit(`"type":"account","to":"frozen"`),
	},
	ledger.WrongType: {
		replace(`"INR"`, `7`), replace(`"INR"`, `["INR"]`), replace(`"2026-11-30T10:00:00Z"`, `1767225600`), replace(`"5.00"`, `true`), replace(`"5.00"`, `{"value":"5"}`),
		raw(strings.Replace(whole, `"EVT-1"`, `1`, 1)), credit(good + `,"type":1`), opening(`"to":false`),
	},
	ledger.AmountNotString: {replace(`"5.00"`, `5`), replace(`"5.00"`, `5.00`), replace(`"5.00"`, `1e3`), replace(`"5.00"`, `-0`), opening(`"to":"open","currency":"INR","minimum":0`)},
	ledger.AmountSyntax: {
		replace("5.00", "1e3"), replace("5.00", "1E-2"), replace("5.00", "+5"), replace("5.00", "05"), replace("5.00", ".5"), replace("5.00", "5."), replace("5.00", ""),
		replace("5.00", "1,000"), replace("5.00", " 5"), replace("5.00", "NaN"), replace("5.00", "0x1"), replace("5.00", `5\u0000`), replace("5.00", "五"),
		opening(`"to":"open","currency":"INR","minimum":"1e2"`),
	},
	ledger.AmountDigits: {replace("5.00", "5.001"), replace("5.00", "5.000"), credit(strings.Replace(strings.Replace(good, "INR", "JPY", 1), "5.00", "5.0", 1)), opening(`"to":"open","currency":"KWD","minimum":"0.0001"`)},
	ledger.AmountRange: {
		replace("5.00", "100000000000000000"), replace("5.00", "-100000000000000000.00"), replace("5.00", strings.Repeat("9", 1000)),
		credit(strings.Replace(strings.Replace(good, "INR", "KWD", 1), "5.00", "99999999999999999.991", 1)),
	},
	ledger.NegativeZero: {replace("5.00", "-0"), replace("5.00", "-0.00"), opening(`"to":"open","currency":"INR","minimum":"-0.0"`)},
	ledger.BadCurrency:  {replace("INR", "inr"), replace("INR", "XXX"), replace("INR", ""), replace("INR", "EURO"), replace("INR", "₹"), opening(`"to":"open","currency":"XAU"`)},
	ledger.BadID: {
		id("ACC-7", ""), id("ACC-7", `a\u0000`), id("ACC-7", `a\nb`), id("ACC-7", " a"), id("ACC-7", "a "), id("ACC-7", "a\u00a0"), id("ACC-7", "a\u200bb"), id("ACC-7", "a\u202eb"),
		id("ACC-7", "e\u0301"), id("ACC-7", strings.Repeat("x", 256)), id(" ACC-7", "x"), id("", "x"), id(`ACC-7\u007f`, "x"), id("\ufeffACC-7", "x"), id("ACC\u00ad-7", "x"),
	},
	ledger.BadTime: {
		replace("10:00:00Z", "10:00:00"), replace("T10:00:00Z", ""), replace("11-30", "02-30"), replace("11-30", "13-01"), replace("11-30", "11-31"), replace("2026-11-30", "2025-02-29"),
		replace("10:00:00Z", "24:00:00Z"), replace("10:00:00Z", "10:60:00Z"), replace("10:00:00Z", "10:00:60Z"), replace("T10", " 10"), replace("T10", "t10"), replace("00Z", "00z"),
		replace("00Z", "00,5Z"), replace("00Z", "00.Z"), replace("T10", "T9"), replace("00Z", "00+24:00"), replace("00Z", "00+05:60"), replace("00Z", "00+0530"), replace("00Z", "00 Z"),
		replace("2026-11-30T10:00:00Z", ""), replace("2026-11-30T10:00:00Z", "yesterday"), replace("2026", "12026"), replace("2026", "-026"),
	},
	ledger.BadTransition: {opening(`"to":"deleted"`), opening(`"to":"Open"`), opening(`"to":""`), opening(`"to":"deleted","currency":"INR"`)},
	ledger.UnknownType:   {credit(good + `,"type":"refund"`), credit(good + `,"type":"Credit"`), credit(good + `,"type":""`), credit(`"type":"refund","memo":null`)},
	ledger.UnsupportedType: {
		credit(good + `,"type":"payment"`), credit(`"type":"settlement","trade_id":"T-1","beneficiary":"B"`), credit(`"order_id":"O-1","type":"order","to":"PAID"`),
	},
	ledger.CloudEventsStructured: {
		withHeaders(raw(whole), "content-type", "application/cloudevents+json; charset=UTF-8"), withHeaders(raw(whole), "Content-Type", "Application/CloudEvents"),
		withHeaders(raw(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":{}}`), "content-type", "application/cloudevents+json"),
		withHeaders(raw("no JSON"), "content-type", "application/cloudevents-batch+json"),
	},
	ledger.CloudEventsInvalid: {
		withHeaders(raw(whole), "ce_specversion", "1.0", "ce_id", "another", "ce_source", "/bank"), withHeaders(raw(whole), "ce_specversion", "0.3", "ce_id", "EVT-1", "ce_source", "/bank"),
		withHeaders(raw(whole), "ce_id", "EVT-1", "ce_source", "/bank"), withHeaders(raw(whole), "ce_specversion", "1.0", "ce_id", "EVT-1"),
		withHeaders(raw(whole), "ce_specversion", "1.0", "ce_source", "/bank"), withHeaders(raw(whole), "ce_type", "credit"),
		withHeaders(raw(whole), "ce_specversion", "1.0", "ce_id", "EVT-1", "ce_source", ""), withHeaders(raw(whole), "ce_specversion", "1.0", "ce_id", "EVT-1", "ce_source", "a\x1fb"),
		withHeaders(raw(whole), "ce_specversion", "1.0", "ce_id", "EVT-1 ", "ce_source", "/bank"),
	},
}

func TestEveryBadInputIsOneDeadLetterWithItsOwnReason(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	for want, messages := range bad {
		for _, m := range messages {
			out := b.send(m)
			if out.Topic != "bank-dead-letters" || reason(out) != want {
				t.Errorf("%+q: %.300s\nis %s %q (%s), want %q", m.key, m.value, out.Topic, reason(out), header(out, pipeline.HeaderMessage), want)
			}
			checkOriginal(t, m, out, b.offset-1)
		}
	}
	// None of them is remembered or applied.
	if u := update(t, b.send(raw(whole))); !u.Applied() || u.Version != 1 || u.Balance.Text() != "5.00" {
		t.Errorf("after all that was refused: %+v", u)
	}
}

func checkOriginal(t *testing.T, m message, out pipeline.Out, offset int64) {
	t.Helper()
	if !bytes.Equal(out.Key, m.key) || !bytes.Equal(out.Value, m.value) || (out.Key == nil) != (m.key == nil) || (out.Value == nil) != (m.value == nil) {
		t.Errorf("%.100s: the dead letter holds other bytes", m.value)
	}
	for i, h := range m.headers {
		if out.Headers[i].Key != h.Key || !bytes.Equal(out.Headers[i].Value, h.Value) {
			t.Errorf("%.100s: header %s was changed", m.value, h.Key)
		}
	}
	if header(out, pipeline.HeaderTopic) != "credit-events" || header(out, pipeline.HeaderOffset) != fmt.Sprint(offset) || len(header(out, pipeline.HeaderMessage)) < 8 {
		t.Errorf("%.100s: the dead letter does not say where it comes from or why: %v", m.value, out.Headers)
	}
}

func TestEveryDeadLetterReasonHasAnInput(t *testing.T) {
	elsewhere := map[ledger.Reason]string{
		ledger.MalformedKey:        "the key is a string here: bytes that are no account id do not equal account_id",
		ledger.WrongPartition:      "TestARecordOnTheWrongPartitionIsADeadLetter",
		ledger.FutureTimestamp:     "TestTimestampsFarAway",
		ledger.OutsideDedupeWindow: "TestTimestampsFarAway",
		ledger.Conflict:            "TestSameIDWithOtherContentIsAConflict",
	}
	for _, row := range ledger.Table() {
		if row.Outcome == ledger.DeadLettered && len(bad[row.Reason]) == 0 && elsewhere[row.Reason] == "" {
			t.Errorf("%q has no input", row.Reason)
		}
	}
}

func TestARecordOnTheWrongPartitionIsADeadLetter(t *testing.T) {
	s := topology.Ledger("bank", topology.Config{}).Stages()[0]
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	here := int32(0)
	for pipeline.Murmur2.Partition([]byte("ACC-7"), 4) == here {
		here++
	}
	b.task = pipeline.NewTask(s, here, 4, b.base, nil)
	if out := b.send(raw(whole)); reason(out) != ledger.WrongPartition {
		t.Errorf("got %q", reason(out))
	}
}

func TestTimestampsFarAway(t *testing.T) {
	long, short := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0)
	b := newBench(t, topology.Config{AutoCreate: true, DedupeWindow: time.Hour}, nil)
	event := func(id string, at time.Time) message {
		m := raw(strings.Replace(whole, "EVT-1", id, 1))
		m.at = at
		return m
	}
	// As occurred_at both are content like any other.
	for i, at := range []string{"2100-01-01T00:00:00Z", "1970-01-01T00:00:00Z"} {
		m := raw(strings.Replace(strings.Replace(whole, "2026-11-30T10:00:00Z", at, 1), "EVT-1", fmt.Sprint("occurred-", i), 1))
		if u := update(t, b.send(m)); !u.Applied() {
			t.Errorf("occurred_at %s: %+v", at, u)
		}
	}
	out := b.send(event("future", long))
	if reason(out) != ledger.FutureTimestamp || header(out, pipeline.HeaderClock) != noon.Format(time.RFC3339) {
		t.Errorf("2100: %q, clock %q", reason(out), header(out, pipeline.HeaderClock))
	}
	// It did not move time: an event of now is new, and one of 1970 may have been applied before anyone remembers.
	if u := update(t, b.send(event("now", noon))); !u.Applied() {
		t.Errorf("now: %+v", u)
	}
	if out := b.send(event("past", short)); reason(out) != ledger.OutsideDedupeWindow {
		t.Errorf("1970: %q", reason(out))
	}
	// A ledger that has seen nothing later takes 1970 as it comes, and remembers it.
	b = newBench(t, topology.Config{AutoCreate: true, DedupeWindow: time.Hour}, nil)
	if u := update(t, b.send(event("past", short))); !u.Applied() {
		t.Errorf("1970 first: %+v", u)
	}
	if out := b.send(event("past", short)); out.Topic != "ledger-skipped" {
		t.Errorf("1970 again: %s", out.Topic)
	}
}

func TestTenMegabytesAreADeadLetterWithoutTheValue(t *testing.T) {
	limits := pipeline.Limits{"bank-dead-letters": 1 << 20, "ledger-updates": 1 << 20}
	b := newBench(t, topology.Config{AutoCreate: true}, limits)
	m := raw(strings.Replace(whole, "EVT-1", strings.Repeat("x", 10<<20), 1))
	out := b.send(m)
	want := fmt.Sprintf("dropped size=%d sha256=%x", len(m.value), sha256.Sum256(m.value))
	if reason(out) != ledger.BadID || out.Value != nil || header(out, pipeline.HeaderValue) != want || string(out.Key) != "ACC-7" {
		t.Errorf("got %q, %d bytes, %q", reason(out), len(out.Value), header(out, pipeline.HeaderValue))
	}
	// White space is no fault: the event is small.
	if u := update(t, b.send(raw(whole+strings.Repeat(" ", 10<<20)))); !u.Applied() {
		t.Errorf("padded: %+v", u)
	}
}

// The processor's clock decides one thing (N7): whether a record is stamped more than an hour ahead of it. Time in the ledger moves
// with the records, so that a clock that jumps neither opens nor closes the window of remembered ids.
func TestClockThatJumpsDecidesNothingButWhatIsAhead(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true, DedupeWindow: time.Hour}, nil)
	event := func(id string) message {
		m := raw(strings.Replace(whole, "EVT-1", id, 1))
		m.at = noon
		return m
	}
	if u := update(t, b.send(event("first"))); !u.Applied() {
		t.Errorf("before: %+v", u)
	}
	b.clock = noon.Add(-3 * time.Hour)
	if out := b.send(event("second")); reason(out) != ledger.FutureTimestamp || header(out, pipeline.HeaderClock) != b.clock.Format(time.RFC3339) {
		t.Errorf("three hours back: %q, clock %q", reason(out), header(out, pipeline.HeaderClock))
	}
	b.clock = noon.Add(72 * time.Hour)
	if out := b.send(event("first")); out.Topic != "ledger-skipped" {
		t.Errorf("three days on, again: %s %q, want a duplicate", out.Topic, reason(out))
	}
	if u := update(t, b.send(event("second"))); !u.Applied() {
		t.Errorf("three days on, the record that was ahead: %+v", u)
	}
}
