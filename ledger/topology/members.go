package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/record"
)

// The members of an event, in the order in which they are written.
const (
	eventID = iota
	typ
	accountID
	amount
	currency
	occurredAt
	to
	minimum
	memberCount
	noMember = -1
)

func memberOf(name []byte) int {
	switch string(name) {
	case "event_id":
		return eventID
	case "type":
		return typ
	case "account_id":
		return accountID
	case "amount":
		return amount
	case "currency":
		return currency
	case "occurred_at":
		return occurredAt
	case "to":
		return to
	case "minimum":
		return minimum
	}
	return noMember
}

func memberName(m int) string {
	return [...]string{"event_id", "type", "account_id", "amount", "currency", "occurred_at", "to", "minimum"}[m]
}

// members are the texts of an event's members, unescaped; nil is absent. They may alias the source.
type members [memberCount][]byte

func malformed(reason ledger.Reason, format string, args ...any) error {
	return &record.MalformedError{Reason: string(reason), Err: fmt.Errorf(format, args...)}
}

func malformedBy(reason ledger.Reason, err error) error {
	return &record.MalformedError{Reason: string(reason), Err: err}
}

// read fills m from any JSON and finds what is wrong with it. broken says that the value is no JSON object at all; first is
// the first member that is wrong in itself.
func (m *members) read(src []byte) (first, broken error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(src)) // a Buffer is read in place, so values alias src
	if kind := d.PeekKind(); kind != '{' && kind != 0 {
		return nil, malformed(ledger.MalformedJSON, "the value is a JSON %s: an event is an object", kindName(kind))
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, jsonError(err)
	}
	for d.PeekKind() != '}' {
		wrong, err := m.readMember(d)
		if err != nil {
			return nil, jsonError(err)
		}
		if first == nil {
			first = wrong
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, jsonError(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, malformed(ledger.MalformedJSON, "data behind the object: a record holds one event")
	}
	return first, nil
}

func (m *members) readMember(d *jsontext.Decoder) (wrong, err error) {
	rawName, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	name, err := unquote(rawName)
	if err != nil {
		return nil, err
	}
	raw, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	i := memberOf(name)
	if i == noMember {
		return malformed(ledger.UnknownName, "%s", unknownName(name)), nil
	}
	if raw.Kind() != '"' {
		return notAString(i, raw), nil
	}
	m[i], err = unquote(raw)
	return nil, err
}

// unquote returns the contents of a JSON string, never nil; they alias it when nothing is escaped.
func unquote(raw jsontext.Value) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1 : len(raw)-1], nil
	}
	return jsontext.AppendUnquote([]byte{}, raw)
}

func jsonError(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return malformedBy(ledger.DuplicateName, err)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return malformedBy(ledger.MalformedJSON, err)
}

func unknownName(name []byte) string {
	if i := memberOf(bytes.ToLower(name)); i != noMember {
		return fmt.Sprintf("member %.40q: did you mean %q?", name, memberName(i))
	}
	return fmt.Sprintf("member %.40q: an event has no such member", name)
}

func notAString(i int, raw jsontext.Value) error {
	name, kind := memberName(i), raw.Kind()
	switch {
	case kind == 'n':
		return malformed(ledger.NullMember, "member %q is null: leave it out or give it a value", name)
	case kind == '0' && (i == amount || i == minimum):
		return malformed(ledger.AmountNotString, "member %q is the number %.40s: write it as a string, since numbers lose digits on the way", name, raw)
	}
	return malformed(ledger.WrongType, "member %q is a JSON %s: it must be a string", name, kindName(kind))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '0':
		return "number"
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	case 'n':
		return "null"
	}
	return "boolean"
}
