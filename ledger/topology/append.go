package topology

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/money"
)

// object appends the members of one JSON object. It is written by hand, since these objects are most of what the ledger
// spends; a test compares it with the library's encoder.
type object struct {
	b   []byte
	err error
	any bool
}

func (o *object) name(name string) {
	if o.any {
		o.b = append(o.b, ',', '"')
	} else {
		o.b, o.any = append(o.b, '{', '"'), true
	}
	o.b = append(append(o.b, name...), '"', ':')
}

func (o *object) text(name, value string) {
	o.name(name)
	if plainText(value) {
		o.b = append(append(append(o.b, '"'), value...), '"')
		return
	}
	var err error
	if o.b, err = jsontext.AppendQuote(o.b, value); err != nil {
		o.err = errors.Join(o.err, fmt.Errorf("%s: %w", name, err))
	}
}

// word is text for what may be absent.
func (o *object) word(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *object) amount(name string, a money.Amount) {
	o.name(name)
	o.b, _ = a.AppendText(append(o.b, '"'))
	o.b = append(o.b, '"')
}

func (o *object) amountIf(name string, a money.Amount) {
	if a != (money.Amount{}) {
		o.amount(name, a)
	}
}

func (o *object) number(name string, n int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

func (o *object) position(name string, p ledger.Position) {
	o.name(name)
	inner := object{b: o.b}
	inner.text("topic", p.Topic)
	inner.number("partition", int64(p.Partition))
	inner.number("offset", p.Offset)
	o.b, o.err = inner.end(), errors.Join(o.err, inner.err)
}

func (o *object) instant(name string, t time.Time) {
	o.name(name)
	var err error
	if o.b, err = t.UTC().AppendText(append(o.b, '"')); err != nil {
		o.err = errors.Join(o.err, fmt.Errorf("%s: %w", name, err))
	}
	o.b = append(o.b, '"')
}

func (o *object) end() []byte { return append(o.b, '}') }

// plainText reports whether s is printable ASCII that JSON does not escape.
func plainText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (eventCodec) Append(dst []byte, e ledger.Event) ([]byte, error) {
	o := object{b: dst}
	o.word("event_id", e.EventID)
	o.text("type", string(e.Type))
	o.text("account_id", e.AccountID)
	o.amountIf("amount", e.Amount)
	o.word("currency", string(e.Currency))
	o.instant("occurred_at", e.OccurredAt)
	o.word("to", string(e.To))
	o.amountIf("minimum", e.Minimum)
	return o.end(), o.err
}

func (updateCodec) Append(dst []byte, u ledger.Update) ([]byte, error) {
	o := object{b: dst}
	o.text("event_id", u.EventID)
	o.word("event_source", u.EventSource)
	o.text("account_id", u.AccountID)
	o.text("type", string(u.Type))
	o.text("outcome", string(u.Outcome))
	o.word("reason", string(u.Reason))
	o.amountIf("amount", u.Amount)
	o.word("currency", string(u.Currency))
	o.amount("balance", u.Balance)
	o.amount("held", u.Held)
	o.amountIf("minimum", u.Minimum)
	o.word("status", string(u.Status))
	o.number("version", u.Version)
	if u.RedriveOf != (ledger.Position{}) {
		o.position("redrive_of", u.RedriveOf)
	}
	o.position("source", u.Source)
	return o.end(), o.err
}

func (skippedCodec) Append(dst []byte, s ledger.Skipped) ([]byte, error) {
	o := object{b: dst}
	o.text("event_id", s.EventID)
	o.text("account_id", s.AccountID)
	o.text("reason", string(s.Reason))
	o.position("first", s.First)
	o.position("source", s.Source)
	return o.end(), o.err
}

func (accountCodec) Append(dst []byte, a ledger.Account) ([]byte, error) {
	if err := a.Check(); err != nil {
		return dst, err
	}
	o := object{b: dst}
	o.text("currency", string(a.Currency))
	o.amount("balance", a.Balance)
	o.amount("held", a.Held)
	o.amount("minimum", a.Minimum)
	o.text("status", string(a.Status))
	o.number("version", a.Version)
	return o.end(), o.err
}
