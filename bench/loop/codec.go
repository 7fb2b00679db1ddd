package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/record"
)

// codec is how the loop reads events and writes updates.
type codec struct {
	decode func(value []byte) (event, error)
	append func(dst []byte, e event, a *account, r *kgo.Record) ([]byte, error)
}

type event struct {
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
	AccountID  string `json:"account_id"`
	Amount     string `json:"amount"`
	Currency   string `json:"currency"`
	OccurredAt string `json:"occurred_at"`
}

type update struct {
	EventID   string   `json:"event_id"`
	AccountID string   `json:"account_id"`
	Type      string   `json:"type"`
	Outcome   string   `json:"outcome"`
	Amount    string   `json:"amount"`
	Currency  string   `json:"currency"`
	Balance   string   `json:"balance"`
	Held      string   `json:"held"`
	Version   int64    `json:"version"`
	Source    position `json:"source"`
}

type position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// strict is the library's own codec, as a user's types get it.
var strict = codec{record.JSON[event]().Decode, func(dst []byte, e event, a *account, r *kgo.Record) ([]byte, error) {
	return updateCodec.Append(dst, update{
		EventID: e.EventID, AccountID: e.AccountID, Type: e.Type, Outcome: "applied", Amount: e.Amount, Currency: e.Currency,
		Balance: string(appendCents(nil, a.cents)), Held: "0.00", Version: a.version, Source: position{r.Topic, r.Partition, r.Offset},
	})
}}

var updateCodec = record.JSON[update]()

// byHand scans and writes the plain shape, and refuses everything else: what JSON costs at least.
var byHand = codec{scan, appendByHand}

// read decodes an event and what the loop wants to know of it.
func (c codec) read(r *kgo.Record) (e event, x id, amount int64, err error) {
	if e, err = c.decode(r.Value); err != nil {
		return
	}
	if e.Type != "credit" || e.AccountID != string(r.Key) {
		return e, x, 0, fmt.Errorf("type %q, account %q: want a credit for %q", e.Type, e.AccountID, r.Key)
	}
	if amount, err = parseCents(e.Amount); err == nil {
		x, err = parseID(e.EventID)
	}
	return
}

func parseID(text string) (x id, err error) {
	var d [32]byte
	if len(text) != 36 {
		return x, fmt.Errorf("event_id %q is no UUID", text)
	}
	copy(d[:8], text)
	copy(d[8:12], text[9:])
	copy(d[12:16], text[14:])
	copy(d[16:20], text[19:])
	copy(d[20:], text[24:])
	_, err = hex.Decode(x[:], d[:])
	return x, err
}

func parseCents(text string) (int64, error) {
	units, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(units, 10, 53)
	m, err2 := strconv.ParseUint(fraction, 10, 7)
	if err = errors.Join(err, err2); err != nil || len(fraction) != 2 {
		return 0, fmt.Errorf("amount %q: %w", text, err)
	}
	return int64(n*100 + m), nil
}

var errShape = errors.New("no event in the plain shape")

// scan allocates once: the fields are parts of one string.
func scan(value []byte) (e event, err error) {
	s := string(value)
	if len(s) < 2 || s[0] != '{' {
		return e, errShape
	}
	for i := 1; ; i++ {
		name, j, ok := scanString(s, i)
		if !ok || j == len(s) || s[j] != ':' {
			return e, errShape
		}
		value, j, ok := scanString(s, j+1)
		field := e.field(name)
		if !ok || j == len(s) || field == nil || *field != "" {
			return e, errShape
		}
		*field = value
		if i = j; s[i] == '}' && i == len(s)-1 {
			return e, nil
		}
		if s[i] != ',' {
			return e, errShape
		}
	}
}

func (e *event) field(name string) *string {
	switch name {
	case "event_id":
		return &e.EventID
	case "type":
		return &e.Type
	case "account_id":
		return &e.AccountID
	case "amount":
		return &e.Amount
	case "currency":
		return &e.Currency
	case "occurred_at":
		return &e.OccurredAt
	}
	return nil
}

func scanString(s string, i int) (text string, next int, ok bool) {
	if i >= len(s) || s[i] != '"' {
		return "", i, false
	}
	for j := i + 1; j < len(s); j++ {
		switch c := s[j]; {
		case c == '"':
			return s[i+1 : j], j + 1, true
		case c < ' ' || c > '~' || c == '\\':
			return "", i, false
		}
	}
	return "", i, false
}

func appendByHand(b []byte, e event, a *account, r *kgo.Record) ([]byte, error) {
	b = append(append(b, `{"event_id":"`...), e.EventID...)
	b = append(append(b, `","account_id":"`...), e.AccountID...)
	b = append(append(b, `","type":"`...), e.Type...)
	b = append(append(b, `","outcome":"applied","amount":"`...), e.Amount...)
	b = append(append(b, `","currency":"`...), e.Currency...)
	b = appendCents(append(b, `","balance":"`...), a.cents)
	b = strconv.AppendInt(append(b, `","held":"0.00","version":`...), a.version, 10)
	b = append(append(b, `,"source":{"topic":"`...), r.Topic...)
	b = strconv.AppendInt(append(b, `","partition":`...), int64(r.Partition), 10)
	b = strconv.AppendInt(append(b, `,"offset":`...), r.Offset, 10)
	return append(b, "}}"...), nil
}

func appendCents(b []byte, n int64) []byte {
	b = append(strconv.AppendInt(b, n/100, 10), '.', byte('0'+n%100/10), byte('0'+n%10))
	return b
}
