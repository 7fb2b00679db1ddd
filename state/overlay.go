package state

import (
	"bytes"
	"slices"
	"unsafe"
)

// overlay holds the open transaction's writes to all tables of a task. An entry stays once its key was written, also when
// the record is rolled back: it then holds the committed value again, and Seal skips it because it is not dirty.
type overlay struct {
	arena   arena
	index   map[string]int32 // state key → entries; the keys' bytes lie in the arena
	entries []entry          // in order of first write, which is the order of the state records
	undo    []undo           // this record's writes, newest last
	peak    int              // most entries since index was made
}

type entry struct {
	key, value, old []byte // state key; value now; committed value (the base's memory)
	live, oldLive   bool   // whether the key exists, now and committed
	dirty           bool   // written by a record that was not rolled back
}

// undo is an entry before a write of this record.
type undo struct {
	at          int32
	value       []byte
	live, dirty bool
}

func (o *overlay) find(key []byte) *entry {
	if i, ok := o.index[string(key)]; ok {
		return &o.entries[i]
	}
	return nil
}

// add makes the entry of a key at its first write. The committed value is kept for the digest.
func (o *overlay) add(key, old []byte, oldLive bool) *entry {
	if o.index == nil {
		o.index = map[string]int32{}
	}
	k := o.arena.copy(key)
	// The map's string shares the arena's bytes: they do not change before reset, which clears the map first.
	o.index[unsafe.String(unsafe.SliceData(k), len(k))] = int32(len(o.entries))
	o.entries = append(o.entries, entry{key: k, value: old, old: old, live: oldLive, oldLive: oldLive})
	return &o.entries[len(o.entries)-1]
}

// set writes a value, or deletes (nil), and remembers how to undo it.
func (o *overlay) set(e *entry, at int32, value []byte) {
	o.undo = append(o.undo, undo{at, e.value, e.live, e.dirty})
	e.value, e.live, e.dirty = nil, value != nil, true
	if value != nil {
		e.value = o.arena.copy(value)
	}
}

func (o *overlay) savepoint() { o.undo = o.undo[:0] }

func (o *overlay) rollback() {
	for _, u := range slices.Backward(o.undo) {
		e := &o.entries[u.at]
		e.value, e.live, e.dirty = u.value, u.live, u.dirty
	}
	o.undo = o.undo[:0]
}

// added returns the entries in [from, to) that the base does not have, in key order.
func (o *overlay) added(from, to []byte) []int32 {
	var in []int32
	for i, e := range o.entries {
		if !e.oldLive && bytes.Compare(e.key, from) >= 0 && (to == nil || bytes.Compare(e.key, to) < 0) {
			in = append(in, int32(i))
		}
	}
	slices.SortFunc(in, func(a, b int32) int { return bytes.Compare(o.entries[a].key, o.entries[b].key) })
	return in
}

// reset forgets the transaction and keeps the memory, but for a map much larger than what is used: clearing it costs its
// size, each time.
func (o *overlay) reset() {
	o.peak = max(o.peak, len(o.entries))
	if o.peak > 1<<14 && len(o.entries) < o.peak/16 {
		o.index, o.peak = make(map[string]int32, 2*len(o.entries)), len(o.entries)
	}
	clear(o.index)
	clear(o.entries) // let go of the base's memory
	clear(o.undo)
	o.entries, o.undo = o.entries[:0], o.undo[:0]
	o.arena.reset()
}
