package pipeline_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// changed is the world of a change.
type changed struct {
	*world
	keys []string
}

func (w *changed) send(topic string, value int64) {
	w.t.Helper()
	v, _ := record.Int64.Append(nil, value)
	for _, key := range w.keys {
		if err := w.client.ProduceSync(w.t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: v}).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// addPartitions gives topics more partitions, as someone with kafka-topics.sh would.
func (w *changed) addPartitions(names ...string) {
	w.t.Helper()
	got, err := kadm.NewClient(w.client).UpdatePartitions(w.t.Context(), 6, names...)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// moveOffsets commits offsets for a group that nobody is in, as a tool would.
func (w *changed) moveOffsets(by int64) {
	w.t.Helper()
	adm := kadm.NewClient(w.client)
	if _, err := adm.LeaveGroup(w.t.Context(), kadm.LeaveGroup("change").InstanceIDs("one-0")); err != nil {
		w.t.Fatal(err)
	}
	offsets, err := adm.FetchOffsets(w.t.Context(), "change")
	if err != nil {
		w.t.Fatal(err)
	}
	moved := kadm.Offsets{}
	offsets.Each(func(o kadm.OffsetResponse) { moved.AddOffset(o.Topic, o.Partition, o.At+by, -1) })
	if err := adm.CommitAllOffsets(w.t.Context(), "change", moved); err != nil {
		w.t.Fatal(err)
	}
}

func (w *changed) dropState() {
	w.t.Helper()
	adm := kadm.NewClient(w.client)
	if _, err := adm.DeleteTopics(w.t.Context(), "change-s-state"); err != nil {
		w.t.Fatal(err)
	}
	w.apply(release{table: "sums", key: record.String, value: firstForm{record.JSON[sumV1]()}}.pipeline())
}

// make makes the topics of a release that are not there.
func (w *changed) make(r release) {
	w.t.Helper()
	if _, err := topics.NewAdmin(w.client).Apply(w.t.Context(), r.pipeline().Topics(), deployRules()); err != nil {
		w.t.Fatal(err)
	}
}

func deployRules() topics.Rules { return topics.Rules{RedeliveryHorizon: time.Second} }

// start runs a release under the one name that all of them have.
func (w *changed) start(r release, cable *cable, events pipeline.Events) (stop func(), wait func() error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	_, wait = w.run(ctx, r.pipeline(), pipeline.Config{
		StateDir: w.t.TempDir(), InstanceID: "one", Workers: 1, Client: []kgo.Opt{kgo.Dialer(cable.dial)}, Events: events, TopicRules: deployRules(), CommitInterval: 10 * time.Millisecond,
	})
	return cancel, wait
}

// untilKilled runs a release until it has committed what is there, and cuts its cable.
func (w *changed) untilKilled(r release) {
	w.t.Helper()
	cable := &cable{}
	stop, wait := w.start(r, cable, pipeline.Events{})
	w.until("the first release has committed everything", func() bool { return w.lag() == 0 })
	cable.sever()
	stop()
	_ = wait() // it cannot reach a broker any more
}

// lag is how far the group is behind the end of clicks.
func (w *changed) lag() (lag int64) {
	adm := kadm.NewClient(w.client)
	ends, err := adm.ListEndOffsets(w.t.Context(), "clicks")
	if err != nil {
		w.t.Fatal(err)
	}
	offsets, err := adm.FetchOffsets(w.t.Context(), "change")
	if err != nil {
		return 1
	}
	ends.Each(func(end kadm.ListedOffset) {
		o, ok := offsets.Lookup("clicks", end.Partition)
		if !ok {
			o.At = -1
		}
		lag += end.Offset - o.At
	})
	return lag
}

// goesOn runs a release until it has committed everything, and looks at its last total of each key.
func (w *changed) goesOn(r release, want map[string]int64) {
	w.t.Helper()
	stop, wait := w.start(r, &cable{}, pipeline.Events{})
	w.until("the release has committed everything", func() bool { return w.lag() == 0 })
	stop()
	if err := wait(); err != nil {
		w.t.Fatal(err)
	}
	if got := w.lastTotals(); !maps.Equal(got, want) {
		w.t.Errorf("totals %v, want %v", got, want)
	}
}

// refuses runs a release that must stop each task whose state is not its own, and say why.
func (w *changed) refuses(r release, says []string) {
	w.t.Helper()
	was := w.lastTotals()
	stopped := make(chan error, 64)
	stop, wait := w.start(r, &cable{}, pipeline.Events{
		Stopped: func(_ pipeline.TaskID, err error) { stopped <- err },
		Committed: func(x pipeline.Transaction) {
			if x.Inputs > 0 {
				stopped <- fmt.Errorf("it committed %d inputs", x.Inputs)
			}
		},
	})
	ended := make(chan error, 1)
	go func() { ended <- wait() }()
	var err error
	select {
	case err = <-stopped:
		time.AfterFunc(300*time.Millisecond, stop)
		if end := <-ended; err == nil {
			err = end
		}
	case err = <-ended:
		stop()
	case <-time.After(30 * time.Second):
		w.t.Fatal("it runs, and says nothing")
	}
	for _, want := range says {
		if err == nil || !strings.Contains(err.Error(), want) {
			w.t.Errorf("got %v\nwant a refusal that says %q", err, want)
		}
	}
	if got := w.lastTotals(); !maps.Equal(got, was) {
		w.t.Errorf("totals went from %v to %v", was, got)
	}
}

// lastTotals reads the last committed total of each key.
func (w *changed) lastTotals() map[string]int64 {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	last := map[string]int64{}
	for _, r := range w.committed(ctx, "totals") {
		last[string(r.Key)], _ = record.Int64.Decode(r.Value)
	}
	return last
}

// committed reads a topic to its end.
func (w *world) committed(ctx context.Context, topic string) (records []*kgo.Record) {
	w.t.Helper()
	ends, err := kadm.NewClient(w.client).ListEndOffsets(ctx, topic)
	if err != nil {
		w.t.Fatal(err)
	}
	from, left := map[string]map[int32]kgo.Offset{topic: {}}, map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			from[topic][end.Partition], left[end.Partition] = kgo.NewOffset().AtStart(), end.Offset
		}
	})
	if len(left) == 0 {
		return nil
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Addrs()...), kgo.ConsumePartitions(from), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	for len(left) > 0 {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Offset == left[r.Partition]-1 {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
		if ctx.Err() != nil {
			w.t.Fatalf("%s: not read to its end: %v", topic, slices.Sorted(maps.Keys(left)))
		}
	}
	return records
}
