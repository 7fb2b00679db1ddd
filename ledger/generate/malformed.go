package generate

import (
	"slices"
	"strings"

	"github.com/tallystick/tallystick/ledger"
)

// fault is one way to spoil a well-formed credit.
type fault struct {
	reason ledger.Reason
	spoil  func(g *Generator, e *event, r *Record)
}

// spoilt spoils by the raw JSON of one member.
func spoilt(reason ledger.Reason, name string, raws ...string) (faults []fault) {
	for _, raw := range raws {
		faults = append(faults, fault{reason, func(g *Generator, e *event, r *Record) {
			g.set(name, raw)
			r.Value = g.render(e.style)
		}})
	}
	return faults
}

// bytesOf spoils by the bytes of the whole value.
func bytesOf(reason ledger.Reason, change func(v []byte) []byte) fault {
	return fault{reason, func(_ *Generator, _ *event, r *Record) { r.Value = change(r.Value) }}
}

func missing(name string) fault {
	return fault{ledger.MissingMember, func(g *Generator, e *event, r *Record) {
		g.drop(name)
		r.Value = g.render(e.style)
	}}
}

func keyed(reason ledger.Reason, change func(key []byte) []byte) fault {
	return fault{reason, func(_ *Generator, _ *event, r *Record) { r.Key = change(r.Key) }}
}

// withHeaders spoils by headers, beside a body that is well formed.
func withHeaders(reason ledger.Reason, headers ...string) fault {
	return fault{reason, func(_ *Generator, _ *event, r *Record) {
		r.Headers = nil
		for i := 0; i < len(headers); i += 2 {
			r.Headers = append(r.Headers, Header{headers[i], []byte(headers[i+1])})
		}
	}}
}

// control spoils an account event, whose members are given raw, in pairs.
func control(reason ledger.Reason, members ...string) fault {
	return fault{reason, func(g *Generator, e *event, r *Record) {
		g.set("type", `"account"`)
		g.drop("amount")
		g.drop("currency")
		for i := 0; i < len(members); i += 2 {
			g.set(members[i], members[i+1])
		}
		r.Value = g.render(e.style)
	}}
}

// faults lists every kind of malformed input; they are taken in turn.
func faults() []fault {
	return slices.Concat(keyFaults(), jsonFaults(), memberFaults(), amountFaults(), textFaults(), typeFaults(), cloudFaults())
}

func keyFaults() []fault {
	return []fault{
		keyed(ledger.NullKey, func([]byte) []byte { return nil }),
		keyed(ledger.KeyMismatch, func([]byte) []byte { return []byte{} }),
		keyed(ledger.KeyMismatch, func(k []byte) []byte { return append(k, '\n') }),
		keyed(ledger.KeyMismatch, func(k []byte) []byte { return append(k, "-other"...) }),
	}
}

func jsonFaults() []fault {
	return []fault{
		bytesOf(ledger.NullValue, func([]byte) []byte { return nil }),
		bytesOf(ledger.EmptyValue, func([]byte) []byte { return []byte{} }),
		bytesOf(ledger.MalformedJSON, func(v []byte) []byte { return v[:len(v)/2] }),
		bytesOf(ledger.MalformedJSON, func(v []byte) []byte { return append(v, '}') }),
		bytesOf(ledger.MalformedJSON, func(v []byte) []byte { return append(v, v...) }),
		bytesOf(ledger.MalformedJSON, func(v []byte) []byte { return append([]byte("\ufeff"), v...) }),
		bytesOf(ledger.MalformedJSON, func(v []byte) []byte { return append([]byte{0, 0, 0, 0, 7}, v...) }), // a schema registry's
		bytesOf(ledger.MalformedJSON, func([]byte) []byte { return []byte("hello, world") }),
		bytesOf(ledger.MalformedJSON, func(v []byte) []byte { return slices.Concat([]byte("["), v, []byte("]")) }),
		bytesOf(ledger.MalformedJSON, func(v []byte) []byte { return append(v[:len(v)-1], ",}"...) }),
	}
}

func memberFaults() []fault {
	return slices.Concat(
		spoilt(ledger.MalformedJSON, "account_id", "\"ACC-\xff\"", `'ACC-1'`, `"ACC-\x41"`),
		[]fault{
			bytesOf(ledger.DuplicateName, func(v []byte) []byte { return append(v[:len(v)-1], `,"currency":"EUR"}`...) }),
			bytesOf(ledger.DuplicateName, func(v []byte) []byte { return append(v[:len(v)-1], `,"\u0063urrency":"EUR"}`...) }),
		},
		spoilt(ledger.UnknownName, "memo", `"hi"`),
		spoilt(ledger.UnknownName, "Amount", `"1"`),
		spoilt(ledger.UnknownName, "to", `"open"`),
		spoilt(ledger.UnknownName, "version", `1`),
		spoilt(ledger.NullMember, "event_id", `null`),
		spoilt(ledger.NullMember, "type", `null`),
		spoilt(ledger.NullMember, "amount", `null`),
		spoilt(ledger.NullMember, "occurred_at", `null`),
		[]fault{missing("event_id"), missing("account_id"), missing("amount"), missing("currency"), missing("occurred_at")},
		spoilt(ledger.WrongType, "event_id", `17`, `["EVT-1"]`),
		spoilt(ledger.WrongType, "account_id", `{}`),
		spoilt(ledger.WrongType, "currency", `true`),
		spoilt(ledger.WrongType, "occurred_at", `1767225600`),
	)
}

func amountFaults() []fault {
	return slices.Concat(
		spoilt(ledger.AmountNotString, "amount", `5`, `5.00`, `1e3`, `-0`),
		spoilt(ledger.AmountSyntax, "amount", `"1e3"`, `"1E-2"`, `"+5"`, `"05"`, `".5"`, `"5."`, `"1,000"`, `" 5"`, `""`, `"NaN"`, `"٥"`, `"5\u0000"`),
		spoilt(ledger.AmountDigits, "amount", `"1.00000"`, `"0.00001"`),
		spoilt(ledger.AmountRange, "amount", `"100000000000000000"`, `"-100000000000000000"`, `"`+strings.Repeat("9", 400)+`"`),
		spoilt(ledger.NegativeZero, "amount", `"-0"`),
		spoilt(ledger.BadCurrency, "currency", `"inr"`, `"XXX"`, `""`, `"EURO"`, `"₹"`),
	)
}

func textFaults() []fault {
	bad := []string{`""`, `"a\u0000"`, `"a\n"`, `" a"`, `"a "`, `"a\u00a0"`, `"a\u200bb"`, `"\ufeffa"`, `"a\u202eb"`, `"e\u0301"`, `"` + strings.Repeat("x", 256) + `"`}
	return slices.Concat(
		spoilt(ledger.BadID, "event_id", bad...),
		spoilt(ledger.BadID, "account_id", bad...),
		spoilt(ledger.BadTime, "occurred_at", `"2026-11-30T10:00:00"`, `"2026-11-30"`, `"2026-02-30T10:00:00Z"`, `"2026-13-01T10:00:00Z"`,
			`"2026-11-30T24:00:00Z"`, `"2026-11-30T10:00:60Z"`, `"2026-11-30 10:00:00Z"`, `"2026-11-30T10:00:00,5Z"`, `"2026-11-30T9:00:00Z"`,
			`"2026-11-30T10:00:00+24:00"`, `"yesterday"`, `""`),
	)
}

func typeFaults() []fault {
	return slices.Concat(
		spoilt(ledger.UnsupportedType, "type", `"payment"`, `"settlement"`, `"order"`),
		spoilt(ledger.UnknownType, "type", `"refund"`, `"Credit"`, `""`),
		[]fault{
			control(ledger.BadTransition, "to", `"deleted"`),
			control(ledger.MissingMember),
			control(ledger.MissingMember, "to", `"open"`),
			control(ledger.UnknownName, "to", `"frozen"`, "currency", `"EUR"`),
			control(ledger.UnknownName, "to", `"closed"`, "minimum", `"0"`),
			control(ledger.UnknownName, "to", `"open"`, "currency", `"EUR"`, "amount", `"1"`),
			control(ledger.AmountNotString, "to", `"open"`, "currency", `"EUR"`, "minimum", `0`),
			control(ledger.AmountDigits, "to", `"open"`, "currency", `"JPY"`, "minimum", `"0.0"`),
		},
	)
}

func cloudFaults() []fault {
	return []fault{
		withHeaders(ledger.CloudEventsStructured, "content-type", "application/cloudevents+json; charset=utf-8"),
		withHeaders(ledger.CloudEventsInvalid, "ce_specversion", "1.0", "ce_id", "another id", "ce_source", "/bank"),
		withHeaders(ledger.CloudEventsInvalid, "ce_specversion", "0.3", "ce_id", "x", "ce_source", "/bank"),
		withHeaders(ledger.CloudEventsInvalid, "ce_id", "x", "ce_source", "/bank"),
		withHeaders(ledger.CloudEventsInvalid, "ce_specversion", "1.0", "ce_id", "x"),
		withHeaders(ledger.CloudEventsInvalid, "ce_specversion", "1.0", "ce_source", "/bank"),
		withHeaders(ledger.CloudEventsInvalid, "ce_specversion", "1.0", "ce_id", "x", "ce_source", ""),
	}
}

// malformed spoils a credit that no ledger ever sees.
func (g *Generator) malformed() Record {
	f := g.faults[g.fault%len(g.faults)]
	g.fault++
	a := g.anyAccount()
	e := event{id: g.newID(), typ: "credit", account: a.id, amount: "5", currency: a.currency, at: epoch + int64(g.made)}
	r := g.record(e, Class{ledger.DeadLettered, f.reason})
	f.spoil(g, &e, &r)
	return r
}
