package state

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

var (
	errShort    = errors.New("ends too early")
	errNotShort = errors.New("number not in its shortest form")
	errTrailing = errors.New("bytes behind the end")
	errRange    = errors.New("number out of range")
)

// reader takes a frozen format apart. It is strict, so that one content has one encoding and a damaged one is noticed: it
// refuses padded numbers and trailing bytes. After the first error every method returns zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.b, r.err = nil, err
	}
}

func (r *reader) uvarint() uint64 {
	x, n := binary.Uvarint(r.b)
	switch {
	case n == 0:
		r.fail(errShort)
	case n < 0:
		r.fail(errRange)
	case n > 1 && n != (bits.Len64(x)+6)/7:
		r.fail(errNotShort)
	default:
		r.b = r.b[n:]
		return x
	}
	return 0
}

// limited reads a uvarint that must not exceed limit.
func (r *reader) limited(limit uint64) uint64 {
	x := r.uvarint()
	if x > limit {
		r.fail(errRange)
		return 0
	}
	return x
}

func (r *reader) varint() int64 {
	x := r.uvarint()
	return int64(x>>1) ^ -int64(x&1)
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// take returns the next n bytes, which alias the input; nil on error.
func (r *reader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.b)) {
		r.fail(errShort)
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// framed reads a length and as many bytes.
func (r *reader) framed() []byte { return r.take(r.uvarint()) }

// end returns the first error, or one when bytes are left.
func (r *reader) end() error {
	if len(r.b) > 0 {
		r.fail(errTrailing)
	}
	return r.err
}

func appendFramed(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
