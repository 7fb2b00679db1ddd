package state

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// hasher computes the part of one live record in the digest: XXH64, seed 0, of uvarint(len(key)) | key | value. The digest
// is the sum of all parts mod 2^64, so a change costs two hashes and no order matters. The zero value is ready.
type hasher struct{ buf []byte }

func (h *hasher) record(key, value []byte) uint64 {
	h.buf = binary.AppendUvarint(h.buf[:0], uint64(len(key)))
	h.buf = append(append(h.buf, key...), value...)
	return xxhash.Sum64(h.buf)
}

// keyHash names a key in errors without telling it: keys are user data.
func keyHash(stateKey []byte) uint64 { return xxhash.Sum64(stateKey) }
