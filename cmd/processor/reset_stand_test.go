package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// stand is a job that did not run here: its topics, and what a test puts into them and into the group.
func stand(t *testing.T) (*devbroker.Broker, *kgo.Client) {
	t.Helper()
	b, _ := startJob(t)
	return b, testClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// applied writes a marker as the job would.
func applied(t *testing.T, client *kgo.Client, partition int32, txn uint64, next int64) state.Marker {
	t.Helper()
	m := state.Marker{TxnSeq: txn, StreamTime: state.NoStreamTime, Partitions: 4, Writer: "w", Next: []state.InputNext{{Topic: credits, AppliedNext: next}}}
	produce(t, client, &kgo.Record{Topic: topics.StateTopic("ledger", "post"), Partition: partition, Key: m.Key(), Value: m.Append(nil)})
	return m
}

// committed sets an offset of the group with its metadata.
func committed(t *testing.T, client *kgo.Client, partition int32, next int64, metadata string) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: credits, Partition: partition, At: next, LeaderEpoch: -1, Metadata: metadata})
	if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), "ledger", offsets); err != nil {
		t.Fatal(err)
	}
}

// trimmed deletes the records of an input partition below an offset, as retention does.
func trimmed(t *testing.T, client *kgo.Client, partition int32, start int64) {
	t.Helper()
	var before kadm.Offsets
	before.AddOffset(credits, partition, start, -1)
	if _, err := kadm.NewClient(client).DeleteRecords(t.Context(), before); err != nil {
		t.Fatal(err)
	}
}

// Without a marker nothing tells what the state has applied: no offset is a right one, and the reset changes none of the others.
func TestResetToMarkerRefusesTasksWhoseStateIsGone(t *testing.T) {
	b, client := stand(t)
	applied(t, client, 0, 7, 0)
	committed(t, client, 1, 0, "")
	committed(t, client, 2, 0, resetMark+"to earliest, begun today by somebody"+wasMark+"-")
	for _, args := range [][]string{{"plan", "--to-marker"}, {"apply", "--to-marker", "--yes"}} {
		p, errs := resetRun(t, b, exitFailed, args...)
		if !strings.Contains(errs, "task post/1 has no marker in ledger-post-state") || !strings.Contains(errs, "task post/2 has no marker") || strings.Contains(errs, "post/3") {
			t.Errorf("%q: %s", args, errs)
		}
		if p.Tasks[1].To != nil || p.Tasks[2].To != nil || !strings.Contains(p.Tasks[3].Note, "never ran") {
			t.Errorf("%q: %+v", args, p.Tasks)
		}
	}
	if got, err := kadm.NewClient(client).FetchOffsets(t.Context(), "ledger"); err != nil || len(got[credits]) != 2 {
		t.Errorf("offsets after a refusal: %v, %v", got, err)
	}
}

// What is processed again, skipped, and lost is counted from what is there and what was committed.
func TestResetCountsWhatItRepeatsSkipsAndMisses(t *testing.T) {
	b, client := stand(t)
	produce(t, client, append(credit(0, 5), credit(1, 5)...)...)
	trimmed(t, client, 0, 2)
	trimmed(t, client, 1, 2)
	committed(t, client, 0, 4, "")
	committed(t, client, 1, 1, "")
	for _, c := range []struct {
		args       []string
		to         int64
		says, lack []string
	}{
		{[]string{"--to", "earliest"}, 2, []string{"2 offsets will be processed again", "4 offsets of the input were deleted by retention"}, []string{"never applied"}},
		{[]string{"--to-offset", "credit-events/0=5"}, 5, []string{"1 offset that were never processed lie before"}, []string{"processed again"}},
		{[]string{"--to-offset", "credit-events/0=3"}, 3, []string{"1 offset will be processed again", "2 offsets of the input were deleted"}, []string{"never applied"}},
		{[]string{"--to", "latest"}, 5, []string{"4 offsets that were never processed"}, []string{"processed again", "deleted by retention"}},
	} {
		p, _ := resetRun(t, b, exitUsage, append([]string{"plan"}, c.args...)...)
		text := strings.Join(p.Warnings, "\n")
		for _, w := range c.says {
			if !strings.Contains(text, w) {
				t.Errorf("%q: no %q in\n%s", c.args, w, text)
			}
		}
		for _, w := range c.lack {
			if strings.Contains(text, w) {
				t.Errorf("%q: %q in\n%s", c.args, w, text)
			}
		}
		if *p.Tasks[0].To != c.to {
			t.Errorf("%q: %+v", c.args, p.Tasks[0])
		}
	}
	for outside, says := range map[string]string{"credit-events/0=1": "has offsets 2 to 5", "credit-events/0=6": "has offsets 2 to 5", "credit-events/4=0": "no partition 4",
		"credit-events/0=-3": "write topic/partition=offset", "credit-events/-1=3": "write topic/partition=offset"} {
		if out, errs, code := processor(t, b, "", "reset", "plan", "--to-offset", outside); code != exitUsage || out != "" || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d: %s%s", outside, code, out, errs)
		}
	}
}

// The marker that counts is the last one that is committed, however far from the end it stands.
func TestResetToMarkerFindsTheLastCommittedMarker(t *testing.T) {
	b, client := stand(t)
	produce(t, client, append(credit(0, 5), credit(1, 5)...)...)
	trimmed(t, client, 1, 3)
	applied(t, client, 0, 6, 1)
	last := applied(t, client, 0, 7, 4)
	rest := make([]*kgo.Record, markerReach+100)
	for i := range rest {
		rest[i] = stateRecord()
	}
	produce(t, client, rest...)
	open := state.Marker{TxnSeq: 8, Partitions: 4, Writer: "w", Next: []state.InputNext{{Topic: credits, AppliedNext: 5}}}
	transaction(t, b, "somebody", &kgo.Record{Topic: topics.StateTopic("ledger", "post"), Key: open.Key(), Value: open.Append(nil)})
	applied(t, client, 1, 3, 2)
	committed(t, client, 1, 2, "")
	committed(t, client, 0, 4, "by hand")
	p, _ := resetRun(t, b, exitUsage, "plan", "--to-marker")
	if a := p.Tasks[0]; a.Applied == nil || *a.Applied != 4 || a.To == nil || *a.To != 4 || !strings.Contains(a.Note, "only its proof is missing") {
		t.Errorf("%+v, want what marker 7 says: the offset is right, its proof is missing", a)
	}
	if a := p.Tasks[1]; a.Applied == nil || !strings.Contains(a.Note, "retention deleted 1 offset that") {
		t.Errorf("%+v", a)
	}
	committed(t, client, 0, 4, metadataOf(&last))
	if p, _ := resetRun(t, b, exitUsage, "plan", "--to-marker"); p.Tasks[0].To != nil || p.Tasks[0].Note != "as it should be" {
		t.Errorf("%+v", p.Tasks[0])
	}
}

// An offset with a proof of ours was moved by nobody. To set it back would write again what is written.
func TestResetToMarkerMovesNothingThatNoToolHasMoved(t *testing.T) {
	b, client := stand(t)
	produce(t, client, credit(0, 8)...)
	applied(t, client, 0, 8, 5)
	later := applied(t, client, 0, 9, 7)
	before := applied(t, client, 0, 7, 3)
	for _, c := range []struct {
		name     string
		at       int64
		metadata string
		code     exitCode
		says     string
	}{
		{"the state topic has lost records", 7, metadataOf(&later), exitFailed, "what lies between would be written a second time"},
		{"they were not written together", 3, metadataOf(&later), exitFailed, "its offset is of transaction 9 with digest"},
		{"the group has lost a commit", 1, metadataOf(&before), exitUsage, "go on only when processor verify --raw finds `offset` alone"},
		{"a tool has moved it", 7, "", exitUsage, "moved by another tool"},
	} {
		committed(t, client, 0, c.at, c.metadata)
		out, errs, code := processor(t, b, "", "reset", "plan", "--to-marker")
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit %d: %s%s; want %d, %q", c.name, code, out, errs, c.code, c.says)
		}
	}
}

// What was open when the plan was made may be committed by the time that it is ended: the marker is read again.
func TestResetToMarkerGoesByTheMarkerOfTheEnd(t *testing.T) {
	b, cfg := startJob(t)
	client := testClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produce(t, client, credit(0, 5)...)
	applied(t, client, 0, 7, 3)
	committed(t, client, 0, 1, "")
	c, _, _ := newTestCLI()
	r := &reset{cli: c, cfg: cfg, job: cfg.job(), client: client, mode: toMarker}
	p, err := r.plan(t.Context())
	if err != nil || p.Tasks[0].To == nil || *p.Tasks[0].To != 3 {
		t.Fatal(p, err)
	}
	last := applied(t, client, 0, 8, 4)
	if err := r.apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got, err := kadm.NewClient(client).FetchOffsets(t.Context(), "ledger"); err != nil || got[credits][0].At != 4 || got[credits][0].Metadata != metadataOf(&last) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A coordinator that says yes and keeps nothing: done is said only of what was read back.
func TestResetReadsBackWhatItWrote(t *testing.T) {
	b, client := stand(t)
	applied(t, client, 0, 7, 0)
	committed(t, client, 0, 0, "moved by hand")
	b.Cluster().ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, asked := range req.(*kmsg.OffsetCommitRequest).Topics {
			out := kmsg.OffsetCommitResponseTopic{Topic: asked.Topic, TopicID: asked.TopicID}
			for _, p := range asked.Partitions {
				out.Partitions = append(out.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition})
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil, true
	})
	_, errs, code := processor(t, b, "", "reset", "apply", "--to-marker", "--yes")
	if code != exitFailed || !strings.Contains(errs, "the reset is not complete: read back: task post/0 starts credit-events/0 at 0 by the group and at 0 by its marker") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A task of two inputs begins with one marker that knows both, each with its own offset.
func TestResetOfATaskWithTwoInputsMovesBoth(t *testing.T) {
	b, cfg := startJob(t)
	job := pipeline.New("shop")
	join := job.Stage("join")
	rates := topics.New("rates", record.String, record.Bytes)
	nothing := func(*pipeline.Ctx, pipeline.Record[string, []byte]) error { return nil }
	pipeline.Handle(join, rates, nothing)
	pipeline.Handle(join, topics.New(credits, record.String, record.Bytes), nothing)
	client := testClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	cfg.ApplicationID = "shop"
	if _, err := topics.NewAdmin(client).Apply(t.Context(), job.Topics(), cfg.topicRules()); err != nil {
		t.Fatal(err)
	}
	produce(t, client, append(credit(2, 5), &kgo.Record{Topic: "rates", Partition: 2, Key: []byte("a")})...)
	c, _, _ := newTestCLI()
	r := &reset{cli: c, cfg: cfg, job: job, client: client, mode: toLatest}
	p, err := r.plan(t.Context())
	if err != nil || p.refusal() != nil {
		t.Fatal(err, p.refusal())
	}
	if err := r.apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	m, err := lastMarker(t.Context(), client, topics.StateTopic("shop", "join"), 2, true)
	if err != nil || m == nil {
		t.Fatal(m, err)
	}
	next := slices.Clone(m.Next)
	slices.SortFunc(next, func(a, b state.InputNext) int { return strings.Compare(a.Topic, b.Topic) })
	if !slices.Equal(next, []state.InputNext{{Topic: credits, AppliedNext: 5}, {Topic: "rates", AppliedNext: 1}}) || m.TxnSeq != 1 || m.StreamTime != state.NoStreamTime || m.Partitions != 4 || m.Fingerprint != join.Fingerprint(4) {
		t.Errorf("%+v", m)
	}
	got, err := kadm.NewClient(client).FetchOffsets(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range next {
		if o, ok := got.Lookup(n.Topic, 2); !ok || o.At != n.AppliedNext || o.Metadata != metadataOf(m) {
			t.Errorf("%s: %+v", n.Topic, o)
		}
	}
	if written := readAll(t, b, topics.StateTopic("shop", "join")); len(written) != 4 {
		t.Errorf("%d markers, want one for each task", len(written))
	}
}
