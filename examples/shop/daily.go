package main

import (
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

var days = topics.New("days", record.String, record.JSON[Total]())

// totalPerDay keeps the total of each customer's day, and sends it when the day is over.
func totalPerDay(app string) *pipeline.Pipeline {
	p := pipeline.New(app)
	s := p.Stage("day")
	today := state.NewTable(s, "today", record.String, record.JSON[Total]())
	out := pipeline.NewOutput(s, days)

	pipeline.Handle(s, orders, func(c *pipeline.Ctx, r pipeline.Record[string, Order]) error {
		total, _ := today.Get(c, r.Key)
		today.Put(c, r.Key, Total{total.Orders + 1, total.Amount + r.Value.Amount})
		return nil
	})
	s.Every(24*time.Hour, func(c *pipeline.Ctx, midnight time.Time) error {
		for customer, total := range today.All(c) {
			out.Send(c, customer, total)
			today.Delete(c, customer)
		}
		return nil
	})
	return p
}
