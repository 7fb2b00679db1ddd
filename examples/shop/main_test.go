package main

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/devbroker"
)

// TestTheProgramRunsOnABroker makes the topics and runs the pipeline as main does.
func TestTheProgramRunsOnABroker(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	p := totalPerCustomer("shop")
	if err := createTopics(t.Context(), broker.Addrs(), p); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.ConsumeTopics("totals"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, value := range []string{`{"id":"o-1","item":"kettle","amount":4000}`, `{"id":"o-1","item":"kettle","amount":4000}`, `{"id":"o-2","item":"teapot","amount":200}`} {
		client.Produce(t.Context(), &kgo.Record{Topic: "orders", Key: []byte("priya"), Value: []byte(value)}, nil)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- process(ctx, broker.Addrs(), p) }()
	patience, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []string
	for len(got) < 2 && patience.Err() == nil {
		client.PollFetches(patience).EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(got) != 2 || got[1] != `{"orders":2,"amount":4200}` {
		t.Errorf("totals %q", got)
	}
}
