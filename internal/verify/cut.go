package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// rereads is how often a state partition is read on when it does not add up: compaction may have taken a record after its
// successor was written, behind the end that was read to.
const rereads = 3

// replay folds the state partition up to a marker that covers the committed offset.
func (a *audit) replay(ctx context.Context, c commit) (*fold, error) {
	f := a.fold
	f.lookFor(c.txnSeq)
	next := &a.foldNext
	for try := 0; ; try++ {
		moved, err := a.replayTo(ctx, f, c, next, false)
		if err == nil && f.loose != nil { // the end fell into a transaction: its marker follows
			_, err = a.replayTo(ctx, f, c, next, true)
		}
		if err != nil || f.sound() || try == rereads || try > 0 && !moved {
			return f, err
		}
	}
}

// replayTo replays from next to the partition's end, or to the first marker.
func (a *audit) replayTo(ctx context.Context, f *fold, c commit, next *int64, toMarker bool) (moved bool, err error) {
	s, err := a.h.open(ctx, a.topics.State, a.p, *next)
	if err != nil {
		return false, err
	}
	for !toMarker || f.loose != nil {
		rec, err := s.peek(ctx)
		if err != nil {
			return moved, err
		}
		switch {
		case rec != nil:
			s.pop()
			a.report.records++
			f.apply(rec)
			*next, moved = rec.Offset+1, true
		case s.hidden() == nil:
			return moved, nil
		case f.covers(c, a.topics.Input):
			a.noteHidden(s)
			return moved, nil
		default:
			if err := a.wait(ctx, s, a.topics.State, "the marker of "+c.String()); err != nil {
				return moved, err
			}
		}
	}
	return moved, nil
}

// sound reports whether the fold is complete: nothing behind the marker, and its digest.
func (f *fold) sound() bool { return f.loose == nil && (!f.found || f.digest == f.marker.digest) }

// covers reports whether nothing that is known to be committed is still to be read.
func (f *fold) covers(c commit, input string) bool {
	return f.loose == nil && (!c.found || f.found && f.marker.txnSeq >= c.txnSeq && f.marker.next[input] >= c.next)
}

// findCut decides up to where the partition is judged: the marker's appliedNext, which must be the committed offset (I1, L5).
func (a *audit) findCut(ctx context.Context, c commit, f *fold) error {
	if !f.found {
		a.cut = max(c.next, 0)
		if c.found {
			a.violate(Offset, fmt.Sprintf("%s, but the state topic has no applied marker", c))
		}
		return nil
	}
	a.partitions = f.marker.partitions
	next, ok := f.marker.next[a.topics.Input]
	if !ok {
		a.violate(Offset, fmt.Sprintf("the applied marker does not speak of %s", a.topics.Input), evidence("marker", f.at))
		next = max(c.next, 0)
	}
	if a.cut = next; a.continued && next < a.begin {
		return a.undecided("%s, but inputs below %d were judged as processed: the job was set back, or this is another; begin anew with the whole history",
			f.marker.String(a.topics.Input), a.begin)
	}
	if f.wanted != nil && !c.agrees(f.wanted, a.topics.Input) {
		a.violate(Offset, fmt.Sprintf("%s, but %s", c, f.wanted.String(a.topics.Input)), evidence("marker", f.wantedAt))
	}
	if f.marker.txnSeq == c.txnSeq && f.wanted != nil {
		return nil
	}
	return a.checkMoved(ctx, c, f)
}

// offsetsKept is how long brokers keep the offsets of a group without members at least: offsets.retention.minutes is seven days
// unless somebody has set it. An offset that is missing beside a younger marker did not expire: it was deleted, or never committed.
const offsetsKept = 24 * time.Hour

// checkMoved judges a marker that is not the committed offset's: on a live job the commit that it belongs to came between the
// two readings, so a third one must be at or behind it.
func (a *audit) checkMoved(ctx context.Context, before commit, f *fold) error {
	after, err := a.h.committed(ctx, a.p)
	members := 0
	if err == nil && !after.found {
		after, members, err = a.awaitOffset(ctx)
	}
	if err != nil {
		return err
	}
	if !after.found && members == 0 && a.now().Sub(f.at.Timestamp) >= offsetsKept {
		a.unanchored = a.undecided("the group has no committed offset of %s/%d and no members, %s: its offsets expired or were deleted; start the job once: it resumes from the marker",
			a.topics.Input, a.p, f.marker.String(a.topics.Input))
		return nil
	}
	m := &f.marker
	next := m.next[a.topics.Input]
	grew := !before.found || before.valid && before.txnSeq < m.txnSeq && before.next <= next
	reached := after.valid && (after.agrees(m, a.topics.Input) || after.txnSeq > m.txnSeq && after.next >= next)
	if !grew || !reached {
		a.violate(Offset, fmt.Sprintf("%s, but %s", after, m.String(a.topics.Input)), evidence("marker", f.at))
	}
	return nil
}

// awaitOffset gives a group without an offset the time of patience to commit one: a job that was started again restores its state
// first. A group without members has nobody who could.
func (a *audit) awaitOffset(ctx context.Context) (c commit, members int, err error) {
	bounded, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	for {
		if members, err = a.h.members(ctx); err != nil {
			return c, members, err
		}
		if c, err = a.h.committed(ctx, a.p); err != nil || c.found || members == 0 {
			return c, members, err
		}
		if !pause(bounded, beat) {
			return c, members, ctx.Err()
		}
	}
}

func (c commit) agrees(m *marker, input string) bool {
	return c.found && c.valid && c.txnSeq == m.txnSeq && c.digest == m.digest && c.next == m.next[input]
}

func (m *marker) String(input string) string {
	return fmt.Sprintf("the applied marker says next %d, txn=%d digest=%016x", m.next[input], m.txnSeq, m.digest)
}

// present copies records, leaving out those that are not there.
func present(role string, recs ...*kgo.Record) (ev []Evidence) {
	for _, rec := range recs {
		if rec != nil {
			ev = append(ev, evidence(role, rec))
		}
	}
	return ev
}
