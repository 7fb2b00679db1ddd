package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// rules is what every partition's audit is judged by.
type rules struct {
	topics     Topics
	partitions int32 // of the input, where no marker says
	place      func(key []byte, n int32) int32
	window     time.Duration
	autoCreate bool
	now        func() time.Time
	start      map[int32]int64
	raw        bool                                // read the logs with their control records, too
	patience   time.Duration                       // for transactions that are about to end, and for an offset that is about to be committed
	progress   func(partition int32, inputs int64) // inputs judged since the last call
	memory     memory
	posted     *postings // of all partitions
}

// audit judges one partition. It is owned by one goroutine.
type audit struct {
	rules
	h          history
	p          int32
	partitions int32
	events     eventReader
	outcomes   outcomeReader
	second     outcomeReader // for a look at other outcomes while one is judged
	hash       hasher
	inbox      *inbox
	accounts   map[string]*account
	input      stream
	lanes      [laneCount]laneReader
	found      []outcome           // of the input at hand, reused
	early      map[int64][]outcome // outcomes that stood before those of earlier inputs, by their input
	missing    map[int64]string
	toldLost   int64            // those of missing below it are told
	wanted     map[int64]int    // violations that want the first outcome of an input as evidence, by its offset
	redriven   map[string]int64 // dead letters that were sent to the input again, with the offset of the note
	gaps       []gap            // of the input, that an operator gave up
	mending    mending
	drifts     map[string]*drift    // by account
	seen       map[string]*sighting // raw mode: what the streams showed, by topic
	alsoLost   int64                // inputs without an outcome, beyond those in missing; not counted yet
	looks      int                  // look-ups that may tell one verdict from another
	searched   int64                // raw mode: records that were read in search of aborted updates
	begin      int64                // the first input to judge
	resume     [laneCount]int64     // where each lane is read from
	continued  bool                 // an earlier audit, of the same history, judged what lies before begin
	goesOn     bool                 // another audit will go on where this one ends
	judged     int64                // the first input that is not judged yet
	stopped    [laneCount]int64     // where each lane has to be read on from
	fold       *fold                // of the state up to foldNext
	foldNext   int64
	cut        int64 // the first input offset that is not to be judged
	at         int64 // the input that is being judged
	ended      error // of rounds: what kept it from judging all, also in the rounds after the one that stopped it
	unanchored error // the marker is there, and no offset that it could be compared with
	report     partitionReport
}

func newAudit(r rules, h history, partition int32) *audit {
	return &audit{
		rules: r, h: h, p: partition, partitions: r.partitions, inbox: newInbox(r.window, r.memory.table()), accounts: map[string]*account{},
		early: map[int64][]outcome{}, missing: map[int64]string{}, wanted: map[int64]int{}, redriven: map[string]int64{}, seen: map[string]*sighting{}, drifts: map[string]*drift{},
		begin: r.start[partition], judged: r.start[partition], fold: newFold(),
		report: partitionReport{counts: map[Verdict]int64{}, sums: map[currency]*tally{}},
	}
}

// run reads and judges the partition. The report holds what was found, also when an error ends it: an input that was passed
// without an outcome is lost, whatever hides the next one's.
func (a *audit) run(ctx context.Context) error {
	c, err := a.h.committed(ctx, a.p)
	if err == nil {
		err = a.walk(ctx, c)
	}
	if err == nil {
		err = cmp.Or(a.inbox.ids.err, a.givenUp(), a.unanchored) // of the last inputs: no judgement followed that would have met it
	}
	_, undecided := errors.AsType[*UndecidedError](err)
	if undecided {
		a.reportFaults(a.fold)
		err = errors.Join(err, a.reportLost(ctx))
	}
	if a.raw && (err == nil || undecided) { // the logs may show why it is undecided
		err = errors.Join(err, a.examine(ctx, c))
	}
	return err
}

func (a *audit) walk(ctx context.Context, c commit) error {
	f, err := a.replay(ctx, c)
	if err != nil {
		return err
	}
	if err := a.findCut(ctx, c, f); err != nil {
		return err
	}
	if err := a.open(ctx, f); err != nil {
		return err
	}
	err = a.join(ctx)
	for l := range a.lanes {
		a.stopped[l] = a.lanes[l].next()
	}
	if err != nil {
		return err
	}
	if err := a.drain(ctx, f); err != nil {
		return err
	}
	if err := a.settle(ctx); err != nil {
		return err
	}
	return a.compareState(ctx, f)
}

// open begins to read the input and the lanes, after the cut is known: all that the marker covers lies below their ends.
func (a *audit) open(ctx context.Context, f *fold) error {
	input, err := a.h.open(ctx, a.topics.Input, a.p, a.begin)
	if err != nil {
		return err
	}
	a.input = a.watch(a.topics.Input, input)
	for l, topic := range []string{a.topics.Updates, a.topics.Skipped, a.topics.DeadLetters} {
		s, err := a.h.open(ctx, topic, a.p, a.resume[l])
		if err != nil {
			return err
		}
		a.lanes[l] = laneReader{stream: a.watch(topic, s), topic: topic, first: -1, from: a.resume[l], passed: a.resume[l]}
	}
	if err := a.checkUnread(ctx, f); err != nil {
		return err
	}
	if a.continued {
		return a.checkGap()
	}
	return a.checkHead(ctx, max(a.begin, a.input.start()))
}

// checkUnread reports inputs that are gone and were never processed: that much is sure, whatever else cannot be decided. A job that
// runs may have processed them since its marker was read.
func (a *audit) checkUnread(ctx context.Context, f *fold) error {
	start := a.input.start()
	if !f.found || a.cut >= start {
		return nil
	}
	c, err := a.h.committed(ctx, a.p)
	if err != nil {
		return err
	}
	if c.next >= start {
		return a.undecided("%s starts at offset %d, and the marker that was read says %d: the job went on and retention took inputs behind it while verify was reading; run verify again",
			a.topics.Input, start, a.cut)
	}
	a.violate(Lost, fmt.Sprintf("retention deleted inputs %d to %d before they were processed", a.cut, start-1), evidence("marker", f.at))
	return nil
}

// checkGap sees to it that the input goes on where the audit before this one ended.
func (a *audit) checkGap() error {
	if start := a.input.start(); start > a.begin {
		return a.undecided("%s starts at offset %d, but was judged up to %d only: retention took inputs in between; keep inputs longer than the time between two audits, and begin anew with the whole history",
			a.topics.Input, start, a.begin)
	}
	return nil
}

// checkHead sees to it that the inputs of all outcomes are still there.
func (a *audit) checkHead(ctx context.Context, start int64) error {
	for l := range a.lanes {
		o, err := a.head(ctx, lane(l))
		if err != nil {
			return err
		}
		if o != nil && o.source.offset < start {
			return a.undecided("%s starts at offset %d, but %s tells of offset %d: retention took inputs that were processed, so balances cannot be followed from zero; verify needs the whole input",
				a.topics.Input, start, a.lanes[l].topic, o.source.offset)
		}
	}
	return nil
}

func (a *audit) undecided(format string, args ...any) error {
	return &UndecidedError{a.p, fmt.Sprintf(format, args...), false}
}

// join walks the inputs below the cut.
func (a *audit) join(ctx context.Context) error {
	for {
		in, err := a.input.peek(ctx)
		if err != nil {
			return err
		}
		if h := a.input.hidden(); in == nil && h != nil && h.Stable < a.cut {
			if err := a.wait(ctx, a.input, a.topics.Input, "the input up to the marker"); err != nil {
				return err
			}
			continue
		}
		if in == nil || in.Offset >= a.cut {
			a.judged = max(a.judged, a.cut)
			return nil
		}
		a.input.pop()
		a.report.records++
		if err := a.collect(ctx, in.Offset); err != nil {
			return err
		}
		if err := a.judge(ctx, in); err != nil {
			return err
		}
		a.judged = in.Offset + 1
		if a.report.inputs%progressStep == 0 {
			a.progress(a.p, progressStep)
		}
	}
}

// wait waits for a transaction, and says what it hides when that is in vain.
func (a *audit) wait(ctx context.Context, s stream, topic, what string) error {
	hides := s.hidden()
	err := s.wait(ctx)
	if errors.Is(err, errHidden) {
		a.report.open = append(a.report.open, *hides)
		return a.undecided("%s/%d has a transaction open since offset %d that hides %s: run verify again when it is over (transaction.timeout.ms), or fence its instance",
			topic, a.p, hides.Stable, what)
	}
	return err
}
