package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// perValue counts clicks by their value: one stage hands them to another, under the value as key.
func perValue(app string) *pipeline.Pipeline { return perValueIn(app, "second") }

func perValueIn(app, counting string) *pipeline.Pipeline {
	p := pipeline.New(app)
	first, second := p.Stage("first"), p.Stage(counting)
	byValue := pipeline.NewRepartition(second, record.String, record.Int64)
	hand := pipeline.NewOutput(first, byValue)
	pipeline.Handle(first, clicks, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		hand.Send(c, fmt.Sprint("v", r.Value), r.Value)
		return nil
	})
	counts := state.NewTable(second, "counts", record.String, record.Int64)
	out := pipeline.NewOutput(second, totals)
	pipeline.Handle(second, byValue, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		n, _ := counts.Get(c, r.Key)
		counts.Put(c, r.Key, n+1)
		out.Send(c, r.Key, n+1)
		return nil
	})
	return p
}

func TestRepartitionTopicThatNothingFlowsThroughIsRefused(t *testing.T) {
	nothing := func(*pipeline.Ctx, pipeline.Record[string, int64]) error { return nil }
	for want, declare := range map[string]func(p *pipeline.Pipeline, a, b *pipeline.Stage){
		`topic "app-b-repartition" is written by nobody`: func(_ *pipeline.Pipeline, a, b *pipeline.Stage) {
			pipeline.Handle(b, pipeline.NewRepartition(b, record.String, record.Int64), nothing)
		},
		`topic "app-b-repartition" is read by nobody`: func(_ *pipeline.Pipeline, a, b *pipeline.Stage) {
			pipeline.NewOutput(a, pipeline.NewRepartition(b, record.String, record.Int64))
		},
		`is the repartition topic of stage "b" and cannot be read by stage "a"`: func(_ *pipeline.Pipeline, a, b *pipeline.Stage) {
			t := pipeline.NewRepartition(b, record.String, record.Int64)
			pipeline.NewOutput(b, t)
			pipeline.Handle(a, t, nothing)
		},
		`stage "b": its repartition topic is declared twice`: func(_ *pipeline.Pipeline, a, b *pipeline.Stage) {
			t := pipeline.NewRepartition(b, record.String, record.Int64)
			pipeline.NewRepartition(b, record.String, record.Int64)
			pipeline.NewOutput(a, t)
			pipeline.Handle(b, t, nothing)
		},
		`topic "app-b-repartition" has no codec`: func(_ *pipeline.Pipeline, a, b *pipeline.Stage) {
			t := pipeline.NewRepartition[string, int64](b, record.String, nil)
			pipeline.NewOutput(a, t)
			pipeline.Handle(b, t, nothing)
		},
		`topic "app-b-repartition": codec "string"`: func(_ *pipeline.Pipeline, a, b *pipeline.Stage) {
			t := pipeline.NewRepartition(b, record.Versioned(2, record.String, record.String, strings.ToUpper), record.Int64)
			pipeline.NewOutput(a, t)
			pipeline.Handle(b, t, nothing)
		},
	} {
		p := pipeline.New("app")
		a, b := p.Stage("a"), p.Stage("b")
		pipeline.Handle(a, topics.New("in-a", record.String, record.Int64), nothing)
		pipeline.Handle(b, topics.New("in-b", record.String, record.Int64), nothing)
		declare(p, a, b)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := perValue("fine").Validate(); err != nil {
		t.Error(err)
	}
}

// An event's redelivery is judged by the first stage's input, and what remembers it may be the second stage.
func TestWindowBehindARepartitionTopicIsHeldAgainstTheInput(t *testing.T) {
	p := perValue("app")
	state.NewDedupe(p.Stages()[1], "seen", time.Hour)
	var got []string
	for _, w := range p.Topics() {
		got = append(got, fmt.Sprintf("%s %s %s %v %s", w.Role, w.Stage, w.Name, w.Writers, w.Window))
	}
	want := []string{
		"input first clicks [] 1h0m0s", "state first app-first-state [] 0s", "dead letters first app-dead-letters [] 0s",
		"repartition second app-second-repartition [first] 0s", "output second totals [] 0s", "state second app-second-state [] 0s", "dead letters second app-dead-letters [] 0s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The reader's partitioner decides, because its other inputs were placed by it.
func TestRepartitionTopicIsPlacedByItsReadersPartitioner(t *testing.T) {
	p := perValue("app")
	p.Stages()[0].PartitionedBy(pipeline.CRC32)
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	d := pipelinetest.New(t, p, 8)
	for i := range int64(40) {
		pipelinetest.Send(d, clicks, fmt.Sprint("k", i), i%10)
	}
	if got := pipelinetest.Read(d, totals); len(got) != 40 {
		t.Errorf("%d of 40 counts: the others were on a wrong partition", len(got))
	}
	for _, r := range pipelinetest.ReadRaw(d, topics.Repartition("app", "second")) {
		if want := pipeline.Murmur2.Partition(r.Key, 8); r.Partition != want {
			t.Errorf("%s is in partition %d, want %d", r.Key, r.Partition, want)
		}
	}
}

// An older program beside a newer one must not throw away what that one sent.
func TestRecordOfANewerVersionInARepartitionTopicStopsTheTask(t *testing.T) {
	build := func(codec record.Codec[string]) *pipeline.Pipeline {
		p := pipeline.New("app")
		s := p.Stage("s")
		s.OnError(pipeline.ToDeadLetters)
		hop := pipeline.NewRepartition(s, record.String, codec)
		pipeline.NewOutput(s, hop)
		nothing := func(*pipeline.Ctx, pipeline.Record[string, string]) error { return nil }
		pipeline.Handle(s, hop, nothing)
		pipeline.Handle(s, topics.New("in", record.String, codec), nothing)
		return p
	}
	v2 := record.Versioned(2, record.JSON[string](), record.JSON[string](), strings.ToUpper)
	v3 := record.Versioned(3, record.JSON[string](), v2, strings.ToUpper)
	newer, _ := v3.Append(nil, "x")
	d := pipelinetest.New(t, build(v2), 1)
	err := d.Try(func() { pipelinetest.SendRaw(d, topics.Repartition("app", "s"), []byte("k"), newer, nil, d.Now()) })
	if !errors.Is(err, record.ErrNewerVersion) {
		t.Errorf("got %v, want the task to stop and to say why", err)
	}
	d = pipelinetest.New(t, build(v2), 1)
	pipelinetest.SendRaw(d, "in", []byte("k"), newer, nil, d.Now()) // from outside it is a bad record like any
	if dead := pipelinetest.ReadRaw(d, "app-dead-letters"); len(dead) != 1 || !slices.ContainsFunc(dead[0].Headers, func(h record.Header) bool { return string(h.Value) == "newer_version" }) {
		t.Errorf("dead letters %+v", dead)
	}
}

// startOf returns the log start of each partition of a topic and what the group has committed of it.
func (w *world) startOf(app, topic string) (starts, committed []int64) {
	w.t.Helper()
	adm := kadm.NewClient(w.client)
	listed, err := adm.ListStartOffsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	offsets, err := adm.FetchOffsets(w.t.Context(), app)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range listed.Offsets().Sorted() {
		starts = append(starts, l.At)
		o, _ := offsets.Lookup(topic, l.Partition)
		committed = append(committed, o.At)
	}
	return starts, committed
}

// What is committed goes, and nothing else; a stage that starts under auto.offset.reset=latest misses nothing in flight.
func TestRepartitionTopicIsTrimmedToWhatIsCommitted(t *testing.T) {
	p := perValue("trim")
	w := newWorld(t, p)
	hop := topics.Repartition("trim", "second")
	early := []byte("v7")
	value, _ := record.Int64.Append(nil, 7)
	if err := w.client.ProduceSync(t.Context(), &kgo.Record{Topic: hop, Key: early, Value: value}).FirstErr(); err != nil { // in flight since before the first start
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	running := make(chan struct{}, 1<<10)
	commits, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 2, OffsetReset: pipeline.Latest, RepartitionPurgeInterval: 20 * time.Millisecond,
		Events: pipeline.Events{Restored: func(pipeline.Restore) { running <- struct{}{} }}})
	for range 2 * topics.DefaultPartitions {
		<-running
	}
	w.waitInputs(commits, 1, 20*time.Second)
	w.click(100)
	w.waitInputs(commits, 200, 20*time.Second)
	counts := map[string]int64{}
	for _, r := range w.read("totals", 101) {
		counts[string(r.Key)], _ = record.Int64.Decode(r.Value)
	}
	if counts["v7"] != 1 || counts["v1"] != 100 {
		t.Errorf("counts %v, want the record that was in flight and 100 of v1", counts)
	}
	w.until("the topic is trimmed to what is committed", func() bool {
		starts, committed := w.startOf("trim", hop)
		for i := range starts {
			if starts[i] > max(0, committed[i]) {
				t.Fatalf("partition %d begins at %d, committed is %d", i, starts[i], committed[i])
			}
		}
		return slices.Equal(starts, committed)
	})
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if starts, _ := w.startOf("trim", "clicks"); slices.Max(starts) > 0 {
		t.Error("an input was trimmed")
	}
}

// until polls until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			w.t.Fatalf("not within 20 s: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A topic between two stages has a partition count of its own, which is the second stage's and not the first's.
func TestStageHasTheTasksOfItsInputsNotOfItsOutputs(t *testing.T) {
	p := pipeline.New("counts")
	first, second := p.Stage("first"), p.Stage("second")
	between := topics.New("between", record.String, record.Int64)
	out := pipeline.NewOutput(first, between)
	pipeline.Handle(first, clicks, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error { out.Send(c, r.Key, r.Value); return nil })
	end := pipeline.NewOutput(second, totals)
	pipeline.Handle(second, between, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error { end.Send(c, r.Key, r.Value); return nil })
	w := bareWorld(t)
	if _, err := kadm.NewClient(w.client).CreateTopic(t.Context(), 2, 1, nil, "clicks"); err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(w.client).CreateTopic(t.Context(), 6, 1, nil, "between"); err != nil {
		t.Fatal(err)
	}
	w.apply(p)
	w.click(50)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	commits, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1})
	tasks := w.waitInputs(commits, 100, 20*time.Second)
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	for id := range tasks {
		if limit := map[string]int32{"first": 2, "second": 6}[id.Stage]; id.Partition >= limit {
			t.Errorf("task %s: stage %s has %d", id, id.Stage, limit)
		}
	}
	w.read("totals", 50)
}

// Writer and reader of a repartition topic agree on any partitioner: with another one, keys would go to tasks that do not have
// their state, and no record would look misplaced. Producers place the records of other inputs, so there it shows.
func TestAnotherPartitionerOfARepartitionTopicIsRefused(t *testing.T) {
	text := func(partitioner pipeline.Partitioner, repartitioned bool) string {
		p := pipeline.New("app")
		from, to := p.Stage("from"), p.Stage("to")
		to.PartitionedBy(partitioner)
		if repartitioned {
			pipeline.NewOutput(from, pipeline.NewRepartition(to, record.String, record.Int64))
		}
		return to.Fingerprint(4)
	}
	check := func(was, is string) error { return state.CheckFingerprint(was, is, nil, nil) }
	err := check(text(pipeline.Murmur2, true), text(pipeline.CRC32, true))
	if err == nil || !strings.Contains(err.Error(), `was "partitioner murmur2", is "partitioner crc32"`) || !strings.Contains(err.Error(), "revert") {
		t.Errorf("got %v, want a refusal with both partitioners and the ways out", err)
	}
	for _, c := range [][2]string{
		{text(pipeline.CRC32, true), text(pipeline.CRC32, true)},
		{text(pipeline.CRC32, false), text(pipeline.CRC32, true)},
		{text(pipeline.CRC32, true), text(pipeline.CRC32, false)},
		{text(pipeline.Murmur2, false), text(pipeline.CRC32, false)},
	} {
		if err := check(c[0], c[1]); err != nil {
			t.Errorf("%q after %q: %v", c[1], c[0], err)
		}
	}
}
