package main

import (
	"errors"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// Order is one order as the website sends it; the key of its record is the customer.
type Order struct {
	ID     string `json:"id"`
	Item   string `json:"item"`
	Amount int64  `json:"amount"` // paise
}

// Total is what a customer has ordered so far.
type Total struct {
	Orders int64 `json:"orders"`
	Amount int64 `json:"amount"` // paise
}

var (
	orders = topics.New("orders", record.String, record.JSON[Order]())
	totals = topics.New("totals", record.String, record.JSON[Total]())
)

// twoWeeks is longer than an order can come again: Kafka's default retention and segment time, a week each.
const twoWeeks = 14 * 24 * time.Hour

var (
	errAmount   = errors.New("the amount is not positive: correct it, and send the order under a new id")
	errConflict = errors.New("the id was used for another amount: find out which is right, and send that under a new id")
	errTooOld   = errors.New("the order is older than the dedupe window: it may have been counted; look at the total first")
)

// totalPerCustomer counts each order once, whatever the website repeats.
func totalPerCustomer(app string) *pipeline.Pipeline {
	p := pipeline.New(app)
	s := p.Stage("total")
	seen := state.NewDedupe(s, "seen", twoWeeks)
	rows := state.NewTable(s, "totals", record.String, record.JSON[Total]())
	out := pipeline.NewOutput(s, totals)

	pipeline.Handle(s, orders, func(c *pipeline.Ctx, r pipeline.Record[string, Order]) error {
		if r.Value.Amount <= 0 {
			return pipeline.DeadLetter("bad_amount", errAmount)
		}
		content := state.Fingerprint{}.Int64(r.Value.Amount)
		switch seen.Check(c, r.Value.ID, r.Time, content) {
		case state.Duplicate:
			return nil
		case state.Conflict:
			return pipeline.DeadLetter("conflict", errConflict)
		case state.Expired:
			return pipeline.DeadLetter("outside_dedupe_window", errTooOld)
		}
		total, _ := rows.Get(c, r.Key)
		total.Orders++
		total.Amount += r.Value.Amount
		rows.Put(c, r.Key, total)
		out.Send(c, r.Key, total)
		return nil
	})
	return p
}
