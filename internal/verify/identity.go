package verify

import (
	"crypto/sha256"
	"encoding/binary"
)

// identity stands for an event's id: the first half of its SHA-256. Ids are chosen by callers, so a hash that can be forged
// would let two events pass for one.
type identity [16]byte

// hasher computes identities and contents. It is owned by one goroutine and reused.
type hasher struct{ buf []byte }

// identity is that of event_id, or of source and id for CloudEvents.
func (h *hasher) identity(e *event) identity {
	h.buf = h.buf[:0]
	if e.source != nil {
		h.buf = append(append(h.buf, e.source...), 0x1f)
	}
	h.buf = append(h.buf, e.id...)
	sum := sha256.Sum256(h.buf)
	return identity(sum[:16])
}

// content is equal for events that say the same: the amount as a number, the time as an instant.
func (h *hasher) content(e *event) uint64 {
	b := append(h.buf[:0], byte(e.kind), byte(e.to))
	b = append(b, e.currency[:]...)
	b = appendAmount(b, e.amount)
	b = appendAmount(b, e.minimum)
	b = binary.BigEndian.AppendUint64(b, uint64(e.at.seconds))
	b = binary.BigEndian.AppendUint32(b, uint32(e.at.nanos))
	b = append(b, e.account...)
	h.buf = b
	return xxh64(b)
}

func appendAmount(b []byte, a amount) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(a.units))
	return binary.BigEndian.AppendUint32(b, uint32(a.frac))
}
