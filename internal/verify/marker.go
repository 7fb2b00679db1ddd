package verify

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// marker is the applied marker of a state partition: what its last transaction claims.
type marker struct {
	txnSeq     uint64
	streamTime int64
	digest     uint64
	partitions int32
	next       map[string]int64 // appliedNext by input topic
}

// wire reads the binary formats. The first thing that does not fit sets bad, and everything after it reads as zero.
type wire struct {
	b   []byte
	bad bool
}

func (w *wire) take(n uint64) (b []byte) {
	if w.bad || n > uint64(len(w.b)) {
		w.bad = true
		return nil
	}
	b, w.b = w.b[:n], w.b[n:]
	return b
}

func (w *wire) uvarint() uint64 {
	n, size := binary.Uvarint(w.b)
	if w.take(uint64(max(size, 0))); size <= 0 {
		w.bad = true
		return 0
	}
	return n
}

func (w *wire) varint() int64 {
	n, size := binary.Varint(w.b)
	if w.take(uint64(max(size, 0))); size <= 0 {
		w.bad = true
		return 0
	}
	return n
}

func (w *wire) uint64() uint64 {
	if b := w.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (w *wire) text() string { return string(w.take(w.uvarint())) }

const (
	markerSchema  = 1
	maxPartitions = 1 << 24
)

// parseMarker reads the value of a marker record.
func parseMarker(value []byte) (m marker, ok bool) {
	w := wire{b: value}
	if schema := w.take(1); w.bad || schema[0] != markerSchema {
		return m, false
	}
	m = marker{txnSeq: w.uvarint(), streamTime: w.varint(), digest: w.uint64(), next: map[string]int64{}}
	partitions := w.uvarint()
	w.text() // fingerprint
	w.text() // writer
	for n := w.uvarint(); n > 0 && !w.bad; n-- {
		topic := w.text()
		m.next[topic] = int64(w.uvarint())
	}
	m.partitions = int32(min(partitions, maxPartitions))
	return m, !w.bad && len(w.b) == 0 && partitions > 0 && partitions <= maxPartitions
}

// commit is the group's committed offset of one input partition, with what its metadata says.
type commit struct {
	found  bool
	next   int64
	raw    string // the metadata
	valid  bool   // of raw: the fields below
	txnSeq uint64
	digest uint64
}

func (c commit) String() string {
	if !c.found {
		return "no committed offset"
	}
	return fmt.Sprintf("committed offset %d with metadata %q", c.next, c.raw)
}

// newCommit reads the answer to an OffsetFetch; next is -1 when nothing was committed.
func newCommit(next int64, metadata string) commit {
	c := commit{found: next >= 0, next: next, raw: metadata}
	fields := strings.Split(metadata, " ")
	if len(fields) != 3 || fields[0] != "tallystick/1" {
		return c
	}
	txn, ok1 := strings.CutPrefix(fields[1], "txn=")
	digest, ok2 := strings.CutPrefix(fields[2], "digest=")
	var err1, err2 error
	c.txnSeq, err1 = strconv.ParseUint(txn, 10, 64)
	c.digest, err2 = strconv.ParseUint(digest, 16, 64)
	c.valid = ok1 && ok2 && err1 == nil && err2 == nil && len(digest) == 16
	return c
}
