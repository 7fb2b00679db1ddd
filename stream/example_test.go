package stream_test

import (
	"fmt"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/stream"
	"github.com/tallystick/tallystick/topics"
)

// Click is a visit of a page, in a topic whose key is the user.
type Click struct {
	Page string `json:"page"`
}

var (
	clicks = topics.New("clicks", record.String, record.JSON[Click]())
	hits   = topics.New("hits", record.String, record.Int64)
)

// hitsPerPage counts clicks by page: they come by user, so that they change tasks on the way.
func hitsPerPage(app string) *pipeline.Pipeline {
	p := pipeline.New(app)
	named := stream.From(p.Stage("clicks"), clicks).
		Filter(func(r pipeline.Record[string, Click]) bool { return r.Value.Page != "" })
	perPage := stream.GroupBy(named, p.Stage("by-page"), record.String, record.JSON[Click](),
		func(r pipeline.Record[string, Click]) string { return r.Value.Page })
	stream.Count(perPage, "hits").To(hits)
	return p
}

// Count clicks by page, where the topic's key is the user.
func ExampleCount() {
	p := hitsPerPage("web")
	d := pipelinetest.New(nil, p, 4) // a test passes its *testing.T
	pipelinetest.Send(d, clicks, "priya", Click{"/home"})
	pipelinetest.Send(d, clicks, "ravi", Click{"/home"})
	d.Restart() // as after a crash
	pipelinetest.Send(d, clicks, "priya", Click{"/help"})
	pipelinetest.Send(d, clicks, "meera", Click{"/home"})
	for _, r := range pipelinetest.Read(d, hits) {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// /home 1
	// /home 2
	// /help 1
	// /home 3
}

// The records of the next example: orders by customer, and what is known of each customer.
type (
	Order struct {
		Item string `json:"item"`
	}
	Customer struct {
		City string `json:"city"`
	}
	Shipment struct {
		Item string `json:"item"`
		City string `json:"city"`
	}
)

var (
	orders    = topics.New("orders", record.String, record.JSON[Order]())
	customers = topics.New("customers", record.String, record.JSON[Customer]())
	shipments = topics.New("shipments", record.String, record.JSON[Shipment]())
)

// shipping adds its customer's city to each order. An order of nobody known is a dead letter.
func shipping(app string) *pipeline.Pipeline {
	p := pipeline.New(app)
	s := p.Stage("ship")
	known := stream.TableOf(s, "customers", customers) // before the stream: a change comes before an order of the same time
	stream.LeftJoin(stream.From(s, orders), known, ship).To(shipments)
	return p
}

func ship(r pipeline.Record[string, Order], c record.Optional[Customer]) (Shipment, error) {
	if !c.Set {
		return Shipment{}, pipeline.DeadLetter("unknown_customer", nil)
	}
	return Shipment{r.Value.Item, c.Value.City}, nil
}

// Enrich each order from a table of customers.
func ExampleLeftJoin() {
	d := pipelinetest.New(nil, shipping("shop"), 4)
	pipelinetest.Send(d, customers, "priya", Customer{"Pune"})
	pipelinetest.Send(d, orders, "priya", Order{"kettle"})
	pipelinetest.Send(d, customers, "priya", Customer{"Delhi"})
	pipelinetest.Send(d, orders, "priya", Order{"teapot"})
	pipelinetest.Send(d, orders, "ravi", Order{"spoon"})
	for _, r := range pipelinetest.Read(d, shipments) {
		fmt.Println(r.Key, r.Value.Item, r.Value.City)
	}
	fmt.Println("dead letters:", len(pipelinetest.ReadRaw(d, "shop-dead-letters")))
	// Output:
	// priya kettle Pune
	// priya teapot Delhi
	// dead letters: 1
}
