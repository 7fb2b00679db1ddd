package state

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/record"
)

// View is a record's sight of a task's stores: its savepoint over the open transaction's overlay over the base. Handles
// read and write through it without errors: the first failure of the store sticks, later calls do nothing and return zero
// values, and the engine looks at Err when the handler is done. A View that never saw a Savepoint reads committed contents
// and refuses writes.
//
// Life: (Savepoint [Rollback])… Seal, then Merge when the transaction is proven committed, else Drop; Drop is right at any time.
// Not safe for concurrent use.
type View struct {
	specs   []*Spec
	base    Base
	overlay overlay
	pending []*pending // by Spec.Index; nil for tables
	hasher  hasher

	open       bool // a record was begun since the last Merge or Drop
	writable   bool // between Savepoint and Rollback
	sealed     bool
	committed  Marker // the base's, when open
	streamTime int64
	savedTime  int64 // stream time before this record
	pos        record.Position
	topics     []string // input topics of the transaction, in order of first use
	topic      int32    // pos.Topic in topics
	err        error
	largest    int // bytes of the largest row that this record wrote

	key, scratch []byte
	read         lastRead
	seal         sealing
	tombstones   int // most in a transaction
}

// lastRead is the last committed row that was looked up: a handler reads a key before it writes it.
type lastRead struct {
	valid bool
	key   []byte // state key
	value []byte // the base's memory
	live  bool
}

// NewView makes a view of a task's stores. specs are the stage's, in the order of their Index; the View takes the base over
// until the caller stops using it. The base may still be restored: it is read at the first use.
func NewView(specs []*Spec, base Base) *View {
	v := &View{specs: specs, base: base, streamTime: NoStreamTime, pos: record.Position{Partition: -1}, tombstones: maxTombstones}
	for _, s := range specs {
		var p *pending
		if s.Kind == KindDedupe {
			p = newPending(s)
		}
		v.pending = append(v.pending, p)
	}
	return v
}

// View makes a View its own Scope.
func (v *View) View() *View { return v }

// Err returns the first failure of the store itself: a read, a decode, a codec that could not encode, a handle of another
// stage. It is never the record's fault, and names store, key hash and codec. Rollback clears it.
func (v *View) Err() error { return v.err }

// StreamTime returns the highest record time applied, in ms, this record's included; NoStreamTime if there is none.
func (v *View) StreamTime() int64 {
	if !v.open {
		v.load()
	}
	return v.streamTime
}

// Dirty reports whether the open transaction touched the task: a Savepoint was set since the last Merge or Drop, even if it
// was rolled back. The task then needs its marker in this transaction (I6).
func (v *View) Dirty() bool { return v.open }

// Size returns what the base holds of a store; what the open transaction changed is not counted.
func (v *View) Size(spec *Spec) (keys, bytes int64) { return v.base.Size(spec.Name) }

// NewIDs returns the most ids that the open transaction adds to one dedupe store. They are packed into one record, so that
// the engine ends a transaction before they exceed what the state topic takes.
func (v *View) NewIDs() (most int) {
	for _, p := range v.pending {
		if p != nil {
			most = max(most, len(p.ids))
		}
	}
	return most
}

// LargestWrite returns the bytes of key and value of the largest table row that this record wrote: the state topic must be
// able to take it.
func (v *View) LargestWrite() int { return v.largest }

// Savepoint begins a record: what is written from here on is undone by Rollback, and kept when the next Savepoint or Seal
// comes first. It raises stream time to the record's time, in ms.
func (v *View) Savepoint(pos record.Position, recordTimeMs int64) {
	if v.sealed {
		v.stick(errors.New("state: a record was begun between Seal and Merge or Drop: settle the transaction first"))
		return
	}
	if !v.open {
		v.load()
		v.open = true
	}
	v.overlay.savepoint()
	for _, p := range v.pending {
		p.savepoint()
	}
	v.largest = 0
	v.savedTime, v.streamTime = v.streamTime, max(v.streamTime, recordTimeMs)
	v.pos, v.topic = pos, v.topicIndex(pos.Topic)
	v.writable = true
}

// Advance raises stream time within this record, in ms: it is at a timer's boundary before it is at the record's time. Rollback
// undoes it.
func (v *View) Advance(ms int64) {
	if v.writable {
		v.streamTime = max(v.streamTime, ms)
	}
}

// Rollback undoes this record: writes, ids, stream time, and a sticky failure. It changes nothing without a Savepoint.
func (v *View) Rollback() {
	v.err = nil
	if !v.writable {
		return
	}
	if !mutant.On("writes-not-rolled-back") {
		v.overlay.rollback()
	}
	for _, p := range v.pending {
		p.rollback()
	}
	if !mutant.On("failed-record-moves-time") {
		v.streamTime = v.savedTime
	}
	v.writable = false
}

// Drop forgets the open transaction, which was aborted: contents and stream time are the base's again.
func (v *View) Drop() {
	v.overlay.reset()
	for _, p := range v.pending {
		p.reset()
	}
	v.topics = v.topics[:0]
	v.seal.reset()
	v.read.valid = false
	v.open, v.writable, v.sealed, v.err = false, false, false, nil
}

// load takes from the base what a transaction starts from.
func (v *View) load() {
	m, ok := v.base.Marker()
	if !ok {
		m = Marker{StreamTime: NoStreamTime}
	}
	for _, p := range v.pending {
		p.begin(v.base, m)
	}
	v.committed, v.streamTime = m, m.StreamTime
	v.read.valid = false
}

func (v *View) topicIndex(topic string) int32 {
	for i, t := range v.topics {
		if t == topic {
			return int32(i)
		}
	}
	v.topics = append(v.topics, topic)
	return int32(len(v.topics) - 1)
}

// owns reports whether a handle may be used on this View. As a mere index it would silently write into a foreign store.
func (v *View) owns(s *Spec) bool {
	switch {
	case v.err != nil:
		return false
	case s == nil:
		v.stick(errors.New("state: a handle was used that was never declared: make it with NewTable or NewDedupe on the stage"))
	case s.Index < 0 || s.Index >= len(v.specs) || v.specs[s.Index] != s && !mutant.On("foreign-handle"):
		v.stick(fmt.Errorf("store %q: its handle was declared on another stage: declare a store of this name on this stage, or handle the topic there", s.Name))
	default:
		return true
	}
	return false
}

// mayWrite also refuses writes that no record would undo.
func (v *View) mayWrite(s *Spec) bool {
	if !v.owns(s) {
		return false
	}
	if !v.writable {
		v.stick(fmt.Errorf("store %q: written outside a record: committed contents are read-only, write in a handler", s.Name))
	}
	return v.writable
}

func (v *View) stick(err error) {
	if v.err == nil {
		v.err = err
	}
}

// fail sticks a failure of a store. The cause is not wrapped: a codec's MalformedError, found by errors.As, would send a
// broken store's record to the dead letters.
func (v *View) fail(s *Spec, key []byte, doing, codec string, cause error) {
	v.stick(fmt.Errorf("store %q, key hash %016x, codec %q: %s: %v", s.Name, keyHash(key), codec, doing, cause))
}

// get returns the value of a state key as this record sees it; valid until the transaction ends.
func (v *View) get(s *Spec, key []byte) ([]byte, bool) {
	if e := v.overlay.find(key); e != nil {
		return e.value, e.live
	}
	return v.getCommitted(s, key)
}

func (v *View) getCommitted(s *Spec, key []byte) ([]byte, bool) {
	r := &v.read
	if r.valid && bytes.Equal(r.key, key) {
		return r.value, r.live
	}
	value, ok, err := v.base.Get(key)
	if err != nil {
		v.fail(s, key, "read", s.ValueCodec, err)
		return nil, false
	}
	if v.open { // outside a transaction the base may change unseen
		r.valid, r.key, r.value, r.live = true, append(r.key[:0], key...), value, ok
	}
	return value, ok
}

// set writes a state key, or deletes it (nil value). The caller has checked mayWrite.
func (v *View) set(s *Spec, key, value []byte) {
	v.largest = max(v.largest, len(key)+len(value))
	i, ok := v.overlay.index[string(key)]
	if !ok {
		old, live := v.getCommitted(s, key) // also for a blind write: the digest needs the old value
		if v.err != nil {
			return
		}
		i = int32(len(v.overlay.entries))
		v.overlay.add(key, old, live)
	}
	v.overlay.set(&v.overlay.entries[i], i, value)
}

// ascend yields a table's rows in [from, to) of state keys, in key order, as the record sees them when they are reached.
// Keys that are added meanwhile are left out.
func (v *View) ascend(from, to []byte, yield func(key, value []byte) bool) error {
	added := v.overlay.added(from, to)
	more := true
	emit := func(key, value []byte, live bool) {
		if more && live {
			more = yield(key, value)
		}
	}
	emitAddedBefore := func(key []byte) {
		for more && len(added) > 0 && (key == nil || bytes.Compare(v.overlay.entries[added[0]].key, key) < 0) {
			e := v.overlay.entries[added[0]]
			added = added[1:]
			emit(e.key, e.value, e.live)
		}
	}
	err := v.base.Ascend(from, to, func(key, value []byte) bool {
		emitAddedBefore(key)
		if e := v.overlay.find(key); e != nil {
			emit(e.key, e.value, e.live)
		} else {
			emit(key, value, true)
		}
		return more
	})
	if err == nil {
		emitAddedBefore(nil)
	}
	return err
}
