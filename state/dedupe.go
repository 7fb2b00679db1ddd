package state

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/record"
)

// Verdict is what a Dedupe store says of an id.
type Verdict uint8

// The verdicts.
const (
	New       Verdict = iota // first time; it is remembered now
	Duplicate                // seen before with the same content
	Conflict                 // seen before with another content
	Expired                  // not found, and older than the window: it may have been applied, so it must not be
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	names := [...]string{"new", "duplicate", "conflict", "expired"}
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Dedupe remembers ids for a window of stream time. It is a value: copy it freely. Its methods return no errors, see View.
type Dedupe struct{ spec *Spec }

// NewDedupe declares a dedupe store on a stage. The window must be longer than the time after which an event can still be
// delivered again; it counts in whole milliseconds and can be widened later, never narrowed.
func NewDedupe(d Declarer, name string, window time.Duration) Dedupe {
	return Dedupe{d.DeclareStore(Spec{Name: name, Kind: KindDedupe, Window: window})}
}

// Dedupe returns a handle on a dedupe store, for who knows only its Spec.
func (s *Spec) Dedupe() Dedupe { return Dedupe{s} }

// Check says whether the event under id, of time at (the record's time), was seen before, and remembers a New one together
// with its content and position. When the record is rolled back, it was never seen. The window is measured back from
// stream time, at least from this record's. After a failure of the store it returns Duplicate, and the record is undone.
func (d Dedupe) Check(s Scope, id string, at time.Time, content Fingerprint) Verdict {
	v := s.View()
	if !v.mayWrite(d.spec) {
		return Duplicate
	}
	p, ms := v.pending[d.spec.Index], at.UnixMilli()
	hash := v.hashID(id)
	seen, ok := v.seen(d.spec, p, hash)
	switch horizon := p.horizon(v.streamTime); {
	case v.err != nil:
		return Duplicate
	case ok && seen.BucketEnd > horizon && (seen.Fingerprint == content.sum || mutant.On("conflict-is-duplicate")):
		return Duplicate
	case ok && seen.BucketEnd > horizon:
		return Conflict
	case ms < horizon && !mutant.On("expired-is-new"):
		return Expired
	}
	p.add(pendingID{id: hash, fingerprint: content.sum, topic: v.topic, offset: v.pos.Offset,
		bucketEnd: bucketEnd(v.lifeFrom(ms), bucketWidth(d.spec.Window))})
	return New
}

// lifeFrom is when the life of an id begins: a wrong stamp of 1970 must not shorten it.
func (v *View) lifeFrom(ms int64) int64 {
	if mutant.On("id-dies-with-its-stamp") {
		return ms
	}
	return max(ms, v.streamTime)
}

// First returns where an id that Check calls Duplicate or Conflict was first seen; false when it is not remembered.
// Its partition is that of the record being handled, since a task has one; -1 outside a record.
func (d Dedupe) First(s Scope, id string) (record.Position, bool) {
	v := s.View()
	if !v.owns(d.spec) {
		return record.Position{}, false
	}
	p := v.pending[d.spec.Index]
	streamTime := v.StreamTime() // loads the floor
	seen, ok := v.seen(d.spec, p, v.hashID(id))
	if !ok || seen.BucketEnd <= p.horizon(streamTime) {
		return record.Position{}, false
	}
	return record.Position{Topic: seen.Topic, Partition: v.pos.Partition, Offset: seen.Offset}, true
}

func (v *View) hashID(id string) ID {
	v.scratch = append(v.scratch[:0], id...)
	sum := sha256.Sum256(v.scratch)
	return ID(sum[:len(ID{})])
}

// seen looks an id up in the open transaction, then in the base.
func (v *View) seen(s *Spec, p *pending, id ID) (Seen, bool) {
	if i, ok := p.index[id]; ok {
		e := &p.ids[i]
		return Seen{BucketEnd: e.bucketEnd, Fingerprint: e.fingerprint, Topic: v.topics[e.topic], Offset: e.offset}, true
	}
	seen, ok, err := v.base.Seen(s.Name, id)
	if err != nil {
		v.stick(fmt.Errorf("store %q, id hash %x: look up: %v", s.Name, id, err))
		return Seen{}, false
	}
	return seen, ok
}
