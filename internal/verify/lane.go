package verify

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// laneReader is one lane with the next two outcomes decoded: the second tells whether the first stands in its place.
type laneReader struct {
	stream
	topic string
	ahead [2]outcome
	have  int   // how many of ahead are valid
	first int64 // input offset of the first outcome; -1 none yet
	taken bool  // an outcome was

	from, passed int64 // offsets in the lane: where its reading began, and behind the last record taken from the stream
}

// next is where to read on from so that no outcome is missed. A head that was deleted stays in sight until an outcome was taken
// from behind it: what it may have held is not known to be lost.
func (r *laneReader) next() int64 {
	switch {
	case r.beheaded() && !r.taken:
		return r.from
	case r.have > 0:
		return r.ahead[0].rec.Offset
	}
	return r.passed
}

// beheaded reports whether the lane begins behind the offset that it was to be read from.
func (r *laneReader) beheaded() bool { return r.start() > r.from }

func (r *laneReader) take() {
	r.ahead[0] = r.ahead[1]
	r.have--
	r.taken = true
}

// collect gathers the outcomes of an input; what lies behind in a lane is out of place.
func (a *audit) collect(ctx context.Context, offset int64) error {
	a.at = offset
	a.found = append(a.found[:0], a.early[offset]...)
	delete(a.early, offset)
	for {
		for l := range a.lanes {
			if err := a.collectLane(ctx, lane(l), offset); err != nil {
				return err
			}
		}
		if len(a.found) > 0 {
			return nil
		}
		waited, err := a.waitForLanes(ctx, offset)
		if err != nil || !waited {
			return err
		}
	}
}

func (a *audit) collectLane(ctx context.Context, l lane, offset int64) error {
	for {
		o, err := a.head(ctx, l)
		if err != nil || o == nil || o.source.offset > offset {
			return err
		}
		if o.source.offset == offset {
			a.found = append(a.found, *o)
		} else if err := a.stray(ctx, o); err != nil {
			return err
		}
		a.lanes[l].take()
	}
}

// waitForLanes is asked when no lane has the outcome of an input: it may be in a transaction whose marker is on its way, or in
// a head that was deleted.
func (a *audit) waitForLanes(ctx context.Context, offset int64) (waited bool, err error) {
	for l := range a.lanes {
		r := &a.lanes[l]
		if r.beheaded() && (r.first < 0 || offset < r.first) {
			return false, a.undecided("%s/%d starts at offset %d: its head was deleted, and with it perhaps the outcome of input %d; verify needs all outcomes (retention.ms=-1)",
				r.topic, a.p, r.start(), offset)
		}
		if r.have > 0 || r.hidden() == nil {
			continue
		}
		return true, a.wait(ctx, r, r.topic, fmt.Sprintf("perhaps the outcome of input %d", offset))
	}
	return false, nil
}

// head returns the next outcome of a lane, nil when there is none to see. One that stands before the outcome of an earlier
// input is set aside until its own input comes.
func (a *audit) head(ctx context.Context, l lane) (*outcome, error) {
	r := &a.lanes[l]
	for {
		if err := a.fill(ctx, l); err != nil || r.have == 0 {
			return nil, err
		}
		this, next := &r.ahead[0], &r.ahead[1]
		inOrder := r.have == 1 || this.source.offset <= next.source.offset
		passed := next.source.offset < a.at || next.source.offset == a.at && len(a.found) > 0 // then it is the next one that is out of place
		if inOrder || passed || len(a.early) >= maxEarly {
			return this, nil
		}
		a.violate(Chain, fmt.Sprintf("%s, the outcome of input %d, stands before that of input %d", place(this.rec), this.source.offset, next.source.offset),
			evidence("outcome", this.rec), evidence("next", next.rec))
		a.early[this.source.offset] = append(a.early[this.source.offset], *this)
		r.take()
	}
}

// maxEarly bounds what is set aside; a history that is in such disorder has been called so.
const maxEarly = 1000

// fill decodes up to two outcomes. Records that are no outcome of this partition are reported and passed over.
func (a *audit) fill(ctx context.Context, l lane) error {
	r := &a.lanes[l]
	for r.have < len(r.ahead) {
		rec, err := r.peek(ctx)
		if err != nil || rec == nil {
			return err
		}
		r.pop()
		r.passed = rec.Offset + 1
		a.report.records++
		if a.isNote(l, rec) {
			continue
		}
		o := &r.ahead[r.have]
		*o = a.outcomes.read(l, rec)
		if fault := a.misplaced(o); fault != "" {
			a.violate(Ghost, fmt.Sprintf("%s is no outcome of this partition: %s", place(rec), fault), evidence("outcome", rec))
			continue
		}
		if r.first < 0 {
			r.first = o.source.offset
		}
		r.have++
	}
	return nil
}

// misplaced says why a record cannot be an outcome of this partition, "" if it can.
func (a *audit) misplaced(o *outcome) string {
	switch {
	case o.fault != "":
		return o.fault
	case o.source.topic != a.topics.Input || o.source.partition != a.p:
		return fmt.Sprintf("it names the input %s", o.source)
	}
	return ""
}

func place(rec *kgo.Record) string {
	return fmt.Sprintf("%s/%d/%d", rec.Topic, rec.Partition, rec.Offset)
}
