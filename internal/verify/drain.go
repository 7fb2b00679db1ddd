package verify

import (
	"context"
	"fmt"
)

// drain looks at what follows the last judged input: outcomes out of place, and those of inputs behind the cut.
func (a *audit) drain(ctx context.Context, f *fold) error {
	var last outcome
	a.at = a.cut
	for _, early := range a.early {
		for i := range early {
			if err := a.beyond(ctx, &early[i], &last); err != nil {
				return err
			}
		}
	}
	for l := range a.lanes {
		for {
			o, err := a.head(ctx, lane(l))
			if err != nil {
				return err
			}
			if o == nil {
				break
			}
			if err := a.beyond(ctx, o, &last); err != nil {
				return err
			}
			a.lanes[l].take()
		}
		a.noteHidden(a.lanes[l].stream)
	}
	if err := a.countRest(ctx); err != nil || last.rec == nil {
		return err
	}
	return a.checkBeyond(ctx, f, &last)
}

// beyond sorts one outcome: a late one, or one of an input behind the cut, of which the farthest is kept.
func (a *audit) beyond(ctx context.Context, o, last *outcome) error {
	if o.source.offset < a.cut {
		return a.stray(ctx, o)
	}
	if last.rec == nil || o.source.offset > last.source.offset {
		*last = *o
	}
	return nil
}

func (a *audit) noteHidden(s stream) {
	if h := s.hidden(); h != nil {
		a.report.open = append(a.report.open, *h)
	}
}

// countRest counts the inputs that the job has still before it.
func (a *audit) countRest(ctx context.Context) error {
	if a.goesOn { // which would count them over and over
		a.report.notYet = a.input.rest()
		return nil
	}
	for {
		in, err := a.input.peek(ctx)
		if err != nil {
			return err
		}
		if in == nil {
			a.noteHidden(a.input)
			return nil
		}
		a.input.pop()
		a.report.records++
		a.report.notYet++
	}
}

// checkBeyond judges the farthest visible outcome behind the cut: its input exists, and its transaction is committed, so its
// offset is.
func (a *audit) checkBeyond(ctx context.Context, f *fold, last *outcome) error {
	in, err := a.h.lookup(ctx, a.topics.Input, a.p, last.source.offset)
	if err != nil {
		return err
	}
	if in == nil {
		return a.orphan(ctx, last)
	}
	c, err := a.h.committed(ctx, a.p)
	if err != nil || c.found && c.next > last.source.offset {
		return err
	}
	ev := append(present("input", in), present("outcome", last.rec)...)
	a.violate(Offset, fmt.Sprintf("%s tells of input %d, but there is %s", place(last.rec), last.source.offset, c), append(ev, present("marker", f.at)...)...)
	return nil
}
