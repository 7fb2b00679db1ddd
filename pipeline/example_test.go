package pipeline_test

import (
	"fmt"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// Order is what the examples handle.
type Order struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

// Pass every order on once, whatever the producer repeats.
func Example_deduplicate() {
	orders := topics.New("orders", record.String, record.JSON[Order]())
	unique := topics.New("unique-orders", record.String, record.JSON[Order]())

	p := pipeline.New("once")
	s := p.Stage("dedupe")
	seen := state.NewDedupe(s, "seen", 24*time.Hour)
	out := pipeline.NewOutput(s, unique)
	pipeline.Handle(s, orders, func(c *pipeline.Ctx, r pipeline.Record[string, Order]) error {
		content := state.Fingerprint{}.Int64(r.Value.Amount)
		if seen.Check(c, r.Value.ID, r.Time, content) == state.New {
			out.Send(c, r.Key, r.Value)
		}
		return nil
	})

	d := pipelinetest.New(nil, p, 4) // a test passes its *testing.T
	pipelinetest.Send(d, orders, "priya", Order{"o-1", 40})
	pipelinetest.Send(d, orders, "priya", Order{"o-1", 40})
	pipelinetest.Send(d, orders, "priya", Order{"o-2", 2})
	for _, r := range pipelinetest.Read(d, unique) {
		fmt.Println(r.Key, r.Value.ID, r.Value.Amount)
	}
	// Output:
	// priya o-1 40
	// priya o-2 2
}

// Keep a running total of each customer's orders.
func Example_runningTotal() {
	orders := topics.New("orders", record.String, record.JSON[Order]())
	totals := topics.New("totals", record.String, record.Int64)

	p := pipeline.New("totals")
	s := p.Stage("sum")
	sums := state.NewTable(s, "sums", record.String, record.Int64)
	out := pipeline.NewOutput(s, totals)
	pipeline.Handle(s, orders, func(c *pipeline.Ctx, r pipeline.Record[string, Order]) error {
		sum, _ := sums.Get(c, r.Key)
		sums.Put(c, r.Key, sum+r.Value.Amount)
		out.Send(c, r.Key, sum+r.Value.Amount)
		return nil
	})

	d := pipelinetest.New(nil, p, 4)
	pipelinetest.Send(d, orders, "priya", Order{"o-1", 40})
	pipelinetest.Send(d, orders, "ravi", Order{"o-2", 7})
	pipelinetest.Send(d, orders, "priya", Order{"o-3", 2})
	for _, r := range pipelinetest.Read(d, totals) {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// priya 40
	// ravi 7
	// priya 42
}
