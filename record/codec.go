package record

import (
	"encoding/binary"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codec turns values of T into bytes and back. A codec is used by several tasks at once and must be safe for that.
type Codec[T any] interface {
	// ID stands in the topology fingerprint, so that state is never read by a codec that did not write it. It names the
	// format ("json", "int64"), never a Go type: renaming a type must not look like a change of format.
	ID() string
	// Append appends the encoding of v to dst and returns the extended slice. Only a codec that knows Kafka's null returns nil,
	// and means it ([Nullable]).
	Append(dst []byte, v T) ([]byte, error)
	// Decode must not keep src: it aliases a buffer that is reused. A nil src is Kafka's null.
	Decode(src []byte) (T, error)
}

// MalformedError is returned by Decode when the bytes are at fault. Reason is one machine word ("amount_syntax") that
// becomes the reason of the dead letter; Err says what was found and what is accepted.
type MalformedError struct {
	Reason string
	Err    error
}

func (e *MalformedError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *MalformedError) Unwrap() error { return e.Err }

// String encodes a string as its bytes, unchanged. Order of encoded keys is order of strings.
var String Codec[string] = stringCodec{}

// Bytes passes bytes through; Decode copies them.
var Bytes Codec[[]byte] = bytesCodec{}

// Int64 encodes as 8 bytes, big endian with the sign bit flipped, so that order of encoded keys is numeric order.
var Int64 Codec[int64] = int64Codec{}

// JSON is strict JSON (RFC 8259): duplicate member names, names of another case, unknown names, invalid UTF-8 and trailing
// data are refused with a MalformedError. encoding/json accepts the first four.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type stringCodec struct{}

func (stringCodec) ID() string                                  { return "string" }
func (stringCodec) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (stringCodec) Decode(src []byte) (string, error)           { return string(src), nil }

type bytesCodec struct{}

func (bytesCodec) ID() string                                  { return "bytes" }
func (bytesCodec) Append(dst []byte, v []byte) ([]byte, error) { return append(dst, v...), nil }
func (bytesCodec) Decode(src []byte) ([]byte, error)           { return append([]byte(nil), src...), nil }

type int64Codec struct{}

const signBit = 1 << 63

func (int64Codec) ID() string { return "int64" }

func (int64Codec) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^signBit), nil
}

func (int64Codec) Decode(src []byte) (int64, error) {
	if len(src) != 8 {
		return 0, &MalformedError{"malformed_int64", fmt.Errorf("%d bytes, want 8", len(src))}
	}
	return int64(binary.BigEndian.Uint64(src) ^ signBit), nil
}

type jsonCodec[T any] struct{}

func (jsonCodec[T]) ID() string { return "json" }

// MayBegin implements Beginner: JSON begins with white space or a printable character.
func (jsonCodec[T]) MayBegin(b byte) bool { return b >= ' ' || b == '\t' || b == '\n' || b == '\r' }

func (jsonCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	w := appender{dst}
	if err := json.MarshalWrite(&w, v, json.Deterministic(true)); err != nil {
		return dst, fmt.Errorf("encode json: %w", err)
	}
	return w.b, nil
}

func (jsonCodec[T]) Decode(src []byte) (v T, err error) {
	if err := json.Unmarshal(src, &v, json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(false)); err != nil {
		return v, &MalformedError{"malformed_json", err}
	}
	return v, nil
}

// appender lets the JSON encoder write behind what dst already holds.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}
