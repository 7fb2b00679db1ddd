package verify

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ending is how a transaction ended in one partition, by the control record there.
type ending uint8

const (
	stillOpen ending = iota
	endCommit
	endAbort
)

func (e ending) String() string { return [...]string{"open", "committed", "aborted"}[e] }

// producer names who wrote a batch. With transaction version 2 (KIP-890) every transaction has an epoch of its own.
type producer struct {
	id    int64
	epoch int16
}

func (p producer) String() string { return fmt.Sprintf("producer %d/%d", p.id, p.epoch) }

func producerOf(rec *kgo.Record) producer { return producer{rec.ProducerID, rec.ProducerEpoch} }

// stretch is what one transaction wrote to one partition.
type stretch struct {
	by      producer
	end     ending
	bumped  bool  // its marker carries a later epoch: so the epoch is this transaction's alone
	first   int64 // offset of its first record
	marker  int64 // offset of its control record; -1 while it is open
	low     int64 // in a lane: the inputs that its outcomes name, lowest and highest; -1 none
	high    int64 // in the state: the last input that its applied marker covers
	before  int64 // in the state: the last input that committed state covered before it; -1 none
	claimed int64 // in the state: the offset of that applied marker
}

// logReader walks the log of a partition and tells its transactions apart.
type logReader struct {
	topic   string
	p       int32
	in      rawReader
	open    map[int64]*stretch // by producer id: a producer has one transaction at a time
	done    []*stretch         // in the order of their ends
	start   int64              // of the log, when it was opened
	expect  int64              // the offset that follows
	holes   bool               // records are missing: compaction or retention took them
	records int64
	controls,
	commits, aborts int64
}

// rawReader reads a log record by record; nil is its end.
type rawReader interface {
	next(ctx context.Context) (*kgo.Record, error)
	start() int64 // the first offset that the partition still has
}

func (a *audit) openLog(ctx context.Context, topic string, from int64) (*logReader, error) {
	in, err := a.h.raw(ctx, topic, a.p, from)
	if err != nil {
		return nil, err
	}
	return &logReader{topic: topic, p: a.p, in: in, start: in.start(), expect: from, open: map[int64]*stretch{}}, nil
}

// next returns the next record that is no control record, and its stretch: nil when it was written outside any transaction.
// ended is called for each stretch that a control record ends on the way.
func (l *logReader) next(ctx context.Context, ended func(*stretch)) (rec *kgo.Record, s *stretch, err error) {
	for {
		rec, err := l.in.next(ctx)
		if err != nil || rec == nil {
			return nil, nil, err
		}
		l.records++
		l.holes = l.holes || rec.Offset != l.expect
		l.expect = rec.Offset + 1
		switch {
		case rec.Attrs.IsControl():
			l.end(rec, ended)
		case !rec.Attrs.IsTransactional():
			return rec, nil, nil
		default:
			return rec, l.stretch(rec), nil
		}
	}
}

func (l *logReader) stretch(rec *kgo.Record) *stretch {
	s := l.open[rec.ProducerID]
	if s == nil {
		s = &stretch{by: producerOf(rec), first: rec.Offset, marker: -1, low: -1, high: -1, claimed: -1}
		l.open[rec.ProducerID] = s
	}
	return s
}

// end takes a control record. One that ends nothing here is of a transaction that touched the partition without a record.
func (l *logReader) end(rec *kgo.Record, ended func(*stretch)) {
	how, ok := control(rec)
	if !ok {
		return
	}
	l.controls++
	s := l.open[rec.ProducerID]
	if s == nil {
		return
	}
	delete(l.open, rec.ProducerID)
	s.end, s.marker, s.bumped = how, rec.Offset, rec.ProducerEpoch != s.by.epoch
	if how == endCommit {
		l.commits++
	} else {
		l.aborts++
	}
	l.done = append(l.done, s)
	ended(s)
}

// all returns every stretch, those that are still open last.
func (l *logReader) all() []*stretch {
	out := l.done
	for _, s := range l.open {
		out = append(out, s)
	}
	return out
}

// fateOf returns what stands at an offset of a log and the control record that ended its transaction, nil while that is open.
// rec is nil when nothing is there, and when it is a control record.
func fateOf(ctx context.Context, h history, topic string, p int32, offset int64) (rec, marker *kgo.Record, err error) {
	in, err := h.raw(ctx, topic, p, offset)
	if err != nil {
		return nil, nil, err
	}
	rec, err = in.next(ctx)
	if err != nil || rec == nil || rec.Offset != offset || rec.Attrs.IsControl() || !rec.Attrs.IsTransactional() {
		return nil, nil, err
	}
	for {
		next, err := in.next(ctx)
		if err != nil || next == nil {
			return rec, nil, err
		}
		if _, ends := control(next); next.Attrs.IsControl() && ends && next.ProducerID == rec.ProducerID {
			return rec, next, nil
		}
	}
}

func (a *audit) fate(ctx context.Context, topic string, p int32, offset int64) (rec, marker *kgo.Record, err error) {
	return fateOf(ctx, a.h, topic, p, offset)
}

// rawEvidence shows a record as the log has it, with its producer; a control record by what it says.
func rawEvidence(role string, rec *kgo.Record) []Evidence {
	if rec == nil {
		return nil
	}
	if how, ok := control(rec); ok && rec.Attrs.IsControl() {
		e := evidence(role, &kgo.Record{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Timestamp: rec.Timestamp})
		e.Producer, e.Control = producerOf(rec).String(), how.String()
		return []Evidence{e}
	}
	e := evidence(role, rec)
	e.Producer = producerOf(rec).String()
	return []Evidence{e}
}
