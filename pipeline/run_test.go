package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

var (
	clicks = topics.New("clicks", record.String, record.Int64)
	totals = topics.New("totals", record.String, record.Int64)
)

// totalPerKey is the smallest stateful pipeline: a running total per key.
func totalPerKey(app string) *pipeline.Pipeline {
	p := pipeline.New(app)
	s := p.Stage("sum")
	sums := state.NewTable(s, "sums", record.String, record.Int64)
	out := pipeline.NewOutput(s, totals)
	pipeline.Handle(s, clicks, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		sum, _ := sums.Get(c, r.Key)
		sums.Put(c, r.Key, sum+r.Value)
		out.Send(c, r.Key, sum+r.Value)
		return nil
	})
	return p
}

func TestRunTotalsEveryRecordOnce(t *testing.T) {
	b, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p := totalPerKey("totals-app")
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := topics.NewAdmin(client).Apply(t.Context(), p.Topics(), topics.Rules{}); err != nil {
		t.Fatal(err)
	}
	const n, keys = 10_000, 50
	for i := range n {
		v, _ := record.Int64.Append(nil, 1)
		client.Produce(t.Context(), &kgo.Record{Topic: "clicks", Key: fmt.Appendf(nil, "k%d", i%keys), Value: v}, nil)
	}
	client.Flush(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	cfg := pipeline.Config{Brokers: b.Addrs(), StateDir: t.TempDir(), Workers: 2}
	go func() { done <- pipeline.Run(ctx, cfg, p) }()
	last := map[string]int64{}
	reader, _ := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumeTopics("totals"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer reader.Close()
	deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for got := 0; got < n; {
		fs := reader.PollFetches(deadline)
		if deadline.Err() != nil {
			t.Fatalf("got %d of %d", got, n)
		}
		fs.EachRecord(func(r *kgo.Record) {
			got++
			v, _ := record.Int64.Decode(r.Value)
			if v != last[string(r.Key)]+1 {
				t.Errorf("%s: %d follows %d", r.Key, v, last[string(r.Key)])
			}
			last[string(r.Key)] = v
		})
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
