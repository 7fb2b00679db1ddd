package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// tears looks for transactions of the job that are committed in part. What ties the parts of one transaction together is its
// producer and the inputs that they tell of: the applied marker in the state covers the inputs of the outcomes.
//
// Before transaction version 2 one epoch serves many transactions. Then an aborted attempt and a committed one look alike,
// and they are told apart by the inputs they cover, which only a whole log shows: where compaction has taken part of the
// state's, nothing is said.
func (e *examination) tears(ctx context.Context, c commit) error {
	by := e.states()
	for l := range laneCount {
		for _, s := range e.lanes[l] {
			if err := e.outcomesWithoutState(ctx, l, s, by[s.by]); err != nil {
				return err
			}
		}
	}
	if err := e.stateWithoutOutcomes(ctx); err != nil {
		return err
	}
	return e.offsetWithoutState(ctx, c)
}

// claims is what one producer's transactions say that they applied.
type claims struct {
	state     []*stretch
	committed int64 // the last input that one of them covers and is committed
}

// states orders the state's stretches by their beginning, notes what was committed before each, and sorts them by producer.
func (e *examination) states() map[producer]claims {
	slices.SortFunc(e.state, func(x, y *stretch) int { return cmp.Compare(x.first, y.first) })
	by, high := map[producer]claims{}, int64(-1)
	for _, s := range e.state {
		s.before = high
		if s.claimed < 0 {
			continue
		}
		c, known := by[s.by]
		if c.state = append(c.state, s); !known {
			c.committed = -1
		}
		if s.end == endCommit {
			high, c.committed = max(high, s.high), max(c.committed, s.high)
		}
		by[s.by] = c
	}
	return by
}

// outcomesWithoutState reports committed outcomes whose inputs the state covers only in what was aborted or never ended.
func (e *examination) outcomesWithoutState(ctx context.Context, l lane, out *stretch, by claims) error {
	if out.end != endCommit || out.high < 0 || out.high <= by.committed || e.holes && !out.bumped {
		return nil
	}
	for _, s := range by.state {
		if s.high < out.high || s.before >= out.low || s.end == endAbort && e.attempted(s, out) {
			continue
		}
		if err := e.await(ctx, e.topics.State, s); err != nil {
			return err
		}
		if s.end == endCommit {
			return nil
		}
		return e.torn(ctx, fmt.Sprintf("the outcomes of inputs %d to %d are committed", out.low, out.high), "outcome", e.topicOf(l), out.first, out,
			"applied marker", e.topics.State, s.claimed, s)
	}
	return nil
}

// attempted reports whether an aborted piece of state has aborted outcomes of the same inputs beside it: then it is an
// attempt of its own, and no part of a committed one.
func (e *examination) attempted(state, out *stretch) bool {
	return slices.ContainsFunc(slices.Concat(e.lanes[:]...), func(s *stretch) bool {
		return s.end == endAbort && s.by == state.by && s.low <= out.high && s.high >= out.low
	})
}

// stateWithoutOutcomes reports outcomes that were aborted, or never ended, although the state that covers their inputs is
// committed by the same producer.
func (e *examination) stateWithoutOutcomes(ctx context.Context) error {
	told := map[*stretch]bool{}
	for _, w := range e.withheld {
		if w.in.end == endAbort && !told[w.in] {
			told[w.in] = true
			if err := e.withheldBy(ctx, w.in, w.input, w.offset); err != nil {
				return err
			}
		}
	}
	for l := range laneCount {
		for _, s := range e.lanes[l] {
			if s.end != stillOpen || s.low < 0 {
				continue
			}
			if err := e.await(ctx, e.topicOf(l), s); err != nil {
				return err
			}
			if s.end == stillOpen {
				if err := e.withheldBy(ctx, s, s.low, s.first); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// withheldBy reports an outcome that is not committed, when the state that covers its input is.
func (e *examination) withheldBy(ctx context.Context, out *stretch, input, offset int64) error {
	for _, s := range e.state {
		if s.by != out.by || s.end != endCommit || s.high < input || s.before >= input || e.holes && !s.bumped {
			continue
		}
		return e.torn(ctx, fmt.Sprintf("the state that covers input %d is committed", input), "applied marker", e.topics.State, s.claimed, s,
			"outcome", e.laneOf(out), offset, out)
	}
	return nil
}

func (e *examination) laneOf(out *stretch) string {
	for l := range laneCount {
		if slices.Contains(e.lanes[l], out) {
			return e.topicOf(l)
		}
	}
	return ""
}

// offsetWithoutState reports a committed offset whose transaction's state was aborted, or never ended.
func (e *examination) offsetWithoutState(ctx context.Context, c commit) error {
	if len(e.commits) == 0 || slices.ContainsFunc(e.commits, func(s suspect) bool { return s.in.end == endCommit }) {
		return nil
	}
	last := e.commits[len(e.commits)-1]
	if err := e.await(ctx, e.topics.State, last.in); err != nil || last.in.end == endCommit {
		return err
	}
	rec, marker, err := e.fate(ctx, e.topics.State, e.p, last.offset)
	if err != nil {
		return err
	}
	e.violate(Torn, fmt.Sprintf("%s is committed, but the state of the same transaction at %s/%d/%d is %s", c, e.topics.State, e.p, last.offset, last.in.end),
		slices.Concat(rawEvidence("applied marker", rec), rawEvidence("marker", marker))...)
	return nil
}

// torn reports a transaction by a committed and an uncommitted record of it.
func (e *examination) torn(ctx context.Context, text, role string, topic string, offset int64, s *stretch, other, otherTopic string, otherOffset int64, o *stretch) error {
	if e.report.counts[Torn] >= MaxShown {
		e.violate(Torn, "")
		return nil
	}
	ev, err := e.both(ctx, role, topic, offset)
	if err != nil {
		return err
	}
	more, err := e.both(ctx, other, otherTopic, otherOffset)
	if err != nil {
		return err
	}
	e.violate(Torn, fmt.Sprintf("%s by %s, and the %s of the same transaction at %s/%d/%d is %s", text, s.by, other, otherTopic, e.p, otherOffset, o.end),
		append(ev, more...)...)
	return nil
}

// both shows a record and the control record that decided about it.
func (a *audit) both(ctx context.Context, role, topic string, offset int64) ([]Evidence, error) {
	rec, marker, err := a.fate(ctx, topic, a.p, offset)
	return slices.Concat(rawEvidence(role, rec), rawEvidence("marker", marker)), err
}

// await waits for the control record of a stretch that is open: on a live job it is on its way.
func (a *audit) await(ctx context.Context, topic string, s *stretch) error {
	return awaitEnd(ctx, a.h, a.patience, topic, a.p, s)
}
