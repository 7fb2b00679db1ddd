package pipeline

import (
	"fmt"
	"hash/crc32"
	"hash/fnv"
)

// Partitioner is how a producer places keys. Its value is the name used in configuration.
type Partitioner string

// The partitioners that a stage's inputs may have been written with.
const (
	Murmur2 Partitioner = "murmur2" // Kafka's Java client, franz-go, librdkafka's murmur2_random
	CRC32   Partitioner = "crc32"   // librdkafka's default (consistent_random)
	FNV1a   Partitioner = "fnv1a"   // sarama's default
)

// ParsePartitioner returns the partitioner of that name.
func ParsePartitioner(name string) (Partitioner, error) {
	switch p := Partitioner(name); p {
	case Murmur2, CRC32, FNV1a:
		return p, nil
	}
	return "", fmt.Errorf("partitioner %q: use %s, %s or %s", name, Murmur2, CRC32, FNV1a)
}

// Partition returns the partition of key among n.
func (p Partitioner) Partition(key []byte, n int32) int32 {
	switch p {
	case CRC32:
		return int32(crc32.ChecksumIEEE(key) % uint32(n))
	case FNV1a:
		h := fnv.New32a()
		h.Write(key)
		if v := int32(h.Sum32()) % n; v < 0 {
			return -v
		} else {
			return v
		}
	default:
		return int32(murmur2(key)&0x7fffffff) % n
	}
}

// murmur2 is org.apache.kafka.common.utils.Utils.murmur2.
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := seed ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := uint32(b[3])<<24 | uint32(b[2])<<16 | uint32(b[1])<<8 | uint32(b[0])
		k *= m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(b[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
