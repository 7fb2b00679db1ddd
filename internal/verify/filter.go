package verify

import (
	"encoding/binary"
	"math/bits"
)

const (
	filterBlock   = 64 // bytes: one cache line
	filterPerID   = 12 // bits
	filterHashes  = 6
	bitsPerBlock  = 8 * filterBlock
	blockBitsSize = 9 // log2(bitsPerBlock)
)

// filter tells ids that a run has not, most of the time: one in about a hundred of those passes. An id is a hash already, so
// its own bits choose.
type filter []byte

// filterBytes is the size of a filter for n ids.
func filterBytes(n int) int { return (n*filterPerID/bitsPerBlock + 1) * filterBlock }

func newFilter(n int) filter { return make(filter, filterBytes(n)) }

func (f filter) block(id *identity) []byte {
	high, _ := bits.Mul64(binary.BigEndian.Uint64(id[:]), uint64(len(f)/filterBlock))
	return f[high*filterBlock:][:filterBlock]
}

func (f filter) add(id *identity) {
	block, h := f.block(id), binary.BigEndian.Uint64(id[8:])
	for range filterHashes {
		block[h%bitsPerBlock/8] |= 1 << (h % 8)
		h >>= blockBitsSize
	}
}

// has is false for an id that was never added.
func (f filter) has(id *identity) bool {
	block, h := f.block(id), binary.BigEndian.Uint64(id[8:])
	for range filterHashes {
		if block[h%bitsPerBlock/8]&(1<<(h%8)) == 0 {
			return false
		}
		h >>= blockBitsSize
	}
	return true
}
