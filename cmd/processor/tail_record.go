package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/twmb/franz-go/pkg/kgo"
)

// recordText is a key or value in JSON, without loss: null is null, UTF-8 is a string, other bytes are {"base64": "…"}.
type recordText []byte

func (b recordText) append(dst []byte) []byte {
	switch {
	case b == nil:
		return append(dst, "null"...)
	case utf8.Valid(b):
		dst, _ = jsontext.AppendQuote(dst, string(b)) // fails on invalid UTF-8 only
		return dst
	}
	dst = append(dst, `{"base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, b), `"}`...)
}

// UnmarshalJSON reads what append wrote.
func (b *recordText) UnmarshalJSON(src []byte) error {
	if len(src) > 0 && src[0] == '{' {
		var v struct {
			Base64 []byte `json:"base64"`
		}
		if err := json.Unmarshal(src, &v); err != nil {
			return err
		}
		*b = v.Base64
		return nil
	}
	var s *string
	if err := json.Unmarshal(src, &s); err != nil {
		return err
	}
	if *b = nil; s != nil {
		*b = append([]byte{}, *s...)
	}
	return nil
}

// tailRecord is one record as tail -o jsonl writes it and feed --from-tail reads it.
type tailRecord struct {
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Timestamp time.Time    `json:"timestamp"`
	Key       recordText   `json:"key"`
	Value     recordText   `json:"value"`
	Headers   []tailHeader `json:"headers"`
}

type tailHeader struct {
	Key   string     `json:"key"`
	Value recordText `json:"value"`
}

// appendJSON writes the record as one object on one line. Headers keep their order and repeated names; a record without any
// has no member headers.
func appendJSON(dst []byte, r *kgo.Record) []byte {
	dst, _ = jsontext.AppendQuote(append(dst, `{"topic":`...), r.Topic)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(r.Partition), 10)
	dst = strconv.AppendInt(append(dst, `,"offset":`...), r.Offset, 10)
	dst = append(r.Timestamp.UTC().AppendFormat(append(dst, `,"timestamp":"`...), timestampLayout), '"')
	dst = recordText(r.Key).append(append(dst, `,"key":`...))
	dst = recordText(r.Value).append(append(dst, `,"value":`...))
	for i, h := range r.Headers {
		dst = append(dst, [2]string{`,"headers":[`, `,`}[min(i, 1)]...)
		dst, _ = jsontext.AppendQuote(append(dst, `{"key":`...), strings.ToValidUTF8(h.Key, "\uFFFD"))
		dst = append(recordText(h.Value).append(append(dst, `,"value":`...)), '}')
	}
	if len(r.Headers) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// timestampLayout is RFC 3339 to the millisecond, which is all that Kafka keeps.
const timestampLayout = "2006-01-02T15:04:05.000Z07:00"

// appendText writes the record as one line for people: position, time, key, value, headers, separated by tabs.
func appendText(dst []byte, r *kgo.Record) []byte {
	dst = fmt.Appendf(dst, "%d/%d\t%s\t%s\t%s", r.Partition, r.Offset, r.Timestamp.UTC().Format(timestampLayout), shown(r.Key), shown(r.Value))
	for i, h := range r.Headers {
		dst = append(dst, "\t "[min(i, 1)])
		dst = append(append(append(dst, shown([]byte(h.Key))...), '='), shown(h.Value)...)
	}
	return append(dst, '\n')
}

// shown makes any bytes one printable word or text: null is null, nothing is "", and what could be taken for either, or would
// break the line, is quoted.
func shown(b []byte) string {
	if b == nil {
		return "null"
	}
	s := string(b)
	if s == "" || s == "null" || s[0] == '"' || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
