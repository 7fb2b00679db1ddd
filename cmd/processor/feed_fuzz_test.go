package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// FuzzFeedReadsWhatTailWrote: any record comes back from its line as it was, null and nothing told apart.
func FuzzFeedReadsWhatTailWrote(f *testing.F) {
	f.Add([]byte("k"), []byte(`{"base64":"eA=="}`), "h", []byte("\xff"), byte(0), int64(0))
	f.Add([]byte("null"), []byte{}, "", []byte("\u2028<&>\x00"), byte(1|2|4), int64(1<<40))
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, nulls byte, ms int64) {
		if !utf8.ValidString(name) || ms < 0 || ms > 253402300799999 { // a header's name is UTF-8 by protocol; RFC 3339 ends with 9999
			return
		}
		in := &kgo.Record{Topic: "t", Key: orNull(key, nulls&1), Value: orNull(value, nulls&2), Timestamp: time.UnixMilli(ms),
			Headers: []kgo.RecordHeader{{Key: name, Value: orNull(header, nulls&4)}, {Key: name}}}
		line := append(appendJSON(nil, in), '\n')
		if bytes.IndexByte(line, '\n') != len(line)-1 || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
		out, _, err := tailLines{newLines(bytes.NewReader(line)), false}.next()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !same(in.Key, out.Key) || !same(in.Value, out.Value) || !in.Timestamp.Equal(out.Timestamp) || len(out.Headers) != 2 {
			t.Fatalf("%+v became %+v", in, out)
		}
		for i, h := range out.Headers {
			if h.Key != in.Headers[i].Key || !same(h.Value, in.Headers[i].Value) {
				t.Fatalf("header %d: %+v became %+v", i, in.Headers[i], h)
			}
		}
	})
}

func orNull(b []byte, null byte) []byte {
	if null != 0 {
		return nil
	}
	return append([]byte{}, b...)
}

func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// FuzzAccountKeyAgreesWithAnotherDecoder compares with encoding/json where that has an opinion: on objects that it accepts.
func FuzzAccountKeyAgreesWithAnotherDecoder(f *testing.F) {
	for _, s := range []string{`{"account_id":"a"}`, `{"x":{"account_id":"no"},"account_id":"\u0061"}`, `{"account_id":1}`, `[]`, `{"account_id":null}`, `{"Account_id":"x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got := accountKey(line)
		if !utf8.Valid(line) {
			return // encoding/json repairs what is no UTF-8, the names then differ
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(line, &members) != nil || bytes.Count(line, []byte("account_id")) > 1 || bytes.Contains(line, []byte(`\`)) {
			return
		}
		var id *string
		if err := json.Unmarshal(members["account_id"], &id); err != nil || id == nil {
			if got != nil {
				t.Fatalf("%s: key %q, want none", line, got)
			}
			return
		}
		if got == nil || string(got) != *id {
			t.Fatalf("%s: key %q, want %q", line, got, *id)
		}
	})
}

// FuzzFeedSurvivesAnyLine: whatever stands in a line, it is refused by name or becomes one record.
func FuzzFeedSurvivesAnyLine(f *testing.F) {
	f.Add([]byte(`{"key":{"base64":"!"}}`))
	f.Add([]byte(`{"timestamp":"yesterday","headers":[{"value":1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		source := tailLines{newLines(bytes.NewReader(text)), true}
		for n := 0; ; n++ {
			_, _, err := source.next()
			if bad := (*inputError)(nil); err == nil || errors.As(err, &bad) {
				continue
			}
			if !errors.Is(err, io.EOF) || n > bytes.Count(text, []byte("\n"))+1 {
				t.Fatalf("%q: %v after %d lines", text, err, n)
			}
			return
		}
	})
}
