package pipeline_test

import (
	"context"
	"testing"
	"time"

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
	p := totalPerKey("totals-app")
	w := newWorld(t, p)
	const rounds, keys = 100, 50
	for range rounds {
		w.click(keys)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	commits, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 2})
	w.waitInputs(commits, rounds*keys, 30*time.Second)
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	w.checkTotals(rounds * keys)
}
