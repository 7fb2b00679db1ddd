package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/topics"
)

// redrive is one run of dlq redrive.
type redrive struct {
	client  *kgo.Client
	cfg     Config
	flags   redriveFlags
	topic   string // the dead letters
	by      string
	targets map[string]*redriveTarget // inputs of the job, by name; nil: not one
}

// redriveTarget is an input as its broker and its stage describe it.
type redriveTarget struct {
	feedTarget
	partitions  int32
	partitioner pipeline.Partitioner
	retention   time.Duration // after which a record may be deleted by its own time; 0 = never, or not by that
}

// retentionMargin is how much of the input's retention a record must have before it: the job must have time to read it.
const retentionMargin = time.Hour

// plan scans the dead letters and decides about each that is chosen.
func (r *redrive) plan(ctx context.Context, scan *letterScan) (*redrivePlan, *letterBook, error) {
	p := &redrivePlan{rows: []*redriveRow{}}
	book, err := scanBook(ctx, scan, r.flags.takes)
	if err != nil {
		return p, nil, err
	}
	for _, l := range book.letters {
		row := &redriveRow{Position: l.Position, Reason: l.Reason, letter: l, Action: sendIt}
		if err := r.decide(ctx, row); err != nil {
			return p, nil, err
		}
		p.rows = append(p.rows, row)
	}
	return p, book, nil
}

// decide fills the row. Its error is that of a look-up, never the letter's.
func (r *redrive) decide(ctx context.Context, row *redriveRow) error {
	l := row.letter
	leave := func(format string, args ...any) error {
		row.Action, row.Why = leftOut, fmt.Sprintf(format, args...)
		return nil
	}
	if l.Redriven != nil {
		row.Action, row.To, row.Why = sentAlready, l.Redriven.As, fmt.Sprintf("%s by %s", l.Redriven.At.Format(time.RFC3339), l.Redriven.By)
		return nil
	}
	if l.unplaced != nil {
		return leave("its headers do not say which input it was")
	}
	target, err := r.target(ctx, l.source.Topic)
	if err != nil {
		return err
	}
	if target == nil {
		return leave("topic %s is no input of this job", l.source.Topic)
	}
	if a := adviceOf(l.Reason); a.futile && !r.flags.named() || l.key == nil {
		row.futile = true
		return leave("%s", a.text)
	}
	row.target = target
	return r.stamp(ctx, row, leave)
}

// stamp decides the record time of the new input.
func (r *redrive) stamp(ctx context.Context, row *redriveRow, leave func(string, ...any) error) error {
	l, now := row.letter, time.Now().UTC()
	if l.Time == nil && r.flags.stamp == stampOriginal || l.Dropped != "" {
		in, err := recordAt(ctx, r.client, l.source)
		if err != nil {
			return err
		}
		if l.Dropped != "" && (in == nil || !l.describes(in.Value)) {
			return leave("its value was too large for the dead letters, and the input is not there any more")
		}
		if l.Time == nil && in != nil {
			l.stamp(in.Timestamp)
		}
	}
	at := now
	if r.flags.stamp == stampOriginal {
		if l.Time == nil {
			return leave("nothing tells its record time any more: look into ledger-updates for its id, then --stamp now")
		}
		at = earlier(*l.Time, now) // one from the future is what its producer's clock got wrong
	}
	if keep := row.target.retention; keep > 0 && now.Sub(at) > keep-retentionMargin {
		return leave("stamped %s it could be deleted before it is read (retention.ms=%d): look into ledger-updates for its id, then --stamp now", at.Format(time.RFC3339), keep.Milliseconds())
	}
	row.Stamp = &at
	row.To = fmt.Sprintf("%s/%d", row.target.topic, row.target.place(l.key))
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// target describes an input of the job, once. It is nil for a topic that is not one.
func (r *redrive) target(ctx context.Context, topic string) (*redriveTarget, error) {
	if t, known := r.targets[topic]; known {
		return t, nil
	}
	if r.targets == nil {
		r.targets = map[string]*redriveTarget{}
	}
	r.targets[topic] = nil
	for _, s := range r.cfg.job().Stages() {
		if !slices.Contains(s.Inputs(), topic) {
			continue
		}
		haves, err := topics.NewAdmin(r.client).Describe(ctx, topic)
		if err != nil {
			return nil, err
		}
		have, ok := haves[topic]
		if !ok || have.Partitions == 0 {
			return nil, fmt.Errorf("topic %s: %w", topic, errors.Join(have.Err, missingTopic(ok)))
		}
		r.targets[topic] = newRedriveTarget(topic, have, s.Partitioner())
	}
	return r.targets[topic], nil
}

func missingTopic(ok bool) error {
	if ok {
		return nil
	}
	return kerr.UnknownTopicOrPartition
}

func newRedriveTarget(topic string, have topics.Have, p pipeline.Partitioner) *redriveTarget {
	t := &redriveTarget{feedTarget: newTarget(topic, have), partitions: have.Partitions, partitioner: p}
	if have.Config["message.timestamp.type"] != "LogAppendTime" {
		ms, err := strconv.ParseInt(have.Config["retention.ms"], 10, 64)
		if err == nil && ms > 0 && ms < int64(maxDuration/time.Millisecond) {
			t.retention = time.Duration(ms) * time.Millisecond
		}
	}
	return t
}

// place is the partition of a key.
func (t *redriveTarget) place(key []byte) int32 { return t.partitioner.Partition(key, t.partitions) }

const maxDuration = time.Duration(1<<63 - 1)

// again makes the new input of a letter: its bytes, without our headers, and with redrive.source.
func (r *redriveRow) again(letter *kgo.Record, value []byte, sent map[string]bool) *kgo.Record {
	out := &kgo.Record{Topic: r.target.topic, Key: letter.Key, Value: value, Timestamp: *r.Stamp}
	out.Partition = r.target.place(letter.Key)
	r.Source = r.letter.Source
	at := -1
	for _, h := range letter.Headers {
		switch {
		case ownHeader(h.Key):
			continue
		case h.Key == topology.HeaderRedriveOf && at < 0:
			at = len(out.Headers)
			if sent[r.letter.Source] || mutant.On("redrive-believes-producers") { // written by a redrive: it names the first original already
				r.Source = string(h.Value)
			}
		}
		out.Headers = append(out.Headers, h)
	}
	if at < 0 {
		at = len(out.Headers)
		out.Headers = append(out.Headers, kgo.RecordHeader{})
	}
	out.Headers[at] = kgo.RecordHeader{Key: topology.HeaderRedriveOf, Value: []byte(r.Source)}
	return out
}
