package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
)

// pending is the ids that the open transaction adds to one dedupe store. Methods of a nil pending (a table's) do nothing.
type pending struct {
	spec  *Spec
	ids   []pendingID // in order of arrival
	index map[ID]int32
	mark  int // len(ids) at the savepoint
	order []int32

	text   string        // the fingerprint that was is read from
	was    time.Duration // the window that the committed state was kept under; 0 if not known
	floor  int64         // ids of buckets that ended at or before it may be gone, whatever the window is now
	widens bool          // this transaction must record the floor
}

type pendingID struct {
	id          ID
	fingerprint uint64
	offset      int64
	bucketEnd   int64
	topic       int32 // in View.topics
	earlier     int32 // the same id before in ids, -1 if there is none; it had ceased to count
}

func newPending(s *Spec) *pending {
	return &pending{spec: s, index: map[ID]int32{}, floor: NoStreamTime}
}

// begin takes from the base what the store's verdicts depend on.
//
// A window that was just widened reaches back to buckets that may be deleted: an id of theirs would look new, and its event
// would be applied twice. So the end of the last such bucket is kept as the store's floor, in a packed record without ids,
// until the wider window has moved past it. Ids below the floor do not count, whether or not they are still there.
func (p *pending) begin(base Base, m Marker) {
	if p == nil {
		return
	}
	if m.Fingerprint != p.text {
		p.text, p.was = m.Fingerprint, storedWindow(m.Fingerprint, p.spec.Name)
	}
	p.floor, p.widens = base.Floor(p.spec.Name), false
	if p.was > 0 && p.was < p.spec.Window && m.StreamTime != NoStreamTime {
		deleted := before(m.StreamTime, p.was)
		p.widens = deleted > p.floor && !mutant.On("widened-window-forgets")
		p.floor = max(p.floor, deleted)
	}
}

// storedWindow returns the window of a store in a fingerprint text; 0 when it is not there.
func storedWindow(text, store string) time.Duration {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "store "+store+" ") {
			continue
		}
		_, w, _ := strings.Cut(line, " window=")
		d, err := time.ParseDuration(strings.TrimSuffix(w, "\n"))
		if err == nil {
			return d
		}
	}
	return 0
}

// horizon returns the time up to which buckets do not count.
func (p *pending) horizon(streamTime int64) int64 {
	return max(before(streamTime, p.spec.Window), p.floor)
}

func (p *pending) add(e pendingID) {
	e.earlier = -1
	if i, ok := p.index[e.id]; ok {
		e.earlier = i
	}
	p.index[e.id] = int32(len(p.ids))
	p.ids = append(p.ids, e)
}

func (p *pending) savepoint() {
	if p != nil {
		p.mark = len(p.ids)
	}
}

func (p *pending) rollback() {
	if p == nil || mutant.On("dedupe-not-rolled-back") {
		return
	}
	for _, e := range slices.Backward(p.ids[p.mark:]) {
		if e.earlier < 0 {
			delete(p.index, e.id)
		} else {
			p.index[e.id] = e.earlier // stream time goes back too, so it may count again
		}
	}
	p.ids = p.ids[:p.mark]
}

func (p *pending) reset() {
	if p == nil {
		return
	}
	clear(p.index)
	p.ids, p.mark = p.ids[:0], 0
}

// counting returns the ids that still count at the horizon, by bucket, within a bucket in order of arrival.
func (p *pending) counting(horizon int64) []int32 {
	p.order = p.order[:0]
	for i := range p.ids {
		if p.ids[i].bucketEnd > horizon {
			p.order = append(p.order, int32(i))
		}
	}
	slices.SortStableFunc(p.order, func(a, b int32) int { return cmp.Compare(p.ids[a].bucketEnd, p.ids[b].bucketEnd) })
	return p.order
}
