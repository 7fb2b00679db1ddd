package pipelinetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// outcome is what a run left in the topics, and what is known of how it came about.
type outcome struct {
	records map[partition][]written // committed records of outputs and dead letters
	state   map[string]string       // what the stores hold: place → contents
	sent    map[kmsg.Key]int
	reached bool // the process was struck
}

// written is a committed record as it is compared and shown.
type written struct{ key, text, time string }

// read fences every process's ids, so that each transaction is decided, and reads all that is committed.
func (r *run) read(ctx context.Context) (out outcome, err error) {
	for instance := range r.ids {
		for i := range r.plan.workers {
			if err := session.Fence(ctx, r.client, session.TransactionalID(r.k.app, instance, i), time.Minute); err != nil {
				return out, err
			}
		}
	}
	log, err := r.readTopics(ctx, append(append([]string{}, r.k.outputs...), r.k.stateTopics()...))
	if err != nil {
		return out, err
	}
	out = outcome{records: map[partition][]written{}}
	for at, records := range log {
		for _, rec := range records {
			out.records[at] = append(out.records[at], r.k.written(rec))
		}
	}
	out.state, err = r.fold(ctx, log)
	for _, s := range r.k.pipe.Stages() {
		for i := range r.k.cfg.Partitions {
			delete(out.records, partition{s.StateTopic(), i})
		}
	}
	return out, err
}

// readTopics returns the committed records of topics by partition.
func (r *run) readTopics(ctx context.Context, names []string) (map[partition][]*kgo.Record, error) {
	ends, err := kadm.NewClient(r.client).ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	left, from := map[partition]int64{}, map[string]map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[partition{end.Topic, end.Partition}] = end.Offset
		}
		if from[end.Topic] == nil {
			from[end.Topic] = map[int32]kgo.Offset{}
		}
		from[end.Topic][end.Partition] = kgo.NewOffset().AtStart()
	})
	return r.consume(ctx, from, left)
}

// consume reads up to the ends. Control records are asked for, because a partition may end with one.
func (r *run) consume(ctx context.Context, from map[string]map[int32]kgo.Offset, left map[partition]int64) (map[partition][]*kgo.Record, error) {
	reader, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	log := map[partition][]*kgo.Record{}
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d partitions do not end: %w", len(left), ctx.Err())
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			at := partition{rec.Topic, rec.Partition}
			if !rec.Attrs.IsControl() {
				log[at] = append(log[at], rec)
			}
			if rec.Offset+1 >= left[at] {
				delete(left, at)
			}
		})
	}
	return log, nil
}

// written turns a record into what is compared. Left out is what no promise is about: the time of writing of dead letters, the
// clock that judged a timestamp, and offsets in topics that the pipeline itself writes, where the end of each transaction takes
// one.
func (k *kit) written(rec *kgo.Record) written {
	var b strings.Builder
	fmt.Fprintf(&b, "key %s value %s", show(rec.Key), show(rec.Value))
	dead, inner, at := rec.Topic == topics.DeadLetters(k.app), false, ""
	if !dead {
		at = " time " + rec.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	for _, h := range rec.Headers {
		inner = inner || dead && h.Key == pipeline.HeaderTopic && k.inner[string(h.Value)]
	}
	for _, h := range rec.Headers {
		switch {
		case dead && h.Key == pipeline.HeaderClock, dead && h.Key == pipeline.HeaderMessage && k.clocked(rec), inner && (h.Key == pipeline.HeaderOffset || h.Key == pipeline.HeaderFirst):
			continue
		}
		fmt.Fprintf(&b, " %s=%s", h.Key, show(h.Value))
	}
	return written{string(rec.Key), b.String(), at}
}

// clocked reports whether a dead letter's text tells the wall clock.
func (k *kit) clocked(rec *kgo.Record) bool {
	for _, h := range rec.Headers {
		if h.Key == pipeline.HeaderClock {
			return true
		}
	}
	return false
}

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

// fold replays the state topics and proves what they hold: the digest of each task, and its marker against the offsets of the
// group.
func (r *run) fold(ctx context.Context, log map[partition][]*kgo.Record) (map[string]string, error) {
	committed, err := kadm.NewClient(r.client).FetchOffsets(ctx, r.k.app)
	if err != nil {
		return nil, fmt.Errorf("committed offsets: %w", err)
	}
	contents := map[string]string{}
	for _, s := range r.k.pipe.Stages() {
		for i := range r.k.cfg.Partitions {
			base := state.NewMemory(s.Stores())
			for _, rec := range log[partition{s.StateTopic(), i}] {
				if err := base.Replay(rec.Key, rec.Value); err != nil {
					return nil, fmt.Errorf("state of task %s/%d at offset %d: %w", s.Name(), i, rec.Offset, err)
				}
			}
			if err := proven(s, i, base, committed); err != nil {
				return nil, err
			}
			if err := r.k.contents(contents, s, i, base); err != nil {
				return nil, err
			}
		}
	}
	return contents, nil
}

// proven checks the invariants between state and offsets that a restore would check: I1 and I3.
func proven(s *pipeline.Stage, i int32, base state.Base, committed kadm.OffsetResponses) error {
	marker, ok := base.Marker()
	if ok && marker.Digest != base.Digest() {
		return fmt.Errorf("I3: the state of task %s/%d has digest %016x, its marker says %016x", s.Name(), i, base.Digest(), marker.Digest)
	}
	for _, input := range s.Inputs() {
		o, found := committed.Lookup(input, i)
		if next, known := marker.NextOf(input); found && o.At >= 0 && (!known || next != o.At) {
			return fmt.Errorf("I1: task %s/%d has applied %s up to %d, the group has committed %d", s.Name(), i, input, next, o.At)
		}
	}
	return nil
}

// contents adds what a task's stores hold.
func (k *kit) contents(to map[string]string, s *pipeline.Stage, i int32, base state.Base) error {
	entries, err := state.Entries(s.Stores(), base)
	if err != nil {
		return err
	}
	task := fmt.Sprintf("task %s/%d", s.Name(), i)
	for _, e := range entries {
		if e.Seen.Topic == "" {
			to[fmt.Sprintf("%s, store %q, key %s", task, e.Store, show(e.Key))] = show(e.Value)
			continue
		}
		at := fmt.Sprintf(" at %s/%d", e.Seen.Topic, e.Seen.Offset)
		if k.inner[e.Seen.Topic] {
			at = " in " + e.Seen.Topic
		}
		to[fmt.Sprintf("%s, store %q, id %x", task, e.Store, e.Key)] = fmt.Sprintf("first seen%s, content %016x", at, e.Seen.Fingerprint)
	}
	if marker, ok := base.Marker(); ok && marker.StreamTime != state.NoStreamTime {
		to[task+", stream time"] = time.UnixMilli(marker.StreamTime).UTC().Format(time.RFC3339Nano)
	}
	return nil
}
