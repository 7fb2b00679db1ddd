package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// settle reports the inputs that never got an outcome, completes evidence, and closes the books.
func (a *audit) settle(ctx context.Context) error {
	a.reportHeld()
	if err := a.reportLost(ctx); err != nil {
		return err
	}
	if err := a.findFirst(ctx); err != nil {
		return err
	}
	a.report.drifts = a.lasting()
	maps.DeleteFunc(a.accounts, func(_ string, acc *account) bool { return !acc.exists() }) // of a lost first posting
	for _, acc := range a.accounts {
		a.report.accounts++
		a.tally(acc.currency).balances.add(acc.balance)
	}
	return nil
}

// reportLost tells of each input without an outcome, once: what keeps the partition undecided may be met before or after it.
func (a *audit) reportLost(ctx context.Context) error {
	for _, offset := range slices.Sorted(maps.Keys(a.missing)) {
		if offset < a.toldLost {
			continue
		}
		a.toldLost = offset + 1
		if err := a.lost(ctx, offset); err != nil {
			return err
		}
	}
	if a.alsoLost > 0 { // then more than MaxShown are told
		a.report.counts[Lost] += a.alsoLost
		a.alsoLost = 0
	}
	return nil
}

func (a *audit) lost(ctx context.Context, offset int64) error {
	if a.report.counts[Lost] >= MaxShown {
		a.violate(Lost, "")
		return nil
	}
	in, err := a.h.lookup(ctx, a.topics.Input, a.p, offset)
	a.violate(Lost, fmt.Sprintf("%s/%d/%d has no outcome, and everything below %d is committed: %s was due", a.topics.Input, a.p, offset, a.cut, a.missing[offset]),
		present("input", in)...)
	return err
}

// findFirst reads the lanes once more for the first outcomes of inputs that have a second one far behind it.
func (a *audit) findFirst(ctx context.Context) error {
	if len(a.wanted) == 0 {
		return nil
	}
	for l := range a.lanes {
		s, err := a.h.open(ctx, a.lanes[l].topic, a.p, 0)
		if err != nil {
			return err
		}
		if err := a.findIn(ctx, lane(l), s); err != nil {
			return err
		}
	}
	return nil
}

func (a *audit) findIn(ctx context.Context, l lane, s stream) error {
	for len(a.wanted) > 0 {
		rec, err := s.peek(ctx)
		if err != nil || rec == nil {
			return err
		}
		s.pop()
		o := a.outcomes.read(l, rec)
		i, ok := a.wanted[o.source.offset]
		if !ok || a.misplaced(&o) != "" || shows(&a.report.violations[i], rec) {
			continue
		}
		delete(a.wanted, o.source.offset)
		v := &a.report.violations[i]
		v.Evidence = slices.Insert(v.Evidence, 1, evidence("first", rec))
	}
	return nil
}

func shows(v *Violation, rec *kgo.Record) bool {
	return slices.ContainsFunc(v.Evidence, func(e Evidence) bool {
		return e.Topic == rec.Topic && e.Offset == rec.Offset
	})
}

// compareState judges the state topic at its marker: what it holds is what the outcomes say (L4), and its own digest.
func (a *audit) compareState(ctx context.Context, f *fold) error {
	a.reportFaults(f)
	if f.loose != nil {
		a.violate(State, fmt.Sprintf("%s was written behind the last applied marker", place(f.loose)),
			append(present("state", f.loose), present("marker", f.at)...)...)
	}
	if !f.found {
		return nil
	}
	if f.digest != f.marker.digest {
		a.violate(State, fmt.Sprintf("the state's contents have digest %016x, the marker says %016x", f.digest, f.marker.digest),
			evidence("marker", f.at))
	}
	a.compareInbox(f)
	return a.compareAccounts(ctx, f)
}

// reportFaults tells what is wrong with the records of the state themselves, once.
func (a *audit) reportFaults(f *fold) {
	for _, p := range f.problems {
		a.violate(State, p.text, present("state", p.recs...)...)
	}
	for range f.more {
		a.violate(State, "")
	}
	f.problems, f.more = nil, 0
}

// compareAccounts compares each account of one side with that of the other.
func (a *audit) compareAccounts(ctx context.Context, f *fold) error {
	var differ, ghosts []string
	for id, acc := range a.accounts {
		if stored := f.accounts[id]; stored == nil || stored.fault || stored.values != acc.values() {
			differ = append(differ, id)
		}
	}
	for id := range f.accounts {
		if a.accounts[id] == nil {
			ghosts = append(ghosts, id)
		}
	}
	slices.Sort(differ)
	for _, id := range differ {
		if err := a.accountDiffers(ctx, f, id); err != nil {
			return err
		}
	}
	slices.Sort(ghosts)
	for _, id := range ghosts {
		rec, err := a.lookupFor(ctx, State, a.topics.State, f.accounts[id].offset)
		if err != nil {
			return err
		}
		a.violate(State, fmt.Sprintf("the state has an account %s, of which no update tells", clip([]byte(id))),
			append(present("state", rec), evidence("marker", f.at))...)
	}
	return nil
}

// compareInbox compares the ids that count, and stream time. After another violation the two inboxes may differ rightly.
func (a *audit) compareInbox(f *fold) {
	if len(a.report.counts) > 0 {
		return
	}
	if f.marker.streamTime != a.inbox.streamTime {
		a.violate(State, fmt.Sprintf("the marker's stream time is %d ms, the inputs lead to %d ms", f.marker.streamTime, a.inbox.streamTime),
			evidence("marker", f.at))
		return
	}
	have, due := f.census(a.inbox.horizon(a.inbox.streamTime)), a.inbox.census()
	if have != due {
		a.violate(State, fmt.Sprintf("the state's inbox remembers %d ids that count, the inputs lead to %d, and they are not the same", have.ids, due.ids),
			evidence("marker", f.at))
	}
}

func (a *account) values() accountValues {
	return accountValues{a.currency, a.balance, a.held, a.minimum, a.status, a.version}
}

func (a *audit) accountDiffers(ctx context.Context, f *fold, id string) error {
	acc, stored := a.accounts[id], f.accounts[id]
	due := acc.values()
	ev := present("marker", f.at)
	text := fmt.Sprintf("account %s is not in the state; its last update says %s", clip([]byte(id)), due)
	if stored != nil {
		text = fmt.Sprintf("account %s is %s in the state; its last update says %s", clip([]byte(id)), stored.values, due)
		rec, err := a.lookupFor(ctx, State, a.topics.State, stored.offset)
		if err != nil {
			return err
		}
		ev = append(present("state", rec), ev...)
	}
	last, err := a.lookupFor(ctx, State, a.topics.Updates, acc.last)
	a.violate(State, text, append(present("last update", last), ev...)...)
	return err
}
