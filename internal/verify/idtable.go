package verify

import "encoding/binary"

// entry is what the inbox knows of an id: 40 bytes.
type entry struct {
	id        identity
	content   uint64
	offset    int64 // of the first event
	bucketEnd int64 // ms, exclusive
}

const (
	chunkEntries = 1 << 14
	firstSlots   = 1 << 10
)

// idTable finds entries by id: entries in chunks that never move, and an index of 4 bytes a slot, open addressing, at most
// three quarters full. The chunks are what could be spilled to disk, in order of arrival.
type idTable struct {
	chunks [][]entry
	slots  []uint32 // position of the entry + 1; 0 is free
	n      int
}

func newIDTable() *idTable { return &idTable{slots: make([]uint32, firstSlots)} }

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

// find returns the entry of an id, nil when there is none. The pointer stays valid.
func (t *idTable) find(id identity) *entry {
	if n := t.slots[t.slot(&id)]; n != 0 {
		return t.at(int(n) - 1)
	}
	return nil
}

// add appends an entry whose id is not there yet.
func (t *idTable) add(e entry) {
	if 4*(t.n+1) > 3*len(t.slots) {
		t.grow()
	}
	if t.n%chunkEntries == 0 {
		t.chunks = append(t.chunks, make([]entry, 0, chunkEntries))
	}
	last := &t.chunks[len(t.chunks)-1]
	*last = append(*last, e)
	t.n++
	t.slots[t.slot(&e.id)] = uint32(t.n)
}

func (t *idTable) grow() {
	t.slots = make([]uint32, 2*len(t.slots))
	for i := range t.n {
		t.slots[t.slot(&t.at(i).id)] = uint32(i + 1)
	}
}
