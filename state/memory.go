package state

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/tallystick/tallystick/internal/mutant"
)

// Memory is a Base in the process's memory. An id costs 60 to 90 bytes, a row its key and value and about 95.
type Memory struct {
	stores   []*memoryStore // sorted by prefix
	hasher   hasher
	orphans  orphans
	digest   uint64
	marker   Marker
	proven   bool // there is a marker
	position int64
	broken   error // an Apply or Replay failed half way
}

// memoryStore is one store; exactly one of table and ids is set.
type memoryStore struct {
	name   string
	prefix []byte
	table  *memoryTable
	ids    *memoryIDs
}

// NewMemory makes an empty base for a task with these stores.
func NewMemory(specs []*Spec) *Memory {
	m := &Memory{}
	for _, s := range specs {
		store := &memoryStore{name: s.Name, prefix: appendPrefix(nil, s.Name)}
		if s.Kind == KindDedupe {
			store.ids = newMemoryIDs()
		} else {
			store.table = newMemoryTable()
		}
		m.stores = append(m.stores, store)
	}
	slices.SortFunc(m.stores, func(a, b *memoryStore) int { return bytes.Compare(a.prefix, b.prefix) })
	return m
}

// storeOf finds a state key's store; stages have few, so looking at each beats hashing a name.
func (m *Memory) storeOf(key []byte) *memoryStore {
	for _, s := range m.stores {
		if bytes.HasPrefix(key, s.prefix) {
			return s
		}
	}
	return nil
}

func (m *Memory) named(store string) *memoryStore {
	for _, s := range m.stores {
		if s.name == store {
			return s
		}
	}
	return nil
}

// unknown says why a state key has no store.
func (m *Memory) unknown(key []byte) error {
	name, _, err := splitKey(key)
	if err != nil {
		return err
	}
	return fmt.Errorf("state key %x: store %q is not declared: restore the task", clip(key), name)
}

// Get implements Base.
func (m *Memory) Get(key []byte) ([]byte, bool, error) {
	s := m.storeOf(key)
	if s == nil || s.table == nil {
		return nil, false, fmt.Errorf("state key %x: no table of that name", clip(key))
	}
	value, ok := s.table.get(key[len(s.prefix):])
	return value, ok, m.broken
}

// Seen implements Base.
func (m *Memory) Seen(store string, id ID) (Seen, bool, error) {
	s := m.named(store)
	if s == nil || s.ids == nil {
		return Seen{}, false, fmt.Errorf("no dedupe store %q", store)
	}
	seen, ok := s.ids.seen(id)
	return seen, ok, m.broken
}

// Floor implements Base.
func (m *Memory) Floor(store string) int64 {
	if s := m.named(store); s != nil && s.ids != nil {
		return s.ids.floor
	}
	return NoStreamTime
}

// Ascend implements Base. The first call after keys came or went sorts them.
func (m *Memory) Ascend(from, to []byte, yield func(key, value []byte) bool) error {
	var buf []byte
	for _, s := range m.stores {
		low, high, ok := within(s.prefix, from, to)
		if !ok {
			continue
		}
		each := func(rest, value []byte) bool {
			buf = append(append(buf[:0], s.prefix...), rest...)
			return yield(buf, value)
		}
		var more bool
		if s.table != nil {
			more = s.table.ascend(low, high, each)
		} else {
			more = s.ids.ascend(low, high, each)
		}
		if !more {
			break
		}
	}
	return m.broken
}

// within cuts a range of state keys down to a store: low and high without the prefix, nil for no limit.
func within(prefix, from, to []byte) (low, high []byte, ok bool) {
	end := successor(prefix)
	if to != nil && bytes.Compare(to, prefix) <= 0 || bytes.Compare(from, end) >= 0 {
		return nil, nil, false
	}
	if bytes.HasPrefix(from, prefix) {
		low = from[len(prefix):]
	}
	if bytes.HasPrefix(to, prefix) {
		high = to[len(prefix):]
	}
	return low, high, true
}

// Apply implements Base. It refuses a batch that does not follow the marker or holds a record of no store, before it
// changes anything, and checks the digest that the View computed against its own (I3).
func (m *Memory) Apply(b *Batch) error {
	if m.broken != nil {
		return m.broken
	}
	if err := continues(m.marker, b.Marker); err != nil {
		return err
	}
	for _, r := range b.Records {
		if err := m.check(r.Key, r.Value); err != nil {
			return err
		}
	}
	for _, r := range b.Records {
		m.put(m.storeOf(r.Key), r.Key, r.Value)
	}
	m.setMarker(b.Marker)
	m.position = b.Position
	if m.digest != b.Marker.Digest && !mutant.On("i3-merge-not-checked") {
		m.broken = fmt.Errorf("I3: after transaction %d the contents have digest %016x, its marker says %016x: restore the task from the start", m.marker.TxnSeq, m.digest, b.Marker.Digest)
	}
	return m.broken
}

// Replay implements Base.
func (m *Memory) Replay(key, value []byte) error {
	if m.broken != nil {
		return m.broken
	}
	if IsMarker(key) {
		m.broken = m.replayMarker(value)
		return m.broken
	}
	s := m.storeOf(key)
	if s == nil { // its keys may all be deleted further on: the end of the restore tells
		if mutant.On("orphans-not-counted") {
			return nil
		}
		m.broken = m.orphans.replay(m, key, value)
		return m.broken
	}
	if m.broken = m.check(key, value); m.broken == nil {
		m.put(s, key, value)
	}
	return m.broken
}

func (m *Memory) replayMarker(value []byte) error {
	if value == nil {
		m.marker, m.proven = Marker{}, false
		return nil
	}
	marker, err := ParseMarker(value)
	if err != nil {
		return err
	}
	if mutant.On("stream-time-not-restored") {
		marker.StreamTime = NoStreamTime
	}
	m.setMarker(marker)
	return nil
}

// check reports why a record could not be put.
func (m *Memory) check(key, value []byte) error {
	s := m.storeOf(key)
	if s == nil {
		return m.unknown(key)
	}
	if s.ids == nil {
		return nil
	}
	if err := checkPacked(key[len(s.prefix):], value); err != nil {
		return fmt.Errorf("store %q, key hash %016x: %w", s.name, keyHash(key), err)
	}
	return nil
}

// put applies a record that check accepted and keeps the digest.
func (m *Memory) put(s *memoryStore, key, value []byte) {
	if s.ids != nil {
		m.putIDs(s, key, value)
		return
	}
	r := s.table.rows[string(key[len(s.prefix):])]
	if r != nil {
		m.digest -= m.hasher.record(key, r.value)
	}
	if value == nil {
		s.table.remove(r)
		return
	}
	m.digest += m.hasher.record(key, value)
	if r == nil {
		r = s.table.add(key[len(s.prefix):])
	}
	s.table.set(r, value)
}

func (m *Memory) putIDs(s *memoryStore, key, value []byte) {
	rest := key[len(s.prefix):]
	if old, ok := s.ids.find(rest); ok {
		if value != nil && bytes.Equal(old, value) {
			return // replayed again
		}
		m.digest -= m.hasher.record(key, old)
		s.ids.remove(rest)
	}
	if value != nil {
		m.digest += m.hasher.record(key, value)
		s.ids.put(rest, value)
	}
}

func (m *Memory) setMarker(marker Marker) {
	marker.Next = slices.Clone(marker.Next)
	m.marker, m.proven = marker, true
}

// SetPosition implements Base.
func (m *Memory) SetPosition(next int64) { m.position = next }

// Position implements Base.
func (m *Memory) Position() int64 { return m.position }

// Marker implements Base.
func (m *Memory) Marker() (Marker, bool) { return m.marker, m.proven }

// Digest implements Base.
func (m *Memory) Digest() uint64 { return m.digest }

// Bytes implements Base. It counts what the contents cost, not what Go's maps keep for growth.
func (m *Memory) Bytes() int64 {
	var n int64
	for _, s := range m.stores {
		_, bytes := s.size()
		n += bytes
	}
	return n
}

// Size implements Base.
func (m *Memory) Size(store string) (keys, bytes int64) {
	if s := m.named(store); s != nil {
		return s.size()
	}
	return 0, 0
}

func (s *memoryStore) size() (keys, bytes int64) {
	if s.table != nil {
		return int64(len(s.table.rows)), s.table.bytes
	}
	return int64(len(s.ids.index)), s.ids.bytes
}

// Reset implements Base.
func (m *Memory) Reset() error {
	for _, s := range m.stores {
		if s.table != nil {
			s.table = newMemoryTable()
		} else {
			s.ids = newMemoryIDs()
		}
	}
	m.orphans, m.digest, m.marker, m.proven, m.position, m.broken = nil, 0, Marker{}, false, 0, nil
	return nil
}

// Close implements Base.
func (m *Memory) Close() error {
	err := m.Reset()
	m.broken = errors.New("state: the base is closed")
	return err
}
