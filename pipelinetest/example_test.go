package pipelinetest_test

import (
	"fmt"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// A running total that survives a crash. A test passes its *testing.T instead of nil.
func Example() {
	amounts := topics.New("amounts", record.String, record.Int64)
	totals := topics.New("totals", record.String, record.Int64)

	p := pipeline.New("totals-app")
	s := p.Stage("total")
	sums := state.NewTable(s, "sums", record.String, record.Int64)
	out := pipeline.NewOutput(s, totals)
	pipeline.Handle(s, amounts, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		sum, _ := sums.Get(c, r.Key)
		sums.Put(c, r.Key, sum+r.Value)
		out.Send(c, r.Key, sum+r.Value)
		return nil
	})

	d := pipelinetest.New(nil, p, 4)
	pipelinetest.Send(d, amounts, "priya", 40)
	d.Restart()
	d.Abort(1)
	pipelinetest.Send(d, amounts, "priya", 2)
	for _, r := range pipelinetest.Read(d, totals) {
		fmt.Println(r.Key, r.Value)
	}
	committed, _ := sums.Get(d.Committed("total", "priya"), "priya")
	fmt.Println("committed", committed)
	// Output:
	// priya 40
	// priya 42
	// committed 42
}

// A pipeline that leaves the same whatever happens to its process. A test passes its *testing.T instead of nil.
func ExampleCrash() {
	amounts := topics.New("amounts", record.String, record.Int64)
	totals := topics.New("totals", record.String, record.Int64)

	build := func() *pipeline.Pipeline { // called for each process: it makes everything anew that the handler uses
		p := pipeline.New("totals-app")
		s := p.Stage("total")
		sums := state.NewTable(s, "sums", record.String, record.Int64)
		out := pipeline.NewOutput(s, totals)
		pipeline.Handle(s, amounts, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
			sum, _ := sums.Get(c, r.Key)
			sums.Put(c, r.Key, sum+r.Value)
			out.Send(c, r.Key, sum+r.Value)
			return nil
		})
		return p
	}

	in := &pipelinetest.Inputs{}
	for i := range 12 {
		pipelinetest.Put(in, amounts, fmt.Sprint("account-", i%3), int64(i))
	}
	pipelinetest.Crash(nil, build, in, pipelinetest.CrashConfig{Partitions: 1})
	fmt.Println("the same after every crash")
	// Output: the same after every crash
}
