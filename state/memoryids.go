package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// What ids cost beside the packed value: an index slot at the usual load; and per packed record its entry here.
const (
	idOverhead     = 38
	packedOverhead = 56
)

// memoryIDs is a dedupe store: the packed records as they are, by bucket, and an index that points into them.
type memoryIDs struct {
	index   map[ID]idRef // no pointers: the garbage collector does not look at it
	records []packed     // by idRef.record; freed ones are reused
	free    []uint32
	buckets []bucket // ascending by end; about 65
	topics  map[string]string
	floor   int64
	bytes   int64
}

// idRef points to an id: a record, and the id's place in its value.
type idRef struct{ record, at uint32 }

type packed struct {
	txnSeq uint64
	end    int64
	value  []byte
}

type bucket struct {
	end     int64
	records []uint32 // ascending by txnSeq
}

func newMemoryIDs() *memoryIDs {
	return &memoryIDs{index: map[ID]idRef{}, topics: map[string]string{}, floor: NoStreamTime}
}

// checkPacked reports what is wrong with a packed record; a nil value is a tombstone.
func checkPacked(rest, value []byte) error {
	if _, _, err := parsePackedKey(rest); err != nil || value == nil {
		return err
	}
	return parsePacked(value, func(packedGroup) bool { return true })
}

func (m *memoryIDs) seen(id ID) (Seen, bool) {
	ref, ok := m.index[id]
	if !ok {
		return Seen{}, false
	}
	p := &m.records[ref.record]
	_, fingerprint, offset := parsePackedID(p.value[ref.at:])
	return Seen{p.end, p.txnSeq, fingerprint, m.topicAt(p.value, int(ref.at)), offset}, true
}

// topicAt returns the input topic of the group that the place in a packed value belongs to.
func (m *memoryIDs) topicAt(value []byte, at int) (topic string) {
	r := reader{b: value[1:]} // checked when it came: no errors
	for r.err == nil {
		name := r.framed()
		r.take(r.uvarint() * packedIDSize)
		if len(value)-len(r.b) > at {
			return m.topics[string(name)]
		}
	}
	return ""
}

// locate finds a packed record's bucket, its place there, and whether it is there.
func (m *memoryIDs) locate(end int64, txnSeq uint64) (b, i int, ok bool) {
	b, found := slices.BinarySearchFunc(m.buckets, end, func(b bucket, end int64) int { return cmp.Compare(b.end, end) })
	if !found {
		return b, 0, false
	}
	i, ok = slices.BinarySearchFunc(m.buckets[b].records, txnSeq, func(r uint32, seq uint64) int { return cmp.Compare(m.records[r].txnSeq, seq) })
	return b, i, ok
}

func (m *memoryIDs) find(rest []byte) ([]byte, bool) {
	end, txnSeq, err := parsePackedKey(rest)
	if err != nil {
		return nil, false
	}
	b, i, ok := m.locate(end, txnSeq)
	if !ok {
		return nil, false
	}
	return m.records[m.buckets[b].records[i]].value, true
}

// put adds a packed record that is not there.
func (m *memoryIDs) put(rest, value []byte) {
	end, txnSeq, _ := parsePackedKey(rest)
	ref := m.allocate(packed{txnSeq, end, bytes.Clone(value)})
	b, i, _ := m.locate(end, txnSeq)
	if b == len(m.buckets) || m.buckets[b].end != end {
		m.buckets = slices.Insert(m.buckets, b, bucket{end: end})
	}
	m.buckets[b].records = slices.Insert(m.buckets[b].records, i, ref)
	m.bytes += packedOverhead + int64(len(value))
	if len(value) == 1 {
		m.floor = max(m.floor, end)
	}
	m.remember(ref)
}

func (m *memoryIDs) allocate(p packed) uint32 {
	if n := len(m.free); n > 0 {
		ref := m.free[n-1]
		m.free = m.free[:n-1]
		m.records[ref] = p
		return ref
	}
	m.records = append(m.records, p)
	return uint32(len(m.records) - 1)
}

// remember indexes a record's ids. An id may be in an older record too, one that does not count any more but is not deleted
// yet: the later transaction wins, also when a replay begins again and brings the older record last.
func (m *memoryIDs) remember(ref uint32) {
	p := m.records[ref]
	_ = parsePacked(p.value, func(g packedGroup) bool {
		if _, ok := m.topics[string(g.topic)]; !ok {
			m.topics[string(g.topic)] = string(g.topic)
		}
		for at := 0; at < len(g.ids); at += packedIDSize {
			id := ID(g.ids[at:])
			if old, ok := m.index[id]; ok && m.records[old.record].txnSeq > p.txnSeq {
				continue
			}
			m.index[id] = idRef{ref, uint32(g.at + at)}
		}
		m.bytes += int64(len(g.ids)/packedIDSize) * idOverhead
		return true
	})
}

// remove deletes a packed record, and from the index those ids that no later record holds.
func (m *memoryIDs) remove(rest []byte) {
	end, txnSeq, _ := parsePackedKey(rest)
	b, i, ok := m.locate(end, txnSeq)
	if !ok {
		return
	}
	ref := m.buckets[b].records[i]
	m.forget(ref)
	if m.bytes -= packedOverhead + int64(len(m.records[ref].value)); i == 0 {
		m.buckets[b].records = m.buckets[b].records[1:] // deletion is oldest first: no moving
	} else {
		m.buckets[b].records = slices.Delete(m.buckets[b].records, i, i+1)
	}
	if len(m.buckets[b].records) == 0 {
		m.buckets = slices.Delete(m.buckets, b, b+1)
	}
	m.records[ref] = packed{}
	m.free = append(m.free, ref)
}

func (m *memoryIDs) forget(ref uint32) {
	_ = parsePacked(m.records[ref].value, func(g packedGroup) bool {
		for at := 0; at < len(g.ids); at += packedIDSize {
			id := ID(g.ids[at:])
			if m.index[id].record == ref {
				delete(m.index, id)
			}
		}
		m.bytes -= int64(len(g.ids)/packedIDSize) * idOverhead
		return true
	})
}

// ascend yields packed records with low <= key < high in key order.
func (m *memoryIDs) ascend(low, high []byte, yield func(rest, value []byte) bool) bool {
	var key []byte
	for _, b := range m.buckets {
		key = binary.BigEndian.AppendUint64(key[:0], uint64(b.end)^signBit)
		if high != nil && bytes.Compare(key, high) >= 0 {
			return true
		}
		if len(low) >= 8 && bytes.Compare(key, low[:8]) < 0 {
			continue
		}
		for _, ref := range b.records {
			p := &m.records[ref]
			key = binary.BigEndian.AppendUint64(key[:8], p.txnSeq)
			if bytes.Compare(key, low) < 0 {
				continue
			}
			if high != nil && bytes.Compare(key, high) >= 0 {
				return true
			}
			if !yield(key, p.value) {
				return false
			}
		}
	}
	return true
}
