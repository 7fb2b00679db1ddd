package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// A packed record remembers the ids of one (store, bucket, transaction).
// Key: the store's prefix | bucketEnd (ms, sign bit flipped, so that keys sort by time) | txnSeq.
// Value: schema | for each input topic, in order of first use: framed topic | uvarint n | n × (id | fingerprint | offset).
// A value without any id is the floor that a widened window leaves: see pending.widen.
const (
	packedSchema  = 1
	packedKeySize = 16
	packedIDSize  = 32
	signBit       = 1 << 63
)

func appendPackedKey(dst []byte, store string, bucketEnd int64, txnSeq uint64) []byte {
	dst = appendPrefix(dst, store)
	dst = binary.BigEndian.AppendUint64(dst, uint64(bucketEnd)^signBit)
	return binary.BigEndian.AppendUint64(dst, txnSeq)
}

// parsePackedKey reads what follows the store's prefix.
func parsePackedKey(rest []byte) (bucketEnd int64, txnSeq uint64, err error) {
	if len(rest) != packedKeySize {
		return 0, 0, fmt.Errorf("packed ids: key of %d bytes, want %d: it is damaged, or a table had this store's name", len(rest), packedKeySize)
	}
	return int64(binary.BigEndian.Uint64(rest) ^ signBit), binary.BigEndian.Uint64(rest[8:]), nil
}

// appendPackedID appends one id of a packed value.
func appendPackedID(dst []byte, id ID, fingerprint uint64, offset int64) []byte {
	dst = append(dst, id[:]...)
	dst = binary.BigEndian.AppendUint64(dst, fingerprint)
	return binary.BigEndian.AppendUint64(dst, uint64(offset))
}

func parsePackedID(b []byte) (id ID, fingerprint uint64, offset int64) {
	copy(id[:], b)
	return id, binary.BigEndian.Uint64(b[16:]), int64(binary.BigEndian.Uint64(b[24:]))
}

// packedGroup is the ids of one input topic in a packed value; both slices alias the value.
type packedGroup struct {
	topic []byte
	ids   []byte // n × packedIDSize
	at    int    // where ids begins in the value
}

// parsePacked calls yield for each topic of a packed value; false ends it early and skips the rest of the check.
func parsePacked(value []byte, yield func(packedGroup) bool) error {
	r := reader{b: value}
	if s := r.byte(); r.err == nil && s != packedSchema {
		return fmt.Errorf("packed ids: schema %d, this program knows %d: a newer version wrote it, run that version", s, packedSchema)
	}
	for len(r.b) > 0 {
		topic := r.framed()
		n := r.limited(uint64(len(r.b) / packedIDSize))
		at := len(value) - len(r.b)
		ids := r.take(n * packedIDSize)
		if r.err == nil && (n == 0 || len(topic) == 0) {
			r.fail(fmt.Errorf("a topic without name or ids"))
		}
		if r.err != nil {
			break
		}
		if !yield(packedGroup{topic, ids, at}) {
			return nil
		}
	}
	if r.err != nil {
		return fmt.Errorf("packed ids of %d bytes: %w: the record is damaged", len(value), r.err)
	}
	return nil
}

// bucketWidth is at writing; a stored record keeps the end it was given.
func bucketWidth(window time.Duration) int64 { return max(1000, window.Milliseconds()/64) }

// bucketEnd returns the end of the bucket that the time falls into, exclusive.
func bucketEnd(ms, width int64) int64 {
	into := ms % width
	if into < 0 {
		into += width
	}
	if start := ms - into; start <= math.MaxInt64-width && start <= ms {
		return start + width
	}
	return math.MaxInt64 // the last bucket of time is cut short
}

// before returns ms - d, or the beginning of time.
func before(ms int64, d time.Duration) int64 {
	if w := d.Milliseconds(); ms >= math.MinInt64+w {
		return ms - w
	}
	return math.MinInt64
}
