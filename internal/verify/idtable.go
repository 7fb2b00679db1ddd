package verify

import (
	"encoding/binary"
	"slices"
)

// entry is what the inbox knows of an id: 40 bytes.
type entry struct {
	id        identity
	content   uint64
	place     int64 // offset of the first event, doubled; the last bit says that it was applied
	bucketEnd int64 // ms, exclusive
}

func newEntry(id identity, content uint64, offset, bucketEnd int64, applied bool) entry {
	e := entry{id, content, offset << 1, bucketEnd}
	if applied {
		e.place |= 1
	}
	return e
}

func (e *entry) offset() int64 { return e.place >> 1 }
func (e *entry) applied() bool { return e.place&1 != 0 }

const (
	entrySize    = len(identity{}) + 24
	chunkEntries = 1 << 10
	firstSlots   = 1 << 10
	slotSize     = 4
)

// idTable finds entries by id: entries in chunks that never move, and an index of 4 bytes a slot, open addressing, at most
// three quarters full. What exceeds its share of memory goes to disk, in sorted runs.
type idTable struct {
	chunks [][]entry
	slots  []uint32 // position of the entry + 1; 0 is free
	n      int      // entries in chunks
	limit  int64    // bytes of memory for all of it
	least  int      // entries before the first spill, whatever the limit
	runs   runs
	err    error // the first of the disk; everything found or added after it is wrong
}

// newIDTable returns an empty table that holds at most limit bytes of memory, or what least entries take.
func newIDTable(limit int64, least int, create scratch) *idTable {
	return &idTable{slots: make([]uint32, firstSlots), limit: limit, least: least, runs: runs{create: create}}
}

func (t *idTable) at(i int) *entry { return &t.chunks[i/chunkEntries][i%chunkEntries] }

// slot returns where an id is, or where it would be put.
func (t *idTable) slot(id *identity) int {
	mask := len(t.slots) - 1
	i := int(binary.LittleEndian.Uint64(id[:])) & mask
	for t.slots[i] != 0 && t.at(int(t.slots[i])-1).id != *id {
		i = (i + 1) & mask
	}
	return i
}

// find returns the latest entry of an id; ok is false when there is none.
func (t *idTable) find(id identity) (e entry, ok bool) {
	if n := t.slots[t.slot(&id)]; n != 0 {
		return *t.at(int(n) - 1), true
	}
	e, ok, err := t.runs.find(&id)
	t.fail(err)
	return e, ok
}

// put files an entry, in place of an older one of the same id that does not count any more. Entries whose bucket ended at
// the horizon or before need not be kept.
func (t *idTable) put(e entry, horizon int64) {
	if n := t.slots[t.slot(&e.id)]; n != 0 {
		*t.at(int(n) - 1) = e
		return
	}
	t.makeRoom(horizon)
	if t.n/chunkEntries == len(t.chunks) {
		t.chunks = append(t.chunks, make([]entry, chunkEntries))
	}
	*t.at(t.n) = e
	t.n++
	t.slots[t.slot(&e.id)] = uint32(t.n)
}

// makeRoom grows the index or empties the table, so that one more entry fits.
func (t *idTable) makeRoom(horizon int64) {
	full := 4*(t.n+1) > 3*len(t.slots)
	need := t.bytes() + t.runs.memory()
	if full {
		need += 2 * slotSize * int64(len(t.slots)) // beside the old ones, while they are moved
	}
	if t.n/chunkEntries == len(t.chunks) {
		need += chunkEntries * int64(entrySize)
	}
	switch {
	case need > t.limit && t.n >= t.least:
		t.spill(horizon)
	case full:
		t.grow()
	}
}

func (t *idTable) bytes() int64 {
	return int64(len(t.chunks)*chunkEntries*entrySize) + slotSize*int64(len(t.slots))
}

func (t *idTable) grow() {
	t.slots = make([]uint32, 2*len(t.slots))
	for i := range t.n {
		t.slots[t.slot(&t.at(i).id)] = uint32(i + 1)
	}
}

// spill writes what still counts as a sorted run and begins anew with the memory that there is. The index serves as the
// order: it is rebuilt anyway.
func (t *idTable) spill(horizon int64) {
	order := t.slots[:0]
	for i := range t.n {
		if t.at(i).bucketEnd > horizon {
			order = append(order, uint32(i))
		}
	}
	slices.SortFunc(order, func(x, y uint32) int { return compareIDs(&t.at(int(x)).id, &t.at(int(y)).id) })
	t.fail(t.runs.write(len(order), func(i int) *entry { return t.at(int(order[i])) }))
	t.fail(t.runs.tidy(horizon, t.limit/2))
	t.slots, t.n = make([]uint32, firstSlots), 0
	for len(t.chunks) > 1 && t.bytes()+t.runs.memory() > t.limit {
		t.chunks = t.chunks[:len(t.chunks)-1]
	}
}

func (t *idTable) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// each calls f with every entry, in no order; entries that do not count any more may be among them. After an error of the disk,
// an earlier one too, some are missing.
func (t *idTable) each(f func(*entry)) error {
	for i := range t.n {
		f(t.at(i))
	}
	t.fail(t.runs.each(f))
	return t.err
}

// close gives memory and disk back.
func (t *idTable) close() {
	t.runs.close()
	t.chunks, t.slots, t.n = nil, make([]uint32, 1), 0
}
