package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// lostRange is what retention took of an input before the job had processed it. Offsets count control records too.
type lostRange struct {
	From int64 `json:"from"` // the first offset that is gone: what the state has applied ends there
	Next int64 `json:"next"` // the first one that is still there
}

func (l lostRange) count() int { return int(l.Next - l.From) }

// String names the offsets, both ends included.
func (l lostRange) String() string {
	return fmt.Sprintf("offsets %d to %d (%d)", l.From, l.Next-1, l.count())
}

// chooseLost decides, for --skip-lost, which task goes on behind its gap. All inputs of such a task get the marker's new number.
func (r *reset) chooseLost(p *resetPlan) {
	skips := map[string]bool{}
	for _, t := range p.Tasks {
		if t.Applied == nil || *t.Applied >= t.Start {
			continue
		}
		t.Lost, t.To = &lostRange{*t.Applied, t.Start}, &t.Start
		t.Note = "goes on behind lost " + t.Lost.String()
		skips[t.Task] = true
	}
	for _, t := range p.Tasks {
		if skips[t.Task] && t.To == nil && t.Applied != nil && *t.Applied <= t.End {
			t.To, t.Note = t.Applied, "as it is, with the task's new marker"
		}
	}
}

// skipLost gives the lost ranges up: a mark in the group's offsets, the notes, then a marker of the same state for each task, which
// begins where its input does now. What commits the offsets comes last, and is the caller's.
func (r *reset) skipLost(ctx context.Context, p *resetPlan, fresh *kgo.Client) error {
	for _, t := range p.Tasks { // transactions that were ended may have committed: the state is further, and less is lost, or nothing
		switch {
		case t.Lost != nil && *t.Applied < t.Lost.Next:
			t.Lost.From = *t.Applied
		case t.Lost != nil:
			t.Lost, t.To, t.Note = nil, t.Applied, "nothing is lost: a transaction that was ended had committed"
		case t.To != nil:
			t.To = t.Applied
		}
	}
	if !slices.ContainsFunc(p.Tasks, func(t *resetTask) bool { return t.Lost != nil }) {
		return nil // a reset that was killed behind its markers: only offsets are to be committed
	}
	if err := r.mark(ctx, p); err != nil {
		return err
	}
	notes, markers := r.lossNotes(p), r.lostMarkers(p)
	for _, step := range []struct {
		what    string
		records []*kgo.Record
	}{{"notes of what is lost", notes}, {"applied markers", markers}} {
		if err := fresh.ProduceSync(ctx, step.records...).FirstErr(); err != nil {
			return fmt.Errorf("write %s to %s: %w", step.what, step.records[0].Topic, err)
		}
	}
	for _, t := range p.Tasks {
		if t.Lost != nil {
			r.say("gave up %s of %s/%d, which retention deleted unread; noted in %s/%d", t.Lost, t.Topic, t.Partition, topics.DeadLetters(r.cfg.ApplicationID), t.Partition)
		}
	}
	return nil
}

// lostMarkers gives each task with a lost range the marker that goes on behind it: the same state, one transaction later.
func (r *reset) lostMarkers(p *resetPlan) (records []*kgo.Record) {
	next := map[string]*state.Marker{}
	for _, t := range p.Tasks {
		if t.Lost != nil && next[t.Task] == nil {
			m := *t.marker
			m.TxnSeq, m.Writer, m.Next = m.TxnSeq+1, r.cfg.ApplicationID+"-reset", slices.Clone(m.Next)
			next[t.Task] = &m
		}
	}
	for _, t := range p.Tasks {
		m := next[t.Task]
		if m == nil || t.To == nil {
			continue
		}
		t.marker = m
		for i := range m.Next {
			if m.Next[i].Topic == t.Topic {
				m.Next[i].AppliedNext = *t.To
			}
		}
	}
	for _, t := range p.Tasks {
		if m := next[t.Task]; m != nil {
			records = append(records, &kgo.Record{Topic: t.stage.StateTopic(), Partition: t.Partition, Key: m.Key(), Value: m.Append(nil)})
			delete(next, t.Task)
		}
	}
	return records
}

// lossNotes tell readers of the dead letters, verify among them, what is lost and who went on without it.
func (r *reset) lossNotes(p *resetPlan) (notes []*kgo.Record) {
	for _, t := range p.Tasks {
		if t.Lost == nil {
			continue
		}
		from := record.Position{Topic: t.Topic, Partition: t.Partition, Offset: t.Lost.From}
		notes = append(notes, &kgo.Record{Topic: topics.DeadLetters(r.cfg.ApplicationID), Partition: t.Partition, Headers: []kgo.RecordHeader{
			{Key: pipeline.HeaderLost, Value: []byte(from.String())},
			{Key: pipeline.HeaderLostNext, Value: []byte(strconv.FormatInt(t.Lost.Next, 10))},
			{Key: pipeline.HeaderLostBy, Value: []byte(r.cli.operator())},
		}})
	}
	return notes
}

// isLossNote tells a note of --skip-lost from a dead letter.
func isLossNote(r *kgo.Record) bool {
	return slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == pipeline.HeaderLost })
}

// mark tells in the group's offsets that a reset is under way: what meets it stops (I2).
func (r *reset) mark(ctx context.Context, p *resetPlan) error {
	mark := fmt.Sprintf("%sto %s, begun %s by %s", resetMark, r.target(), time.Now().UTC().Format(time.RFC3339), r.cli.operator())
	if err := r.commit(ctx, p, func(t *resetTask) string { return mark + wasMark + number(t.Committed, "-") }); err != nil {
		return err
	}
	r.say("marked the offsets of group %s as under reset", r.cfg.ApplicationID)
	return nil
}
