package state

import (
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Fingerprint identifies the content of an event by its typed fields, so that the same event in other bytes is a
// duplicate and another event under the same id is a conflict. The zero value is ready; each method returns the next one.
// The order of calls matters. Leave an optional field out when it is absent: then adding it in a later version of a program
// turns no redelivery into a conflict.
//
// The hash is frozen, because it is stored: next = XXH64(previous, 8 bytes big endian | type, 1 byte | uvarint length |
// bytes), seed 0, starting from 0. Types: 's' string, 'b' bytes, 'i' int64 and 'u' uint64 (8 bytes big endian), 't' instant
// (seconds since 1970, 8 bytes, and nanoseconds, 4 bytes, big endian), '?' bool (0 or 1).
type Fingerprint struct{ sum uint64 }

// String adds a string.
func (f Fingerprint) String(s string) Fingerprint {
	var buf [19]byte
	var d xxhash.Digest
	d.Reset()
	d.Write(f.head(buf[:0], 's', len(s)))
	d.WriteString(s)
	return Fingerprint{d.Sum64()}
}

// Bytes adds bytes; nil and empty are the same.
func (f Fingerprint) Bytes(b []byte) Fingerprint {
	var buf [19]byte
	var d xxhash.Digest
	d.Reset()
	d.Write(f.head(buf[:0], 'b', len(b)))
	d.Write(b)
	return Fingerprint{d.Sum64()}
}

// Int64 adds a signed number.
func (f Fingerprint) Int64(i int64) Fingerprint { return f.number('i', uint64(i)) }

// Uint64 adds an unsigned number.
func (f Fingerprint) Uint64(u uint64) Fingerprint { return f.number('u', u) }

// Time adds an instant; its zone does not matter.
func (f Fingerprint) Time(t time.Time) Fingerprint {
	var buf [32]byte
	b := f.head(buf[:0], 't', 12)
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
	return Fingerprint{xxhash.Sum64(b)}
}

// Bool adds a truth value.
func (f Fingerprint) Bool(v bool) Fingerprint {
	var buf [16]byte
	b := append(f.head(buf[:0], '?', 1), 0)
	if v {
		b[len(b)-1] = 1
	}
	return Fingerprint{xxhash.Sum64(b)}
}

func (f Fingerprint) number(kind byte, u uint64) Fingerprint {
	var buf [24]byte
	return Fingerprint{xxhash.Sum64(binary.BigEndian.AppendUint64(f.head(buf[:0], kind, 8), u))}
}

func (f Fingerprint) head(dst []byte, kind byte, n int) []byte {
	dst = append(binary.BigEndian.AppendUint64(dst, f.sum), kind)
	return binary.AppendUvarint(dst, uint64(n))
}
