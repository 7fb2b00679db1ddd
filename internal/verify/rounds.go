package verify

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// rounds audits one history again and again: each round goes on where the one before ended. Of what was judged it keeps the
// accounts, the ids that still count, and the state. A partition with a violation is judged no further: what follows a broken
// promise proves nothing new.
type rounds struct {
	r       rules
	h       history
	workers int
	audits  []*audit // by partition
	stopped []bool
	n       int         // rounds done
	across  []Violation // of all partitions together, so far; the first MaxShown of each verdict
	counts  map[Verdict]int64
	told    map[currency]bool // whose sums were found wrong
	again   int64
}

func newRounds(r rules, h history, partitions int32, workers int) *rounds {
	r.memory.tables = int(partitions)
	x := &rounds{r: r, h: h, workers: workers, stopped: make([]bool, partitions), counts: map[Verdict]int64{}, told: map[currency]bool{}}
	for p := range partitions {
		x.audits = append(x.audits, newAudit(r, h, p))
	}
	return x
}

// round judges what there is now. fresh are the violations that no round before it had; the report is of all rounds.
func (x *rounds) round(ctx context.Context) (report Report, fresh []Violation, err error) {
	if x.n++; x.n > 1 {
		for p, a := range x.audits {
			if x.stopped[p] {
				a.begin = a.judged // what it applied is no more of this round
				continue
			}
			x.audits[p] = a.after()
		}
	}
	sorter := x.r.memory.sorter()
	defer sorter.close()
	t := &tallies{report: newReport(false), books: newBooks(sorter, x.told)}
	x.recall(sorter)
	x.judge(ctx, t, sorter)
	for p, a := range x.audits {
		if !x.stopped[p] && len(a.report.counts) > 0 {
			x.stopped[p] = true
			fresh = append(fresh, a.report.violations...)
		}
	}
	across, err := x.conclude(ctx, t)
	return t.report, append(fresh, across...), err
}

// judge lets every partition that is not stopped go on; t gets what each has found in all rounds.
func (x *rounds) judge(ctx context.Context, t *tallies, sorter *postings) {
	var wg sync.WaitGroup
	next := make(chan *audit)
	for range x.workers {
		wg.Go(func() {
			for a := range next {
				if a.posted = sorter; !x.stopped[a.p] {
					if t.broken() {
						continue
					}
					a.ended = errors.Join(a.run(ctx), a.handOn(1))
				}
				t.add(a, a.ended)
			}
		})
	}
	for _, a := range x.audits {
		next <- a
	}
	close(next)
	wg.Wait()
}

// recall lets the first round know what a baseline's audit had applied.
func (x *rounds) recall(sorter *postings) {
	if x.n > 1 {
		return
	}
	for p, a := range x.audits {
		_ = a.inbox.ids.each(func(e *entry) { // an error stays in the table, and ends its audit
			if e.applied() {
				_ = sorter.add([]posting{newPosting(e.id, int32(p), e.offset(), false)}) // as the sorter's does
			}
		})
	}
}

// conclude adds the verdicts over all partitions. The first round sorts all that was applied; later ones ask the other
// partitions' inboxes, which know the ids within their window.
func (x *rounds) conclude(ctx context.Context, t *tallies) (fresh []Violation, err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	found := newReport(false)
	switch {
	case t.fatal:
	case x.n == 1:
		err = t.books.doubles(ctx, x.h, x.r.topics.Input, &found)
	default:
		err = x.doubles(ctx, t.books.posted, &found)
	}
	x.again += found.AppliedAgain
	t.books.reconcile(&found, len(t.errs) == 0 && err == nil)
	for v, n := range found.Counts {
		x.counts[v] += n
	}
	x.keep(found.Violations)
	t.report.AppliedAgain, t.report.Sums = x.again, found.Sums
	t.report.Violations = append(t.report.Violations, x.across...)
	for v, n := range x.counts {
		t.report.Counts[v] += n
	}
	t.report.sort()
	return found.Violations, errors.Join(append(t.errs, err)...)
}

// keep adds to the violations over all partitions. They stop no partition, so that without a limit they would grow for ever.
func (x *rounds) keep(fresh []Violation) {
	shown := map[Verdict]int{}
	for _, v := range x.across {
		shown[v.Verdict]++
	}
	for _, v := range fresh {
		if shown[v.Verdict]++; shown[v.Verdict] <= MaxShown {
			x.across = append(x.across, v)
		}
	}
}

// doubles looks for what this round applied in the inboxes of the other partitions.
func (x *rounds) doubles(ctx context.Context, posted *postings, r *Report) error {
	return posted.each(func(y posting) error {
		for _, a := range x.audits {
			if a.p == y.partition() {
				continue
			}
			e, known := a.inbox.ids.find(y.id)
			if err := a.inbox.ids.err; err != nil {
				return err
			}
			if !known || !e.applied() || e.offset() >= a.begin && a.p > y.partition() { // that pair is met from its other side
				continue
			}
			pair := []posting{newPosting(y.id, a.p, e.offset(), true), y}
			slices.SortFunc(pair, func(x, y posting) int { return cmp.Compare(x.place, y.place) })
			if err := doubled(ctx, x.h, x.r.topics.Input, r, pair[0], pair[1]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (x *rounds) close() {
	for _, a := range x.audits {
		a.inbox.ids.close()
	}
}

// after is the audit that goes on where this one ended.
func (a *audit) after() *audit {
	n := newAudit(a.rules, a.h, a.p)
	n.partitions, n.inbox, n.accounts, n.redriven, n.mending = a.partitions, a.inbox, a.accounts, a.redriven, a.mending
	n.gaps = a.gaps
	n.fold, n.foldNext, n.goesOn = a.fold, a.foldNext, a.goesOn
	n.begin, n.judged, n.resume, n.stopped = a.judged, a.judged, a.stopped, a.stopped
	n.continued = a.continued || a.judged > a.begin
	old := &a.report
	n.report.inputs, n.report.applied, n.report.duplicates, n.report.records = old.inputs, old.applied, old.duplicates, old.records
	n.report.rejected, n.report.letters = old.rejected, old.letters
	n.mending.mended = max(a.mending.mended, old.mended) // the report has them from the end of a round that was decided
	for c, t := range old.sums {
		sum := n.tally(c)
		sum.credits.merge(&t.credits)
		sum.debits.merge(&t.debits)
	}
	return n
}
