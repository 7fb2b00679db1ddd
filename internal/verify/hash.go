package verify

import (
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"
	"math/bits"
)

const (
	prime1 uint64 = 11400714785074694791
	prime2 uint64 = 14029467366897019727
	prime3 uint64 = 1609587929392839161
	prime4 uint64 = 9650029242287828579
	prime5 uint64 = 2870177450012600261
)

// xxh64 is XXH64 with seed 0: the state digest is made of it.
func xxh64(b []byte) uint64 {
	n := uint64(len(b))
	h := prime5
	if len(b) >= 32 {
		h, b = stripes(b)
	}
	h += n
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64(h^round(0, binary.LittleEndian.Uint64(b)), 27)*prime1 + prime4
	}
	if len(b) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(b))*prime1, 23)*prime2 + prime3
		b = b[4:]
	}
	for _, c := range b {
		h = bits.RotateLeft64(h^uint64(c)*prime5, 11) * prime1
	}
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

// stripes mixes all whole blocks of 32 bytes.
func stripes(b []byte) (h uint64, rest []byte) {
	seed := prime1 // a variable, since the sums below wrap
	v := [4]uint64{seed + prime2, prime2, 0, -seed}
	for ; len(b) >= 32; b = b[32:] {
		for i := range v {
			v[i] = round(v[i], binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	h = bits.RotateLeft64(v[0], 1) + bits.RotateLeft64(v[1], 7) + bits.RotateLeft64(v[2], 12) + bits.RotateLeft64(v[3], 18)
	for _, x := range v {
		h = (h^round(0, x))*prime1 + prime4
	}
	return h, b
}

func round(acc, lane uint64) uint64 { return bits.RotateLeft64(acc+lane*prime2, 31) * prime1 }

// entryHash is what a live state record adds to the digest: XXH64 of uvarint(len(key)), key, value. scratch is returned grown.
func entryHash(key, value, scratch []byte) (hash uint64, grown []byte) {
	scratch = binary.AppendUvarint(scratch[:0], uint64(len(key)))
	scratch = append(append(scratch, key...), value...)
	return xxh64(scratch), scratch
}

// placement returns the partition of a key among n, as the producers of the input place it; ok is false for a name that this
// package does not know.
func placement(partitioner string) (place func(key []byte, n int32) int32, ok bool) {
	switch partitioner {
	case "murmur2":
		return partitionOf, true
	case "crc32": // librdkafka's consistent
		return func(key []byte, n int32) int32 { return int32(crc32.ChecksumIEEE(key) % uint32(n)) }, true
	case "fnv1a": // sarama's: the remainder of a signed number, without its sign
		return func(key []byte, n int32) int32 {
			h := fnv.New32a()
			h.Write(key)
			return max(int32(h.Sum32())%n, -(int32(h.Sum32()) % n))
		}, true
	}
	return nil, false
}

// partitionOf is the partition that Kafka's Java client gives a key: toPositive(murmur2(key)) mod n.
func partitionOf(key []byte, n int32) int32 { return int32(murmur2(key)&0x7fffffff) % n }

func murmur2(key []byte) uint32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		h = h*m ^ (k^k>>24)*m
	}
	if len(key) > 0 {
		var tail uint32
		for i, c := range key {
			tail |= uint32(c) << (8 * i)
		}
		h = (h ^ tail) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
