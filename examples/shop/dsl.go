package main

import (
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/stream"
)

// totalInWords is totalPerCustomer in operators.
func totalInWords(app string) *pipeline.Pipeline {
	p := pipeline.New(app)
	once := stream.From(p.Stage("total"), orders).
		Deduplicate("seen", twoWeeks, func(r pipeline.Record[string, Order]) string { return r.Value.ID })
	stream.Aggregate(once, "totals", record.JSON[Total](), addOrder).To(totals)
	return p
}

func addOrder(t Total, r pipeline.Record[string, Order]) (Total, error) {
	if r.Value.Amount <= 0 {
		return t, pipeline.DeadLetter("bad_amount", errAmount)
	}
	return Total{t.Orders + 1, t.Amount + r.Value.Amount}, nil
}
