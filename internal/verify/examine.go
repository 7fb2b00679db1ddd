package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// examination is raw mode's look at the logs of one task: every record, with the control records that decided about it. The
// lanes are read before the state, so that the transaction of each committed outcome is found there.
type examination struct {
	*audit
	lanes    [laneCount][]*stretch
	state    []*stretch
	holes    bool      // compaction took records of the state
	withheld []suspect // outcomes of lost inputs
	commits  []suspect // applied markers that the committed offset agrees with
	pending  map[*stretch][]glimpsed
}

// suspect is a record of a stretch that may explain a verdict.
type suspect struct {
	offset int64 // of the record
	input  int64
	in     *stretch
}

type glimpsed struct {
	offset int64
	hash   uint64
}

// examine judges the logs of the partition: c is the committed offset that the state was read for.
func (a *audit) examine(ctx context.Context, c commit) error {
	e := &examination{audit: a, pending: map[*stretch][]glimpsed{}}
	for l := range laneCount {
		if err := e.readLane(ctx, l); err != nil {
			return err
		}
	}
	if err := e.readState(ctx, c); err != nil {
		return err
	}
	if err := e.readInput(ctx); err != nil {
		return err
	}
	return e.tears(ctx, c)
}

func (e *examination) topicOf(l lane) string {
	return [laneCount]string{e.topics.Updates, e.topics.Skipped, e.topics.DeadLetters}[l]
}

func (e *examination) readLane(ctx context.Context, l lane) error {
	log, err := e.openLog(ctx, e.topicOf(l), 0)
	if err != nil {
		return err
	}
	err = e.read(ctx, log, func(rec *kgo.Record, s *stretch) {
		if l == letters && hasHeader(rec, headerLost) {
			return // an operator's, and no outcome
		}
		if s == nil {
			e.violate(Torn, fmt.Sprintf("%s stands outside any transaction: it is there whether its offset is committed or not", place(rec)), rawEvidence("outcome", rec)...)
			return
		}
		if l == letters && hasHeader(rec, headerRedriven) {
			return
		}
		e.outcome(l, rec, s)
	})
	e.lanes[l] = log.all()
	return err
}

// outcome notes which inputs a stretch tells of.
func (e *examination) outcome(l lane, rec *kgo.Record, s *stretch) {
	o := e.outcomes.read(l, rec)
	if e.misplaced(&o) != "" {
		return
	}
	of := o.source.offset
	if s.low < 0 || of < s.low {
		s.low = of
	}
	s.high = max(s.high, of)
	if _, lost := e.missing[of]; lost && len(e.withheld) < maxEarly {
		e.withheld = append(e.withheld, suspect{rec.Offset, of, s})
	}
}

// readState notes up to where each transaction claims to have applied its input.
func (e *examination) readState(ctx context.Context, c commit) error {
	log, err := e.openLog(ctx, e.topics.State, 0)
	if err != nil {
		return err
	}
	err = e.read(ctx, log, func(rec *kgo.Record, s *stretch) {
		if s == nil || !isMarkerKey(rec.Key) {
			return
		}
		m, ok := parseMarker(rec.Value)
		if at, of := m.next[e.topics.Input]; ok && of {
			s.high, s.claimed = at-1, rec.Offset
		}
		if ok && c.agrees(&m, e.topics.Input) {
			e.commits = append(e.commits, suspect{rec.Offset, c.next, s})
		}
	})
	e.state, e.holes = log.all(), log.holes
	return err
}

func (e *examination) readInput(ctx context.Context) error {
	log, err := e.openLog(ctx, e.topics.Input, e.start[e.p])
	if err != nil {
		return err
	}
	return e.read(ctx, log, func(*kgo.Record, *stretch) {})
}

// read walks a log to its end, counts it, and compares what its control records make visible with what readers were shown.
func (e *examination) read(ctx context.Context, log *logReader, take func(*kgo.Record, *stretch)) error {
	seen := e.seen[log.topic]
	for {
		rec, s, err := log.next(ctx, func(s *stretch) { e.decided(log, seen, s) })
		if err != nil {
			return err
		}
		if rec == nil {
			break
		}
		if seen != nil {
			e.glimpse(log, seen, rec, s)
		}
		take(rec, s)
	}
	e.count(log)
	if seen != nil {
		return e.compareSightings(ctx, log, seen)
	}
	return nil
}

func (e *examination) glimpse(log *logReader, seen *sighting, rec *kgo.Record, s *stretch) {
	g := glimpsed{rec.Offset, glimpse(rec)}
	if s != nil {
		e.pending[s] = append(e.pending[s], g)
		return
	}
	e.sightAgain(log, seen, g)
}

// decided takes a transaction that ended: what it committed must have been shown.
func (e *examination) decided(log *logReader, seen *sighting, s *stretch) {
	if s.end == endCommit && seen != nil {
		for _, g := range e.pending[s] {
			e.sightAgain(log, seen, g)
		}
	}
	delete(e.pending, s)
	e.report.fates.add(log.topic, e.p, s)
}

func (e *examination) sightAgain(log *logReader, seen *sighting, g glimpsed) {
	if !seen.again(g.offset, g.hash) {
		e.violate(Flicker, fmt.Sprintf("%s/%d/%d is committed, and was not there when the partition was read before", log.topic, e.p, g.offset))
	}
}

func (e *examination) count(log *logReader) {
	r := &e.report.raw
	r.Records += log.records
	r.Controls += log.controls
	r.Committed += log.commits
	r.Aborted += log.aborts
	r.Open += int64(len(log.open))
	for _, s := range log.open {
		e.report.fates.add(log.topic, e.p, s)
	}
}

// compareSightings reports what differs between the two readings: records of an aborted transaction that readers were shown,
// and those that changed, came or went.
func (e *examination) compareSightings(ctx context.Context, log *logReader, seen *sighting) (err error) {
	seen.differ(log.start, func(b *block, at int64) {
		if err == nil {
			err = e.flickers(ctx, log, seen, b, at)
		}
	})
	return err
}

func (e *examination) flickers(ctx context.Context, log *logReader, seen *sighting, b *block, at int64) error {
	text := fmt.Sprintf("%s/%d: between two readings of committed records, %s", log.topic, e.p, b.differs(at))
	if at < 0 {
		at = b.first
	}
	if e.report.counts[Flicker] >= MaxShown && (e.report.counts[AbortedRead] >= MaxShown || !e.mayLook()) {
		e.violate(Flicker, "")
		return nil
	}
	rec, marker, err := e.fate(ctx, log.topic, e.p, at)
	if err != nil {
		return err
	}
	if marker != nil && b.count > 0 {
		if how, _ := control(marker); how == endAbort {
			e.violate(AbortedRead, fmt.Sprintf("%s was shown to readers of committed records, and its transaction was aborted", place(rec)),
				slices.Concat(rawEvidence("shown", rec), rawEvidence("marker", marker))...)
			return nil
		}
	}
	now, err := e.h.lookup(ctx, log.topic, e.p, at)
	if err != nil {
		return err
	}
	e.violate(Flicker, text, slices.Concat(present("before", seen.shown(at)), present("now", now), rawEvidence("log", rec), rawEvidence("marker", marker))...)
	return nil
}

func hasHeader(rec *kgo.Record, key string) bool {
	return slices.ContainsFunc(rec.Headers, func(h kgo.RecordHeader) bool { return h.Key == key })
}
