package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/state"
)

// markerReach is how many offsets from the end are read first for the last marker. Each transaction ends with one, so that it is
// rarely farther away than the largest transaction.
const markerReach = 2000

// readMarkers finds the last marker of each task. A state topic that does not exist has none. With whole it waits for open
// transactions; else it reads what is committed.
func (r *reset) readMarkers(ctx context.Context, p *resetPlan, whole bool) error {
	found := map[string]*state.Marker{}
	for _, t := range p.Tasks {
		key := t.Task
		m, known := found[key]
		if !known {
			var err error
			if m, err = lastMarker(ctx, r.client, t.stage.StateTopic(), t.Partition, whole); err != nil {
				return err
			}
			found[key] = m
		}
		t.marker, t.Applied = m, nil
		if m == nil {
			continue
		}
		if next, ok := m.NextOf(t.Topic); ok {
			t.Applied = &next
		}
	}
	return nil
}

// lastMarker reads the last marker of a partition, from the end backwards in growing steps; nil when there is none.
func lastMarker(ctx context.Context, client *kgo.Client, topic string, partition int32, whole bool) (*state.Marker, error) {
	meta, err := topicMetadata(ctx, client, topic)
	if isUnknownTopic(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if int(partition) >= len(meta.Partitions) {
		return nil, nil
	}
	b, err := lookUp(ctx, kadm.NewClient(client), topic, []int32{partition})
	if err != nil {
		return nil, err
	}
	end := b[0].stable
	if whole {
		end = b[0].end
	}
	for reach := int64(markerReach); ; reach *= 10 {
		from := max(b[0].start, end-reach)
		m, err := markerFrom(ctx, client, topic, partition, from, end)
		if err != nil || m != nil || from == b[0].start {
			return m, err
		}
	}
}

// markerFrom reads a piece of a partition and returns the last marker in it.
func markerFrom(ctx context.Context, client *kgo.Client, topic string, partition int32, from, end int64) (last *state.Marker, err error) {
	r := &topicReader{client: client, topic: topic, cursors: []*cursor{{partition: partition, next: from, target: end}}}
	for unread(r.cursors) != nil {
		got, err := r.round(ctx, tailWait)
		if err != nil {
			return nil, err
		}
		for _, f := range got {
			for _, rec := range f.partition.Records {
				if !state.IsMarker(rec.Key) {
					continue
				}
				m, err := state.ParseMarker(rec.Value)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", place(rec), err)
				}
				last = &m
			}
		}
	}
	return last, nil
}

// toMarker has the group's offset moved to where the state ends, where nothing is lost or written twice by that. An offset with a
// proof of ours was set by no tool: the job committed it, and what is missing beside it is missing in Kafka.
func (t *resetTask) toMarker(p *resetPlan) {
	proof, err := state.ParseMetadata(t.metadata)
	ours := err == nil && t.Committed != nil
	switch {
	case strings.HasPrefix(t.metadata, resetMark):
		t.To, t.Note = t.Applied, "marked by a reset that was not finished"
	case t.Committed == nil:
		t.To, t.Note = t.Applied, "the offset is gone"
	case ours && *t.Committed > *t.Applied:
		t.refuse(p, fmt.Sprintf("this job itself has committed offset %d, and its state ends at %d: what lies between would be written a second time", *t.Committed, *t.Applied))
	case ours && *t.Committed == *t.Applied && !t.marker.Reads(t.Topic) && proof.TxnSeq < t.marker.TxnSeq:
		t.Note = "as it should be: a version without this input went on"
	case ours && *t.Committed == *t.Applied:
		t.refuse(p, fmt.Sprintf("its offset is of transaction %d with digest %016x, its state of %d with %016x: they were not written together (I2)", proof.TxnSeq, proof.Digest, t.marker.TxnSeq, t.marker.Digest))
	case ours && *t.Committed < *t.Applied:
		t.To, t.Note = t.Applied, "this job itself committed the offset: the group has lost a commit"
		p.Warnings = append(p.Warnings, fmt.Sprintf("task %s: no tool has set its offset: the group has lost a commit, or Kafka has committed a transaction in part; go on only when processor verify --raw finds `offset` alone", t.Task))
	case *t.Committed == *t.Applied:
		t.To, t.Note = t.Applied, "the offset was set by another tool: only its proof is missing"
	default:
		t.To, t.Note = t.Applied, "the offset was moved by another tool"
	}
}

// refuse says why the state cannot be gone on with.
func (t *resetTask) refuse(p *resetPlan, why string) {
	t.Note = why
	p.refusals = append(p.refusals, fmt.Sprintf("task %s: %s; keep all topics, let processor verify --raw judge them, then start over with --to or --to-offset", t.Task, why))
}

// proven reports whether offset and metadata are those of the marker.
func (t *resetTask) proven() bool {
	return t.Committed != nil && *t.Committed == *t.Applied && t.metadata == metadataOf(t.marker)
}

func metadataOf(m *state.Marker) string {
	return string(state.AppendMetadata(nil, state.Metadata{TxnSeq: m.TxnSeq, Digest: m.Digest}))
}
