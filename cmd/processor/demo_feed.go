package main

import (
	"context"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/verify"
	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/ledger/topology"
)

// demoFeeder writes the demo's events and counts what a correct ledger must make of them.
type demoFeeder struct {
	client    *kgo.Client
	generator *generate.Generator
	expected  map[generate.Class]int64
	fed       int
}

func newDemoFeeder(client *kgo.Client, o demoOptions) (*demoFeeder, error) {
	g, err := generate.New(generate.Config{
		Events: o.events, Accounts: 50, Seed: o.seed,
		Duplicates: 0.05, Conflicts: 0.01, Malformed: 0.03, Refused: 0.05,
	})
	if err != nil {
		return nil, err
	}
	return &demoFeeder{client: client, generator: g, expected: map[generate.Class]int64{}}, nil
}

// feed writes the next n events and waits until the broker has them.
func (f *demoFeeder) feed(ctx context.Context, n int) error {
	var batch []*kgo.Record
	for len(batch) < n {
		r, ok := f.generator.Next()
		if !ok {
			break
		}
		f.expected[r.Class]++
		batch = append(batch, inputRecord(r))
	}
	f.fed += len(batch)
	if err := f.client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		return fmt.Errorf("feed %s: %w", topology.Credits.Name, err)
	}
	return nil
}

// outcomes sums the expectations of one outcome.
func (f *demoFeeder) outcomes(o ledger.Outcome) (n int64) {
	for class, count := range f.expected {
		if class.Outcome == o {
			n += count
		}
	}
	return n
}

// agrees compares what the events were made to become with what the checker found, reason by reason.
func (f *demoFeeder) agrees(r verify.Report) bool {
	rejected, letters := map[string]int64{}, map[string]int64{}
	for class, n := range f.expected {
		switch class.Outcome {
		case ledger.Rejected:
			rejected[string(class.Reason)] += n
		case ledger.DeadLettered:
			letters[string(class.Reason)] += n
		}
	}
	return r.Inputs == int64(f.fed) && r.Applied == f.outcomes(ledger.Applied) && r.Duplicates == f.outcomes(ledger.Passed) &&
		maps.Equal(r.Rejected, rejected) && maps.Equal(r.DeadLetters, letters)
}

func inputRecord(r generate.Record) *kgo.Record {
	out := &kgo.Record{Topic: topology.Credits.Name, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}
