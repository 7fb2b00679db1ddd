package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
)

// proof is a task whose state topic and offset agree: applied up to 5 of an input that holds 8 records, of which the last is
// of an open transaction.
type proof struct {
	w         *worker
	o         *ownedTask
	marker    state.Marker
	committed session.CommittedOffset
	reset     OffsetReset
	unmarked  bool
	rows      []state.Record // in the state topic, before the marker
}

func newProof(t *testing.T) *proof {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p, err := NewProcessor(Config{Brokers: c.ListenAddrs()}, minimal())
	if err != nil {
		t.Fatal(err)
	}
	if p.admin, err = kgo.NewClient(p.clientOptions()...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.admin.Close)
	produce(t, p.admin, 7)
	upstream, err := kgo.NewClient(append(p.clientOptions(), kgo.TransactionalID("upstream"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(upstream.Close)
	if err := upstream.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, upstream, 1)
	p.partitions = map[string]int32{"s": 1}
	stage := p.pipe.stages[0]
	return &proof{
		w:         &worker{p: p},
		o:         &ownedTask{id: TaskID{Stage: "s"}, stage: stage, inputs: []ownedInput{{TopicPartition: session.TopicPartition{Topic: "in"}}}},
		marker:    state.Marker{TxnSeq: 3, Partitions: 1, Fingerprint: stage.Fingerprint(1), Next: []state.InputNext{{Topic: "in", AppliedNext: 5}}},
		committed: session.CommittedOffset{Next: 5, Metadata: metadata(3, 0)},
		reset:     Earliest,
	}
}

func produce(t *testing.T, client *kgo.Client, n int) {
	t.Helper()
	for range n {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Key: []byte("k")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func metadata(seq, digest uint64) string {
	return string(state.AppendMetadata(nil, state.Metadata{TxnSeq: seq, Digest: digest}))
}

// try proves what the state topic and the group hold.
func (p *proof) try(t *testing.T) error {
	t.Helper()
	base := state.NewMemory(nil)
	for _, r := range p.rows {
		if err := base.Replay(r.Key, r.Value); err != nil {
			t.Fatal(err)
		}
	}
	if !p.unmarked {
		if err := base.Replay([]byte("\x00m"), p.marker.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	p.w.p.cfg.OffsetReset = p.reset
	p.o.inputs[0].start, p.o.fresh = -1, false
	return p.w.prove(t.Context(), p.o, base, map[session.TopicPartition]session.CommittedOffset{p.o.inputs[0].TopicPartition: p.committed})
}

// Nothing is processed on ground that is not proven, and the error says which proof failed.
func TestTaskStopsUnderTheNameOfTheProofThatFails(t *testing.T) {
	const over, marker = "processor reset plan", "reset apply --to-marker"
	for _, c := range []struct {
		name, invariant, says, way string
		damage                     func(p *proof)
	}{
		{"state behind an offset of its own", "I1", "offset 4, and this job itself has committed 5: the state topic has lost records", over, func(p *proof) { p.marker.Next[0].AppliedNext = 4 }},
		{"state ahead of an offset of its own", "I1", "offset 6, and this job itself has committed 5: the group has lost a commit", marker, func(p *proof) { p.marker.Next[0].AppliedNext = 6 }},
		{"offset moved ahead", "I1", "applied up to offset 4, and another tool", marker, func(p *proof) { p.marker.Next[0].AppliedNext, p.committed.Metadata = 4, "" }},
		{"offset moved back", "I1", "applied up to offset 6, and another tool", marker, func(p *proof) { p.marker.Next[0].AppliedNext, p.committed.Metadata = 6, "" }},
		{"offset without state", "I1", "has no marker", over, func(p *proof) { p.unmarked = true }},
		{"marker of another input", "I1", "knows no input", "delete the group's offset", func(p *proof) { p.marker.Next[0].Topic = "old" }},
		{"another partition count", "I1", "keys have moved", over, func(p *proof) { p.marker.Partitions = 2 }},
		{"offset without metadata", "I2", "set by another tool", marker, func(p *proof) { p.committed.Metadata = "" }},
		{"offset of another transaction", "I2", "not written together", over, func(p *proof) { p.committed.Metadata = metadata(4, 0) }},
		{"offset of other contents", "I2", "has digest", over, func(p *proof) { p.committed.Metadata = metadata(3, 9) }},
		{"an input comes back, its offset was moved", "I1", "applied up to offset 5", marker, func(p *proof) { p.back(3); p.committed.Next, p.committed.Metadata = 6, "" }},
		{"an input comes back with an offset of a later transaction", "I2", "not written together", over, func(p *proof) { p.back(9) }},
		{"contents are not the marker's", "I3", "lost or resurrected keys", over, func(p *proof) { p.marker.Digest, p.committed.Metadata = 9, metadata(3, 9) }},
		{"reset in the middle", "I2", "begun and not finished", "reset apply", func(p *proof) { p.committed.Metadata = "tallystick/reset to=5" }},
		{"unread input is gone", "I4", "deleted 1 records", "processor reset plan --skip-lost", func(p *proof) { p.deleteInputBefore(t, 6) }},
	} {
		p := newProof(t)
		c.damage(p)
		err := p.try(t)
		var v *ViolationError
		if !errors.As(err, &v) || v.Invariant != c.invariant || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.way) {
			t.Errorf("%s: got %v, want %s with its way out, %s", c.name, err, c.invariant, c.way)
		}
	}
}

func (p *proof) deleteInputBefore(t *testing.T, offset int64) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset("in", 0, offset, -1)
	if _, err := kadm.NewClient(p.w.p.admin).DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
}

func TestStateOfAnIncompatibleStageIsRefused(t *testing.T) {
	p := newProof(t)
	p.marker.Fingerprint = state.FingerprintText("s", 1, []string{"in"}, []*state.Spec{{Name: "gone", Kind: "table", KeyCodec: "string", ValueCodec: "string"}})
	p.rows = []state.Record{{Key: []byte("\x04gonek"), Value: []byte("v")}}
	if err := p.try(t); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("got %v, want a refusal that names the store", err)
	}
}

// The first offset is the marker's where there is one; the beginning would apply everything twice. A start that the group
// does not have yet is fresh: it is committed before the first record.
func TestTaskStartsWhereItsProofOrItsResetSays(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(p *proof)
		start int64
		fresh bool
	}{
		{"proven", func(*proof) {}, 5, false},
		{"the group's offset is gone", func(p *proof) { p.committed = session.CommittedOffset{Next: session.NoOffset} }, 5, true},
		{"the input comes back", func(p *proof) { p.back(3) }, 5, false},
		{"the input comes back, its offset is gone", func(p *proof) { p.back(3); p.committed = session.CommittedOffset{Next: session.NoOffset} }, 5, true},
		{"first start, earliest", func(p *proof) { p.first(Earliest); p.deleteInputBefore(t, 2) }, 2, true},
		{"first start, latest: what is not decided is to come", func(p *proof) { p.first(Latest) }, 7, true},
	} {
		p := newProof(t)
		c.set(p)
		if err := p.try(t); err != nil || p.o.inputs[0].start != c.start || p.o.fresh != c.fresh {
			t.Errorf("%s: start %d, fresh %v, %v: want %d, %v", c.name, p.o.inputs[0].start, p.o.fresh, err, c.start, c.fresh)
		}
	}
}

// What is on its way through a repartition topic was never read by anyone, whatever a first start of the users' inputs skips.
func TestRepartitionTopicStartsAtItsFirstRecord(t *testing.T) {
	p := newProof(t)
	p.first(Latest)
	p.o.stage.repartition = "in"
	if err := p.try(t); err != nil || p.o.inputs[0].start != 0 {
		t.Errorf("it starts at %d, %v: want 0, what lies before is on its way", p.o.inputs[0].start, err)
	}
}

func TestFirstStartWithoutAResetStops(t *testing.T) {
	p := newProof(t)
	p.first(None)
	if err := p.try(t); err == nil || !strings.Contains(err.Error(), "auto.offset.reset=none") {
		t.Errorf("got %v", err)
	}
}

// first makes it the first start of the task.
func (p *proof) first(reset OffsetReset) {
	p.unmarked, p.reset = true, reset
	p.committed = session.CommittedOffset{Next: session.NoOffset}
}

// back makes the input one that the last transactions were without: its offset is of transaction seq, the marker of a later one.
func (p *proof) back(seq uint64) {
	p.marker.TxnSeq, p.marker.Fingerprint = 9, state.FingerprintText("s", 1, nil, nil)
	p.committed.Metadata = metadata(seq, 7)
}

// The marker alone is no proof: one of another transaction may name the same offset.
func TestRestoreIsCompleteOnlyAtTheMarkerOfTheCommittedOffset(t *testing.T) {
	p := newProof(t)
	for _, c := range []struct {
		name      string
		committed session.CommittedOffset
		want      bool
	}{
		{"the same", session.CommittedOffset{Next: 5, Metadata: metadata(3, 0)}, true},
		{"another offset", session.CommittedOffset{Next: 6, Metadata: metadata(3, 0)}, false},
		{"another transaction", session.CommittedOffset{Next: 5, Metadata: metadata(4, 0)}, false},
		{"no metadata", session.CommittedOffset{Next: 5}, false},
		{"no offset", session.CommittedOffset{Next: session.NoOffset, Metadata: metadata(3, 0)}, false},
	} {
		base := state.NewMemory(nil)
		if err := base.Replay([]byte("\x00m"), p.marker.Append(nil)); err != nil {
			t.Fatal(err)
		}
		r := &replayer{Base: base, committed: map[session.TopicPartition]session.CommittedOffset{{Topic: "in"}: c.committed}}
		if r.Proven() != c.want {
			t.Errorf("%s: proven %v, want %v", c.name, r.Proven(), c.want)
		}
	}
}
