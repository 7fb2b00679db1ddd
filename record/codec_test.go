package record_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/tallystick/tallystick/record"
)

type pair struct {
	A int    `json:"a"`
	B string `json:"b"`
}

func TestJSONRefusesWhatEncodingJSONAccepts(t *testing.T) {
	c := record.JSON[pair]()
	for name, in := range map[string]string{
		"duplicate name":  `{"a":1,"a":2}`,
		"other-case name": `{"A":1}`,
		"unknown name":    `{"a":1,"c":2}`,
		"invalid UTF-8":   "{\"b\":\"\xff\"}",
		"trailing data":   `{"a":1} {}`,
		"empty":           ``,
	} {
		_, err := c.Decode([]byte(in))
		var m *record.MalformedError
		if !errors.As(err, &m) {
			t.Errorf("%s: got %v, want a MalformedError", name, err)
		}
	}
}

func TestJSONAppendsBehindWhatIsThere(t *testing.T) {
	got, err := record.JSON[pair]().Append([]byte("x"), pair{1, "é"})
	if err != nil || string(got) != `x{"a":1,"b":"é"}` {
		t.Fatalf("got %q, %v", got, err)
	}
	back, err := record.JSON[pair]().Decode(got[1:])
	if err != nil || back != (pair{1, "é"}) {
		t.Fatalf("got %v, %v", back, err)
	}
}

func TestInt64KeysSortAsNumbers(t *testing.T) {
	var last []byte
	for _, v := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		b, _ := record.Int64.Append(nil, v)
		if bytes.Compare(last, b) >= 0 {
			t.Errorf("%d sorts before its predecessor", v)
		}
		back, err := record.Int64.Decode(b)
		if err != nil || back != v {
			t.Errorf("got %d, %v, want %d", back, err, v)
		}
		last = b
	}
	if _, err := record.Int64.Decode([]byte{1}); err == nil {
		t.Error("one byte was accepted")
	}
}

func TestBytesAreCopied(t *testing.T) {
	src := []byte("abc")
	got, _ := record.Bytes.Decode(src)
	src[0] = 'x'
	if string(got) != "abc" {
		t.Errorf("got %q: Decode kept src", got)
	}
}

func TestPositionReadsAsTopicPartitionOffset(t *testing.T) {
	if s := (record.Position{Topic: "in", Partition: 3, Offset: 17}).String(); s != "in/3/17" {
		t.Errorf("got %q", s)
	}
}
