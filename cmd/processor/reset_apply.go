package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// apply does the plan. Every step can be done again.
//
// Order matters. Transactions that could still commit are ended first. The mark in the group's offsets comes before the first
// deletion and goes with the last step: in between, a task that starts finds an offset without a proof, and stops (I1, I2).
func (r *reset) apply(ctx context.Context, p *resetPlan) error {
	fresh, err := r.refreshed()
	if err != nil {
		return err
	}
	defer fresh.Close()
	for _, id := range p.Open {
		if err := session.Fence(ctx, r.client, id, r.cfg.TransactionTimeout); err != nil {
			return err
		}
		r.say("ended the open transaction of %s", id)
	}
	if err := r.prepare(ctx, p, fresh); err != nil {
		return err
	}
	if err := r.commit(ctx, p, func(t *resetTask) string { return metadataOf(t.marker) }); err != nil {
		return err
	}
	if err := r.compare(ctx, p); err != nil {
		return err
	}
	p.Done = true
	return nil
}

// prepare does all but the offsets.
func (r *reset) prepare(ctx context.Context, p *resetPlan, fresh *kgo.Client) error {
	if r.restarts() {
		return r.startOver(ctx, p, fresh)
	}
	if err := r.readMarkers(ctx, p, true); err != nil { // ended transactions may have committed
		return err
	}
	if r.mode == skipLost {
		return r.skipLost(ctx, p, fresh)
	}
	for _, t := range p.Tasks {
		if t.To != nil {
			t.To = t.Applied
		}
	}
	return nil
}

// startOver replaces the state topics and writes a fresh marker for each task.
func (r *reset) startOver(ctx context.Context, p *resetPlan, fresh *kgo.Client) error {
	if err := r.mark(ctx, p); err != nil {
		return err
	}
	if err := r.replaceTopics(ctx, p); err != nil {
		return err
	}
	r.client = fresh
	return r.writeMarkers(ctx, p)
}

// replaceTopics deletes the state topics and makes them again.
func (r *reset) replaceTopics(ctx context.Context, p *resetPlan) error {
	if err := r.deleteTopics(ctx, p); err != nil {
		return err
	}
	_, err := topics.NewAdmin(r.client).Apply(ctx, r.job.Topics(), r.cfg.topicRules())
	return err
}

// refreshed is a client that knows nothing yet: the one of the plan remembers the topics that were deleted, for seconds.
func (r *reset) refreshed() (*kgo.Client, error) {
	return r.cfg.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.MetadataMinAge(100*time.Millisecond))
}

func (r *reset) target() string {
	switch r.mode {
	case toTime:
		return r.flags.to
	case skipLost:
		return "skip what is lost"
	}
	return r.mode
}

func (r *reset) say(format string, args ...any) { fmt.Fprintf(r.cli.stderr, format+"\n", args...) }

// deleteTopics deletes, and waits until the brokers no longer know the old topics.
func (r *reset) deleteTopics(ctx context.Context, p *resetPlan) error {
	for _, t := range p.Topics {
		if t.Partitions == 0 {
			continue
		}
		_, err := kadm.NewClient(r.client).DeleteTopic(ctx, t.Topic)
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("delete topic %s: %w: the right DELETE on it is needed, and delete.topic.enable on the brokers", t.Topic, err)
		}
		if err := r.awaitGone(ctx, t); err != nil {
			return err
		}
		r.say("deleted topic %s (%d records)", t.Topic, t.Records)
	}
	return nil
}

func (r *reset) awaitGone(ctx context.Context, t resetTopic) error {
	for {
		meta, err := topicMetadata(ctx, r.client, t.Topic)
		switch {
		case isUnknownTopic(err):
			return nil
		case err == nil && meta.TopicID != t.id:
			return fmt.Errorf("topic %s was made again by somebody else while it was reset", t.Topic)
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("topic %s: deleted, and still there after %s", t.Topic, resetLimit)
		}
	}
}

func isUnknownTopic(err error) bool { return errors.Is(err, kerr.UnknownTopicOrPartition) }

// writeMarkers writes the marker with which a task begins that has applied nothing, as the engine itself does before the first
// record.
func (r *reset) writeMarkers(ctx context.Context, p *resetPlan) error {
	markers := map[string]*state.Marker{}
	counts := map[string]int32{}
	for _, t := range p.Tasks {
		counts[t.Topic]++
	}
	for _, t := range p.Tasks {
		m := markers[t.Task]
		if m == nil {
			n := counts[t.Topic]
			m = &state.Marker{TxnSeq: 1, StreamTime: state.NoStreamTime, Partitions: n, Fingerprint: t.stage.Fingerprint(n), Writer: r.cfg.ApplicationID + "-reset"}
			markers[t.Task] = m
		}
		m.Next = append(m.Next, state.InputNext{Topic: t.Topic, AppliedNext: *t.To})
		t.marker, t.Applied = m, t.To
	}
	var records []*kgo.Record
	for _, t := range p.Tasks {
		if m := markers[t.Task]; m != nil {
			records = append(records, &kgo.Record{Topic: t.stage.StateTopic(), Partition: t.Partition, Key: m.Key(), Value: m.Append(nil)})
			delete(markers, t.Task)
		}
	}
	if err := r.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("write applied markers: %w", err)
	}
	r.say("made the state topics again, with a fresh marker for %s", counted(len(records), "task"))
	return nil
}

// commit sets the group's offsets. The coordinator refuses it while the group has members: nobody can have joined unseen.
func (r *reset) commit(ctx context.Context, p *resetPlan, metadata func(*resetTask) string) error {
	offsets := kadm.Offsets{}
	for _, t := range p.Tasks {
		if t.To != nil {
			offsets.Add(kadm.Offset{Topic: t.Topic, Partition: t.Partition, At: *t.To, LeaderEpoch: -1, Metadata: metadata(t)})
		}
	}
	err := kadm.NewClient(r.client).CommitAllOffsets(ctx, r.cfg.ApplicationID, offsets)
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.RebalanceInProgress) {
		return fmt.Errorf("an instance joined group %s meanwhile (processor fence or stop it): %w", r.cfg.ApplicationID, err)
	}
	if err != nil {
		return fmt.Errorf("commit offsets of group %s: %w", r.cfg.ApplicationID, err)
	}
	return nil
}

// compare reads back what was written.
func (r *reset) compare(ctx context.Context, p *resetPlan) error {
	after := &reset{cli: r.cli, cfg: r.cfg, job: r.job, client: r.client, mode: toMarker}
	q, err := after.plan(ctx)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if len(q.Members) > 0 {
		return fmt.Errorf("read back: an instance joined group %s meanwhile:%s", r.cfg.ApplicationID, listMembers(q.Members))
	}
	want := map[string]*resetTask{}
	for _, t := range p.Tasks {
		if t.To != nil {
			want[fmt.Sprintf("%s/%d", t.Topic, t.Partition)] = t
		}
	}
	for _, t := range q.Tasks {
		name := fmt.Sprintf("%s/%d", t.Topic, t.Partition)
		w := want[name]
		if w == nil {
			continue
		}
		if t.Applied == nil || !t.proven() || *t.Applied != *w.To {
			return fmt.Errorf("read back: task %s starts %s at %s by the group and at %s by its marker, want %d", t.Task, name, number(t.Committed, "-"), number(t.Applied, "-"), *w.To)
		}
		if gap := t.gap(); gap != "" && r.mode == skipLost {
			return fmt.Errorf("read back: task %s, %s: %s", t.Task, name, gap)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		return fmt.Errorf("read back: nothing of %s", joinAnd(slices.Sorted(maps.Keys(want))))
	}
	return nil
}
