package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/record"
)

// waitNoteEvery is how often a command that waits for an open transaction says so.
const waitNoteEvery = 5 * time.Second

// letterScan reads the dead letters once, in the order of each partition.
type letterScan struct {
	client *kgo.Client
	topic  string
	// whole waits for transactions that are open now: what it returns is all that stands below the end. Else it reads what
	// is committed, and hidden says what it left out.
	whole   bool
	waiting func(p int32, h *holder) // told about every waitNoteEvery, while whole waits; may be nil
	hidden  int64                    // offsets behind open transactions
	from    *record.Position         // only this partition, from this offset on; nil: all
}

// run calls each with every letter and note. A topic that does not exist is kerr.UnknownTopicOrPartition.
func (s *letterScan) run(ctx context.Context, each func(*kgo.Record) error) error {
	meta, err := topicMetadata(ctx, s.client, s.topic)
	if err != nil {
		return err
	}
	partitions := make([]int32, len(meta.Partitions))
	for i, p := range meta.Partitions {
		partitions[i] = p.Partition
	}
	all, err := lookUp(ctx, kadm.NewClient(s.client), s.topic, partitions)
	if err != nil {
		return err
	}
	r := &topicReader{client: s.client, topic: s.topic}
	for _, b := range all {
		end := b.stable
		if s.whole {
			end = b.end
		} else {
			s.hidden += b.end - b.stable
		}
		if s.from == nil {
			r.cursors = append(r.cursors, &cursor{partition: b.partition, next: b.start, target: end})
		} else if s.from.Partition == b.partition && s.from.Offset < end {
			r.cursors = append(r.cursors, &cursor{partition: b.partition, next: max(b.start, s.from.Offset), target: end})
		}
	}
	return s.read(ctx, r, each)
}

func (s *letterScan) read(ctx context.Context, r *topicReader, each func(*kgo.Record) error) error {
	moved := time.Now()
	for {
		open := unread(r.cursors)
		if open == nil {
			return nil
		}
		before := open.next
		got, err := r.round(ctx, tailWait)
		if err != nil {
			return err
		}
		for _, f := range got {
			for _, rec := range f.partition.Records {
				if err := each(rec); err != nil {
					return err
				}
			}
		}
		if len(got) > 0 || open.next > before {
			moved = time.Now()
		} else if time.Since(moved) > waitNoteEvery && s.waiting != nil {
			moved = time.Now()
			h, _ := findHolder(ctx, kadm.NewClient(s.client), s.topic, open.partition) // it is only told
			s.waiting(open.partition, h)
		}
	}
}

// unread is the first cursor that is not at its target.
func unread(cursors []*cursor) *cursor {
	for _, c := range cursors {
		if !c.done() {
			return c
		}
	}
	return nil
}

// recordAt reads the one record at a position; nil when there is none: deleted, aborted, or not there yet.
func recordAt(ctx context.Context, client *kgo.Client, at record.Position) (*kgo.Record, error) {
	b, err := lookUp(ctx, kadm.NewClient(client), at.Topic, []int32{at.Partition})
	if err != nil {
		return nil, err
	}
	if at.Offset < b[0].start || at.Offset >= b[0].stable {
		return nil, nil
	}
	r := &topicReader{client: client, topic: at.Topic, cursors: []*cursor{{partition: at.Partition, next: at.Offset, target: at.Offset + 1}}}
	for unread(r.cursors) != nil {
		got, err := r.round(ctx, tailWait)
		if err != nil {
			return nil, err
		}
		for _, f := range got {
			for _, rec := range f.partition.Records {
				if rec.Offset == at.Offset {
					return rec, nil
				}
			}
		}
	}
	return nil, nil
}

// letterBook is what a scan keeps of letters: notes come behind their letters, so that nothing is known before the end.
type letterBook struct {
	letters []*deadLetter
	notes   map[string]*redriven // by the letter's position
	sent    map[string]bool      // inputs that are redriven letters, by position
}

func newLetterBook() *letterBook {
	return &letterBook{notes: map[string]*redriven{}, sent: map[string]bool{}}
}

// take files a record, and reports the letter if it is one.
func (b *letterBook) take(r *kgo.Record, keep func(*deadLetter) bool) *deadLetter {
	if letter, note, ok := readNote(r); ok {
		b.notes[letter], b.sent[note.As] = note, true
		return nil
	}
	if isLossNote(r) {
		return nil
	}
	l := readDeadLetter(r)
	if !keep(l) {
		return nil
	}
	b.letters = append(b.letters, l)
	return l
}

// close gives each letter its note.
func (b *letterBook) close() {
	for _, l := range b.letters {
		if mutant.On("redrive-forgets-notes") {
			continue
		}
		l.Redriven = b.notes[l.at.String()]
	}
}

// scanBook reads all letters that keep takes, without their contents.
func scanBook(ctx context.Context, s *letterScan, keep func(*deadLetter) bool) (*letterBook, error) {
	b := newLetterBook()
	err := s.run(ctx, func(r *kgo.Record) error { b.take(r, keep); return nil })
	b.close()
	return b, err
}

func (s *letterScan) sayHidden(c *cli) {
	if s.hidden > 0 {
		fmt.Fprintf(c.stderr, "%d offsets of %s are behind open transactions and not shown: processor tx list tells whose\n", s.hidden, s.topic)
	}
}
