package main

import (
	"context"
	"fmt"

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
