package record_test

import (
	"errors"
	"testing"

	"github.com/tallystick/tallystick/record"
)

func TestNullableTellsNullFromEmpty(t *testing.T) {
	c := record.Nullable(record.String)
	for name, v := range map[string]record.Optional[string]{"null": {}, "empty": record.Some(""), "text": record.Some("a")} {
		for _, dst := range [][]byte{nil, {}, []byte("kept ")[:0]} {
			b, err := c.Append(dst, v)
			if err != nil || (b == nil) == v.Set {
				t.Fatalf("%s: encoded as %q (nil %v), %v", name, b, b == nil, err)
			}
			if got, err := c.Decode(b); err != nil || got != v {
				t.Errorf("%s: decoded as %+v, %v", name, got, err)
			}
		}
	}
}

func TestNullableAppendsWhatTheCodecAppends(t *testing.T) {
	c := record.Nullable(record.Int64)
	plain, _ := record.Int64.Append([]byte("dst"), 7)
	if b, err := c.Append([]byte("dst"), record.Some(int64(7))); err != nil || string(b) != string(plain) {
		t.Errorf("%q %v, want %q", b, err, plain)
	}
	if c.ID() != record.Int64.ID() {
		t.Errorf("id %q: the bytes are %q's", c.ID(), record.Int64.ID())
	}
}

func TestNullableKeepsTheCodecsRefusal(t *testing.T) {
	got, err := record.Nullable(record.Int64).Decode([]byte("short"))
	if m := (*record.MalformedError)(nil); !errors.As(err, &m) || got.Set {
		t.Errorf("%+v %v", got, err)
	}
}
