package generate

import (
	"strconv"
	"time"

	"github.com/tallystick/tallystick/ledger"
)

// event is an event before it is written down; texts that are "" are left out.
type event struct {
	id, source       string // source: of a CloudEvent
	typ, account     string
	amount, currency string
	at               int64 // seconds since 1970
	to, minimum      string
	style            style
}

// style is the spelling of an event: bits that change bytes and not content.
type style uint32

const (
	reversed     style = 1 << iota // members from last to first
	spaced                         // white space between the tokens
	noType                         // a credit need not say so
	shortAmount                    // zeros at the end left out
	zoned                          // another zone, the same instant
	escaped                        // the first letter of the account as \u escape
	bodyID                         // a CloudEvent that repeats its id in the body
	plainStyle   style = 0
	styleChoices       = 1 << 3 // one record in so many is spelt in an unusual way
)

type member struct{ name, raw string }

// epoch is when the first event occurred.
const epoch = 1767225600 // 2026-01-01T00:00:00Z

// event begins a new event for an account.
func (g *Generator) event(a *account, typ string) event {
	e := event{id: g.newID(), typ: typ, account: a.id, at: epoch + int64(g.made)}
	switch g.rng.IntN(64) {
	case 0:
		e.at = 0 // 1970: old, and content like any other
	case 1:
		e.at = 4102444800 // 2100
	case 2, 3, 4, 5:
		e.source = "/bank/branch-7"
	}
	if g.rng.IntN(styleChoices) == 0 {
		e.style = style(g.rng.Uint32())
	}
	return e
}

func (g *Generator) newID() string {
	return "EVT-" + strconv.FormatUint(g.cfg.Seed, 36) + "-" + strconv.Itoa(g.made)
}

// record writes an event down under its account's key.
func (g *Generator) record(e event, class Class) Record {
	g.describe(e)
	return Record{Key: []byte(e.account), Value: g.render(e.style), Headers: e.headers(), Class: class}
}

// describe lists the members of an event in g.members.
func (g *Generator) describe(e event) {
	g.members = g.members[:0]
	if e.source == "" || e.style&bodyID != 0 {
		g.add("event_id", quote(e.id))
	}
	if e.typ != "credit" || e.style&noType == 0 {
		g.add("type", quote(e.typ))
	}
	account := quote(e.account)
	if e.style&escaped != 0 && e.account[0] == 'A' {
		account = `"\u0041` + account[2:]
	}
	g.add("account_id", account)
	if e.amount != "" {
		g.add("amount", quote(spell(e.amount, e.style)))
	}
	if e.currency != "" {
		g.add("currency", quote(e.currency))
	}
	g.add("occurred_at", quote(instant(e.at, e.style)))
	if e.to != "" {
		g.add("to", quote(e.to))
	}
	if e.minimum != "" {
		g.add("minimum", quote(spell(e.minimum, e.style)))
	}
}

func (g *Generator) add(name, raw string) { g.members = append(g.members, member{name, raw}) }

// set replaces the raw JSON of a member, or adds it.
func (g *Generator) set(name, raw string) {
	for i := range g.members {
		if g.members[i].name == name {
			g.members[i].raw = raw
			return
		}
	}
	g.add(name, raw)
}

func (g *Generator) drop(name string) {
	kept := g.members[:0]
	for _, m := range g.members {
		if m.name != name {
			kept = append(kept, m)
		}
	}
	g.members = kept
}

// render writes g.members as a JSON object.
func (g *Generator) render(s style) []byte {
	b := append(make([]byte, 0, 224), '{')
	for i := range g.members {
		m := g.members[i]
		if s&reversed != 0 {
			m = g.members[len(g.members)-1-i]
		}
		if i > 0 {
			b = append(b, ',')
		}
		if s&spaced != 0 {
			b = append(b, "\n\t "...)
		}
		b = append(append(append(b, '"'), m.name...), '"', ':')
		b = append(b, m.raw...)
	}
	return append(b, '}')
}

// quote makes a JSON string of a text that needs no escapes.
func quote(s string) string { return `"` + s + `"` }

// spell leaves zeros at the end of a fraction out, when the style says so.
func spell(amount string, s style) string {
	if s&shortAmount == 0 {
		return amount
	}
	point := -1
	for i := range len(amount) {
		if amount[i] == '.' {
			point = i
		}
	}
	if point < 0 {
		return amount
	}
	end := len(amount)
	for amount[end-1] == '0' {
		end--
	}
	if end-1 == point {
		end--
	}
	return amount[:end]
}

func instant(at int64, s style) string {
	zone := time.UTC
	if s&zoned != 0 {
		zone = time.FixedZone("", 5*3600+30*60)
	}
	return time.Unix(at, 0).In(zone).Format(time.RFC3339)
}

// headers makes the binary mode of CloudEvents.
func (e *event) headers() []Header {
	if e.source == "" {
		return nil
	}
	return []Header{
		{"content-type", []byte("application/json")},
		{"ce_specversion", []byte("1.0")},
		{"ce_id", []byte(e.id)},
		{"ce_source", []byte(e.source)},
		{"ce_type", []byte("bank." + e.typ)},
	}
}

var applied = Class{Outcome: ledger.Applied}

// otherAmount changes the last digit, and leaves amounts in range.
func otherAmount(amount string) string {
	last := amount[len(amount)-1]
	if last == '9' {
		last = '7'
	}
	return amount[:len(amount)-1] + string(last+1)
}
