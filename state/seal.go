package state

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/internal/mutant"
)

// maxTombstones bounds what a transaction physically deletes of old ids, over all dedupe stores. What is left stays until a
// later one; no verdict depends on it.
const maxTombstones = 1000

// Sealed is a transaction of a task, ready to be written to its state topic.
type Sealed struct {
	Records []Record // in the order to write them; the last one is the marker
	Marker  Marker   // complete
}

// sealing is the memory of Seal, kept for the next one.
type sealing struct {
	records []Record
	digest  uint64
	buf     []byte
}

func (s *sealing) reset() {
	clear(s.records)
	s.records = s.records[:0]
}

// Seal turns the open transaction into records: the last value of each key written, the ids remembered, tombstones of ids
// long expired, and the marker. m carries Next, TxnSeq, Partitions, Fingerprint and Writer; Seal adds StreamTime and Digest.
// The bytes are the View's and valid until Merge or Drop returns. Sealing again gives the same records. It fails when a
// failed record was not rolled back, or when m does not continue the committed marker (I2, I5); nothing is lost then.
func (v *View) Seal(m Marker) (Sealed, error) {
	if v.err != nil {
		return Sealed{}, fmt.Errorf("seal transaction %d: a failed record was not rolled back: %w", m.TxnSeq, v.err)
	}
	if !v.open { // a transaction that only moves offsets still needs its marker
		v.load()
		v.open = true
	}
	if err := continues(v.committed, m); err != nil {
		return Sealed{}, err
	}
	v.writable, v.sealed = false, true
	v.seal.reset()
	v.seal.digest = v.base.Digest()
	v.sealTables()
	for _, p := range v.pending {
		v.sealIDs(p, m.TxnSeq)
	}
	if err := v.sealTombstones(); err != nil {
		return Sealed{}, err
	}
	m.StreamTime, m.Digest = v.streamTime, v.seal.digest
	v.seal.buf = m.Append(v.seal.buf[:0])
	v.emit(v.overlay.arena.copy([]byte(markerKey)), v.overlay.arena.copy(v.seal.buf))
	return Sealed{v.seal.records, m}, nil
}

// continues asserts, where the marker is written, what restore relies on where it is read.
func continues(was, m Marker) error {
	if was.TxnSeq > 0 && m.TxnSeq != was.TxnSeq+1 && !mutant.On("i2-numbers-leap") {
		return fmt.Errorf("I2: transaction %d follows %d: numbers grow by exactly one; restore the task", m.TxnSeq, was.TxnSeq)
	}
	for _, n := range m.Next {
		if next, ok := was.NextOf(n.Topic); ok && n.AppliedNext < next {
			return fmt.Errorf("I5: input %q is applied up to offset %d, and the transaction would go back to %d; restore the task", n.Topic, next, n.AppliedNext)
		}
	}
	return nil
}

func (v *View) emit(key, value []byte) {
	v.seal.records = append(v.seal.records, Record{key, value})
}

func (v *View) sealTables() {
	for i := range v.overlay.entries {
		e := &v.overlay.entries[i]
		if !e.dirty || !e.live && !e.oldLive {
			continue
		}
		if e.oldLive && !mutant.On("digest-without-old-value") {
			v.seal.digest -= v.hasher.record(e.key, e.old)
		}
		if e.live {
			v.seal.digest += v.hasher.record(e.key, e.value)
		}
		v.emit(e.key, absolute(e))
	}
}

// absolute returns what the state topic gets for a key: its whole value, never a change to it. A change that is replayed
// twice, or whose predecessor compaction removed, is another value.
func absolute(e *entry) []byte {
	if mutant.On("delta-instead-of-absolute") && e.live && e.oldLive {
		return e.value[commonPrefix(e.old, e.value):]
	}
	return e.value
}

// commonPrefix serves the mutant delta-instead-of-absolute.
func commonPrefix(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// sealIDs packs the ids of a store, one record per bucket. Ids that ceased to count within the transaction are left out:
// a backlog of months in one transaction would else write thousands of records only to delete them.
func (v *View) sealIDs(p *pending, txnSeq uint64) {
	if p == nil {
		return
	}
	horizon := p.horizon(v.streamTime)
	if p.widens && p.floor > before(v.streamTime, p.spec.Window) {
		v.emitPacked(p, p.floor, txnSeq, nil)
	}
	for order := p.counting(horizon); len(order) > 0; {
		end, n := p.ids[order[0]].bucketEnd, 1
		for n < len(order) && p.ids[order[n]].bucketEnd == end {
			n++
		}
		v.emitPacked(p, end, txnSeq, order[:n])
		order = order[n:]
	}
}

func (v *View) emitPacked(p *pending, bucketEnd int64, txnSeq uint64, order []int32) {
	v.seal.buf = appendPackedKey(v.seal.buf[:0], p.spec.Name, bucketEnd, txnSeq)
	key := v.overlay.arena.copy(v.seal.buf)
	v.seal.buf = v.appendPacked(v.seal.buf[:0], p, order)
	value := v.overlay.arena.copy(v.seal.buf)
	v.seal.digest += v.hasher.record(key, value)
	v.emit(key, value)
}

// appendPacked appends a packed value: the bucket's ids grouped by input topic.
func (v *View) appendPacked(dst []byte, p *pending, order []int32) []byte {
	dst = append(dst, packedSchema)
	for at, i := range order {
		topic := p.ids[i].topic
		if firstOf(p, order, topic) != at {
			continue
		}
		dst = appendFramed(dst, v.topics[topic])
		dst = binary.AppendUvarint(dst, uint64(countOf(p, order, topic)))
		for _, j := range order[at:] {
			if e := &p.ids[j]; e.topic == topic {
				dst = appendPackedID(dst, e.id, e.fingerprint, e.offset)
			}
		}
	}
	return dst
}

func firstOf(p *pending, order []int32, topic int32) int {
	for at, i := range order {
		if p.ids[i].topic == topic {
			return at
		}
	}
	return -1
}

func countOf(p *pending, order []int32, topic int32) (n int) {
	for _, i := range order {
		if p.ids[i].topic == topic {
			n++
		}
	}
	return n
}

// sealTombstones deletes packed records whose bucket the window has passed, oldest first.
func (v *View) sealTombstones() error {
	left := v.tombstones
	for _, p := range v.pending {
		if p == nil || left == 0 {
			continue
		}
		horizon := before(v.streamTime, p.spec.Window)
		from := appendPrefix(nil, p.spec.Name)
		to := appendPackedKey(nil, p.spec.Name, horizon, 0)
		to = successor(to[:len(to)-8]) // behind the last record of the bucket that ends at the horizon
		err := v.base.Ascend(from, to, func(key, value []byte) bool {
			v.seal.digest -= v.expired(key, value)
			v.emit(v.overlay.arena.copy(key), nil)
			left--
			return left > 0
		})
		if err != nil {
			return fmt.Errorf("store %q: look for expired ids: %w", p.spec.Name, err)
		}
	}
	return nil
}

// expired is what a packed record that is deleted takes from the digest.
func (v *View) expired(key, value []byte) uint64 {
	if mutant.On("tombstone-keeps-its-digest") {
		return 0
	}
	return v.hasher.record(key, value)
}

// Merge moves the sealed transaction into the base. Call it only when the transaction is proven committed; position is the
// next offset of the state topic behind its records. After an error the base must be restored from the start.
func (v *View) Merge(s Sealed, position int64) error {
	if !v.sealed {
		return errors.New("state: merge without a sealed transaction: it was dropped or merged before")
	}
	err := v.base.Apply(&Batch{Records: s.Records[:len(s.Records)-1], Marker: s.Marker, Position: position})
	v.Drop()
	return err
}
