package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// fates says of each transaction how it ended in the partitions that it wrote to. Only those whose epoch is theirs alone can
// be compared over partitions: their markers carry the next epoch (transaction version 2, KIP-890).
type fates map[producer]*fate

// fate is one transaction over all partitions: a place where it was committed, and one where it was not.
type fate struct {
	bumped    bool // a commit carries a later epoch
	committed spot
	other     spot
}

// spot is a stretch and where it is.
type spot struct {
	topic     string
	partition int32
	*stretch
}

func (f *fates) add(topic string, p int32, s *stretch) {
	if *f == nil {
		*f = fates{}
	}
	t := (*f)[s.by]
	if t == nil {
		t = &fate{}
		(*f)[s.by] = t
	}
	at := spot{topic, p, s}
	if s.end == endCommit {
		t.bumped, t.committed = t.bumped || s.bumped, at
	} else if t.other.stretch == nil || t.other.end == stillOpen {
		t.other = at
	}
}

// merge adds those of another partition.
func (f *fates) merge(of fates) {
	for _, t := range of {
		for _, at := range []spot{t.committed, t.other} {
			if at.stretch != nil {
				f.add(at.topic, at.partition, at.stretch)
			}
		}
	}
}

// judge reports the transactions that are committed in one partition and not in another.
func (f fates) judge(ctx context.Context, h history, patience time.Duration, r *Report) error {
	torn := slices.SortedFunc(maps.Keys(f), func(x, y producer) int { return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.epoch, y.epoch)) })
	for _, by := range torn {
		t := f[by]
		if !t.bumped || t.other.stretch == nil || told(r, t) {
			continue
		}
		if err := awaitEnd(ctx, h, patience, t.other.topic, t.other.partition, t.other.stretch); err != nil {
			return err
		}
		if t.other.end == endCommit {
			continue
		}
		if err := t.report(ctx, h, by, r); err != nil {
			return err
		}
	}
	return nil
}

// told reports whether the partition's own audit has shown this tear.
func told(r *Report, t *fate) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool {
		return v.Verdict == Torn && slices.ContainsFunc(v.Evidence, func(e Evidence) bool { return e.Producer == t.other.by.String() })
	})
}

func (t *fate) report(ctx context.Context, h history, by producer, r *Report) error {
	if r.Counts[Torn] >= MaxShown {
		r.Counts[Torn]++
		return nil
	}
	v := Violation{Torn, -1, fmt.Sprintf("one transaction of %s is committed in %s/%d and %s in %s/%d", by, t.committed.topic, t.committed.partition,
		t.other.end, t.other.topic, t.other.partition), nil}
	for _, at := range []spot{t.committed, t.other} {
		rec, marker, err := fateOf(ctx, h, at.topic, at.partition, at.first)
		if err != nil {
			return err
		}
		v.Evidence = append(v.Evidence, slices.Concat(rawEvidence("record", rec), rawEvidence("marker", marker))...)
	}
	r.add(v)
	return nil
}

// awaitEnd waits for the control record of a stretch that is open, for the time of patience.
func awaitEnd(ctx context.Context, h history, patience time.Duration, topic string, p int32, s *stretch) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for s.end == stillOpen {
		_, marker, err := fateOf(ctx, h, topic, p, s.first)
		if err != nil {
			return err
		}
		if marker != nil {
			s.end, _ = control(marker)
			s.marker, s.bumped = marker.Offset, marker.ProducerEpoch != s.by.epoch
			return nil
		}
		if !pause(bounded, backoff) {
			return errors.Join(ctx.Err())
		}
	}
	return nil
}
