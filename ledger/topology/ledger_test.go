package topology_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
)

func TestUpdatesAreTheseBytes(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	redriven := withHeaders(replace("5.00", "0.1"), "redrive.source", "bank-dead-letters/3/12")
	redriven.value = []byte(strings.Replace(string(redriven.value), "EVT-1", "EVT-2", 1))
	cloud := withHeaders(raw(`{"account_id":"ACC-7","type":"debit","amount":"1","currency":"INR","occurred_at":"2026-11-30T10:00:00+05:30"}`),
		"ce_specversion", "1.0", "ce_id", "7 é", "ce_source", "/bank/\"7\"", "ce_type", "x")
	for i, c := range []struct {
		m     message
		topic string
		want  string
	}{
		{raw(whole), "ledger-updates", `{"event_id":"EVT-1","account_id":"ACC-7","type":"credit","outcome":"applied","amount":"5.00","currency":"INR","balance":"5.00","held":"0.00","version":1,"source":{"topic":"credit-events","partition":0,"offset":0}}`},
		{raw(" " + strings.Replace(whole, "5.00", "5", 1)), "ledger-skipped", `{"event_id":"EVT-1","account_id":"ACC-7","reason":"duplicate","first":{"topic":"credit-events","partition":0,"offset":0},"source":{"topic":"credit-events","partition":0,"offset":1}}`},
		{redriven, "ledger-updates", `{"event_id":"EVT-2","account_id":"ACC-7","type":"credit","outcome":"applied","amount":"0.10","currency":"INR","balance":"5.10","held":"0.00","version":2,"redrive_of":{"topic":"bank-dead-letters","partition":3,"offset":12},"source":{"topic":"credit-events","partition":0,"offset":2}}`},
		{cloud, "ledger-updates", `{"event_id":"7 é","event_source":"/bank/\"7\"","account_id":"ACC-7","type":"debit","outcome":"applied","amount":"1.00","currency":"INR","balance":"4.10","held":"0.00","version":3,"source":{"topic":"credit-events","partition":0,"offset":3}}`},
		{raw(`{"event_id":"EVT-3","account_id":"ACC-7","type":"credit","amount":"-1","currency":"INR","occurred_at":"2026-11-30T10:00:00Z"}`), "ledger-updates", `{"event_id":"EVT-3","account_id":"ACC-7","type":"credit","outcome":"rejected","reason":"amount_not_positive","amount":"-1.00","currency":"INR","balance":"4.10","held":"0.00","version":3,"source":{"topic":"credit-events","partition":0,"offset":4}}`},
		{raw(`{"event_id":"EVT-4","account_id":"ACC-7","type":"account","to":"frozen","occurred_at":"2026-11-30T10:00:00Z"}`), "ledger-updates", `{"event_id":"EVT-4","account_id":"ACC-7","type":"account","outcome":"applied","currency":"INR","balance":"4.10","held":"0.00","minimum":"0.00","status":"frozen","version":3,"source":{"topic":"credit-events","partition":0,"offset":5}}`},
		{keyed("NEW", `{"event_id":"EVT-5","account_id":"NEW","type":"account","to":"closed","occurred_at":"2026-11-30T10:00:00Z"}`), "ledger-updates", `{"event_id":"EVT-5","account_id":"NEW","type":"account","outcome":"rejected","reason":"unknown_account","balance":"0","held":"0","version":0,"source":{"topic":"credit-events","partition":0,"offset":6}}`},
		{keyed("NEW", `{"event_id":"EVT-6","account_id":"NEW","type":"credit","amount":"0","currency":"JPY","occurred_at":"2026-11-30T10:00:00Z"}`), "ledger-updates", `{"event_id":"EVT-6","account_id":"NEW","type":"credit","outcome":"rejected","reason":"amount_not_positive","amount":"0","currency":"JPY","balance":"0","held":"0","version":0,"source":{"topic":"credit-events","partition":0,"offset":7}}`},
	} {
		out := b.send(c.m)
		if out.Topic != c.topic || string(out.Value) != c.want {
			t.Errorf("record %d: %s\n got %s\nwant %s %v", i, out.Topic, out.Value, c.want, header(out, pipeline.HeaderMessage))
		}
		if out.Timestamp != noon.UnixMilli() {
			t.Errorf("record %d: the outcome has another time than its input", i)
		}
	}
}

func TestSameIDWithOtherContentIsAConflict(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	b.send(raw("\n" + whole))
	b.send(raw(whole))
	for _, m := range []message{replace("5.00", "5.01"), replace("10:00:00Z", "10:00:01Z"), credit(good + `,"type":"debit"`), replace("INR", "EUR")} {
		out := b.send(m)
		if reason(out) != ledger.Conflict || header(out, pipeline.HeaderFirst) != "credit-events/0/0" {
			t.Errorf("%s: %q, first %q", m.value, reason(out), header(out, pipeline.HeaderFirst))
		}
		checkOriginal(t, m, out, b.offset-1)
	}
	b.commit()
	if out := b.send(replace("5.00", "6")); reason(out) != ledger.Conflict {
		t.Errorf("after the commit: %q", reason(out))
	}
	if out := b.send(raw(whole)); out.Topic != "ledger-skipped" {
		t.Errorf("the first content again: %s", out.Topic)
	}
}

func TestTheSameContentInOtherBytesIsADuplicate(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	b.send(raw(whole))
	for _, m := range []message{
		replace("5.00", "5"), replace("5.00", "5.0"), replace("10:00:00Z", "15:30:00+05:30"), replace("00Z", "00.000Z"), credit(`"type":"credit",` + good),
		raw(`{` + good + `,"account_id":"\u0041CC-7","event_id":"EVT-1"}`), withHeaders(raw(whole), "trace", "x", "content-type", "application/json"),
	} {
		if out := b.send(m); out.Topic != "ledger-skipped" {
			t.Errorf("%s: %s %q", m.value, out.Topic, reason(out))
		}
	}
}

func TestARefusedEventKeepsItsFirstDecision(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	debit := raw(`{"event_id":"D","account_id":"ACC-7","type":"debit","amount":"5","currency":"INR","occurred_at":"2026-11-30T10:00:00Z"}`)
	if u := update(t, b.send(debit)); u.Reason != ledger.UnknownAccount {
		t.Errorf("got %+v", u)
	}
	b.send(raw(whole))
	if out := b.send(debit); out.Topic != "ledger-skipped" {
		t.Errorf("rule 6: with funds, the refused debit is %s", out.Topic)
	}
}

func TestIdentityOfACloudEventIsSourceAndID(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	from := func(source string) message {
		return withHeaders(raw(whole), "ce_specversion", "1.0", "ce_id", "EVT-1", "ce_source", source)
	}
	for i, m := range []message{raw(whole), from("/a"), from("/b")} {
		if u := update(t, b.send(m)); u.Version != int64(i+1) {
			t.Errorf("record %d: %+v", i, u)
		}
	}
	if out := b.send(from("/a")); out.Topic != "ledger-skipped" {
		t.Errorf("again from /a: %s", out.Topic)
	}
	last := withHeaders(raw(whole), "ce_specversion", "1.0", "ce_id", "x", "ce_id", "EVT-1", "ce_source", "/b")
	if out := b.send(last); out.Topic != "ledger-skipped" {
		t.Errorf("the last ce_id counts: %s", out.Topic)
	}
}

func TestUnknownAccountsStayUnknownUnlessCreditsMayOpenThem(t *testing.T) {
	b := newBench(t, topology.Config{}, nil)
	if u := update(t, b.send(raw(whole))); u.Reason != ledger.UnknownAccount || u.Version != 0 {
		t.Errorf("got %+v", u)
	}
	opened := update(t, b.send(raw(`{"event_id":"O","account_id":"ACC-7","type":"account","to":"open","currency":"INR","minimum":"-1","occurred_at":"2026-11-30T10:00:00Z"}`)))
	if !opened.Applied() || opened.Minimum.Text() != "-1.00" || opened.Status != ledger.Open || opened.Version != 0 {
		t.Errorf("got %+v", opened)
	}
}

func TestAHeaderThatIsNoPositionIsIgnored(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true}, nil)
	for _, h := range []string{"", "x", "/1/2", "x/1", "x/-1/2", "x/1/-2", "x/1/y", "x/99999999999/1"} {
		m := withHeaders(raw(strings.Replace(whole, "EVT-1", "e"+h, 1)), "redrive.source", h)
		if u := update(t, b.send(m)); u.RedriveOf != (ledger.Position{}) || !u.Applied() {
			t.Errorf("%q: %+v", h, u)
		}
	}
}

func TestAnIDIsForgottenBehindTheWindow(t *testing.T) {
	b := newBench(t, topology.Config{AutoCreate: true, DedupeWindow: time.Hour}, nil)
	send := func(m message, at time.Duration) pipeline.Out {
		m.at, b.clock = noon.Add(at), noon.Add(at)
		return b.send(m)
	}
	send(raw(whole), 0)
	b.commit()
	send(raw(strings.Replace(whole, "EVT-1", "EVT-2", 1)), 3*time.Hour)
	late := raw(whole)
	late.at = noon // as stamped by its producer, long ago
	b.clock = noon.Add(3 * time.Hour)
	if out := b.send(late); reason(out) != ledger.OutsideDedupeWindow {
		t.Errorf("got %s %q", out.Topic, reason(out))
	}
}
