package state

import (
	"cmp"
	"slices"
)

// What a row costs beside its key and value: the row, its slot in the map at the usual load, slices rounded up.
const rowOverhead = 95

// memoryTable is the rows of a table by encoded key. Rows are updated in place.
type memoryTable struct {
	rows   map[string]*row
	sorted []*row // in key order, with rows that were removed since
	fresh  []*row // added since, in no order
	gone   int    // removed rows in sorted and fresh
	lazy   bool   // nobody has iterated yet, so sorted and fresh are not kept
	bytes  int64
}

type row struct {
	key   string
	value []byte // nil = removed
}

func newMemoryTable() *memoryTable { return &memoryTable{rows: map[string]*row{}, lazy: true} }

func (t *memoryTable) get(key []byte) ([]byte, bool) {
	if r := t.rows[string(key)]; r != nil {
		return r.value, true
	}
	return nil, false
}

// add makes the row of a new key; set must follow.
func (t *memoryTable) add(key []byte) *row {
	r := &row{key: string(key)}
	t.rows[r.key] = r
	t.bytes += int64(len(key)) + rowOverhead
	if !t.lazy {
		t.fresh = append(t.fresh, r)
	}
	return r
}

// set updates a row in place, unless its memory is too small or far too large.
func (t *memoryTable) set(r *row, value []byte) {
	n := cap(r.value)
	if r.value == nil || len(value) > n || n > 256 && len(value) < n/4 {
		r.value = append([]byte{}, value...) // never nil
	} else {
		r.value = append(r.value[:0], value...)
	}
	t.bytes += int64(cap(r.value) - n)
}

// remove forgets a row; nil is none.
func (t *memoryTable) remove(r *row) {
	if r == nil {
		return
	}
	delete(t.rows, r.key)
	t.bytes -= int64(len(r.key)) + rowOverhead + int64(cap(r.value))
	r.value = nil
	if !t.lazy {
		t.gone++
	}
}

// ascend yields rows with low <= key < high in key order.
func (t *memoryTable) ascend(low, high []byte, yield func(key, value []byte) bool) bool {
	t.sort()
	rows := t.sorted
	i, _ := slices.BinarySearchFunc(rows, string(low), func(r *row, k string) int { return cmp.Compare(r.key, k) })
	var buf []byte
	for _, r := range rows[i:] {
		if high != nil && r.key >= string(high) {
			break
		}
		buf = append(buf[:0], r.key...)
		if !yield(buf, r.value) {
			return false
		}
	}
	return true
}

// sort brings the sorted rows up to date: what came is sorted and merged in, what went is left out.
func (t *memoryTable) sort() {
	if t.lazy {
		t.lazy = false
		for _, r := range t.rows {
			t.fresh = append(t.fresh, r)
		}
	}
	if len(t.fresh) == 0 && t.gone == 0 {
		return
	}
	byKey := func(a, b *row) int { return cmp.Compare(a.key, b.key) }
	slices.SortFunc(t.fresh, byKey)
	merged := make([]*row, 0, len(t.rows))
	add := func(r *row) {
		if r.value != nil {
			merged = append(merged, r)
		}
	}
	old := t.sorted
	for _, f := range t.fresh {
		for len(old) > 0 && byKey(old[0], f) < 0 {
			add(old[0])
			old = old[1:]
		}
		add(f)
	}
	for _, r := range old {
		add(r)
	}
	t.sorted, t.fresh, t.gone = merged, nil, 0
}
