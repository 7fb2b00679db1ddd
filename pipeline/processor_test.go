package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// Whoever gave the instance its name starts it again under it; an unnamed one gives its partitions away at once.
func TestStoppedProcessLeavesTheGroupUnlessItsInstanceIsNamed(t *testing.T) {
	for _, c := range []struct {
		cfg     pipeline.Config
		members int
	}{
		{pipeline.Config{}, 0},
		{pipeline.Config{InstanceID: "bank-1"}, 1},
		{pipeline.Config{InstanceID: "bank-1", LeaveOnStop: true}, 0},
	} {
		p := totalPerKey("leaver")
		w := newWorld(t, p)
		w.click(1)
		ctx, stop := context.WithCancel(t.Context())
		c.cfg.StateDir, c.cfg.Workers = t.TempDir(), 1
		commits, wait := w.run(ctx, p, c.cfg)
		w.waitInputs(commits, 1, 20*time.Second)
		stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		groups, err := kadm.NewClient(w.client).DescribeGroups(t.Context(), "leaver")
		if n := len(groups["leaver"].Members); err != nil || n != c.members {
			t.Errorf("instance %q, leave %v: %d members are left, %v; want %d", c.cfg.InstanceID, c.cfg.LeaveOnStop, n, err, c.members)
		}
	}
}

// setTopic alters a topic's configuration.
func (w *world) setTopic(topic, key, value string) {
	w.t.Helper()
	got, err := kadm.NewClient(w.client).AlterTopicConfigs(w.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err != nil || got[0].Err != nil {
		w.t.Fatal(err, got)
	}
}

func TestRunRefusesWhatThePlanRefuses(t *testing.T) {
	p := totalPerKey("planned")
	w := newWorld(t, p)
	w.setTopic("planned-sum-state", "cleanup.policy", "delete")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir()})
	if err := wait(); err == nil || !strings.Contains(err.Error(), "cleanup.policy") {
		t.Errorf("got %v: retention would delete state", err)
	}
}

// Task i owns partition i of each input, so their counts must be equal.
func TestInputsWithUnequalPartitionCountsAreRefused(t *testing.T) {
	p := totalPerKey("unequal")
	users := topics.New("users", record.String, record.String)
	pipeline.Handle(p.Stages()[0], users, func(*pipeline.Ctx, pipeline.Record[string, string]) error { return nil })
	w := newWorld(t, p)
	adm := kadm.NewClient(w.client)
	if _, err := adm.DeleteTopics(t.Context(), "users"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(t.Context(), 3, 1, nil, "users"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir()})
	if err := wait(); err == nil || !strings.Contains(err.Error(), "users") || !strings.Contains(err.Error(), "3 partitions, stage sum has") || !strings.Contains(err.Error(), "clicks") {
		t.Errorf("got %v, want a refusal that names both inputs and counts", err)
	}
}

func TestDedupeThatMemoryCannotHoldIsRefused(t *testing.T) {
	p := pipeline.New("remember")
	s := p.Stage("all")
	state.NewDedupe(s, "seen", 15*24*time.Hour)
	pipeline.Handle(s, clicks, func(*pipeline.Ctx, pipeline.Record[string, int64]) error { return nil })
	w := newWorld(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir(), ExpectedRate: 1000, MaxStateBytes: 1 << 30})
	if err := wait(); err == nil || !strings.Contains(err.Error(), "a window of 3h8m0s would fit") {
		t.Errorf("got %v, want a refusal that names the window that fits", err)
	}
}

func TestRunReturnsWhatStoppedATask(t *testing.T) {
	p := pipeline.New("stops")
	pipeline.Handle(p.Stage("s"), clicks, func(*pipeline.Ctx, pipeline.Record[string, int64]) error { return errOdd })
	w := newWorld(t, p)
	w.click(1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir(), Events: pipeline.Events{Stopped: func(pipeline.TaskID, error) { stop() }}})
	if err := wait(); !errors.Is(err, errOdd) {
		t.Errorf("got %v, want what stopped the task", err)
	}
}

// read returns n committed records of a topic.
func (w *world) read(topic string, n int) (records []*kgo.Record) {
	w.t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Addrs()...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	for len(records) < n && ctx.Err() == nil {
		records = append(records, reader.PollFetches(ctx).Records()...)
	}
	if len(records) != n {
		w.t.Fatalf("%q has %d records, want %d", topic, len(records), n)
	}
	return records
}

// Outputs carry their input's time and lie where their key belongs in their own topic, whose partition count is its own. A
// value that the topic would refuse fails its input alone, before anything is sent.
func TestOutputsArriveAsSentAndDeadLettersSayWhy(t *testing.T) {
	p := pipeline.New("outputs")
	s := p.Stage("s")
	s.OnError(pipeline.ToDeadLetters)
	out := pipeline.NewOutput(s, topics.New("out", record.String, record.String))
	pipeline.Handle(s, clicks, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		out.Send(c, r.Key, strings.Repeat("x", int(r.Value)))
		return nil
	})
	w := bareWorld(t)
	client := w.client
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 7, 1, nil, "out"); err != nil {
		t.Fatal(err)
	}
	w.apply(p)
	w.setTopic("out", "max.message.bytes", "2000")
	const keys = 20
	at := time.UnixMilli(noon)
	for i := range keys {
		v, _ := record.Int64.Append(nil, int64(i))
		client.Produce(t.Context(), &kgo.Record{Topic: "clicks", Key: fmt.Appendf(nil, "k%d", i), Value: v, Timestamp: at}, nil)
	}
	v, _ := record.Int64.Append(nil, 3000)
	client.Produce(t.Context(), &kgo.Record{Topic: "clicks", Key: []byte("large"), Value: v, Timestamp: at}, nil)
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	aborted := func(_ pipeline.Transaction, err error) { t.Errorf("aborted: %v", err) }
	commits, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1, Events: pipeline.Events{Aborted: aborted}})
	w.waitInputs(commits, keys+1, 20*time.Second)
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.read("out", keys) {
		if want := pipeline.Murmur2.Partition(r.Key, 7); r.Partition != want || !r.Timestamp.Equal(at) {
			t.Errorf("%s is in partition %d at %s, want %d at %s", r.Key, r.Partition, r.Timestamp, want, at)
		}
	}
	dead := w.read("outputs-dead-letters", 1)[0]
	headers := map[string]string{}
	for _, h := range dead.Headers {
		headers[h.Key] = string(h.Value)
	}
	if string(dead.Key) != "large" || headers[pipeline.HeaderReason] != "handler_error" || !strings.Contains(headers[pipeline.HeaderMessage], "max.message.bytes=2000") || time.Since(dead.Timestamp) > time.Hour {
		t.Errorf("dead letter %s at %s with %v: want the large one, written now, with its reason", dead.Key, dead.Timestamp, headers)
	}
}

// A store that cannot be read is never the record's fault: no policy may skip the record for it.
func TestFailedStoreStopsTheTaskUnderAnyPolicy(t *testing.T) {
	s := summing(nil, pipeline.Skip)
	task := pipeline.NewTask(s, 0, 1, brokenBase{state.NewMemory(s.Stores())}, nil)
	if _, err := task.Process(number(0, 1, 2)); err == nil || !strings.Contains(err.Error(), "read: disk") || task.Next("numbers") != 0 {
		t.Errorf("got %v, next %d: want the store's error and the record undone", err, task.Next("numbers"))
	}
}

// brokenBase is a base that cannot be read.
type brokenBase struct{ state.Base }

func (brokenBase) Get([]byte) ([]byte, bool, error) { return nil, false, errors.New("disk") }
