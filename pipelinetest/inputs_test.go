package pipelinetest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

var (
	titles = topics.New("titles", record.String, record.String) // page → title
	visits = topics.New("visits", record.String, record.String) // page → user
	seen   = topics.New("seen", record.String, record.String)   // page → title and user
)

// reading joins visits with titles: a table and a stream in one stage, with a counter that both handlers move.
func reading() (*pipeline.Pipeline, state.Table[string, int64]) {
	p := pipeline.New("reading")
	s := p.Stage("join")
	table := state.NewTable(s, "titles", record.String, record.String)
	count := state.NewTable(s, "count", record.String, record.Int64)
	out := pipeline.NewOutput(s, seen)
	add := func(c *pipeline.Ctx, page string) {
		n, _ := count.Get(c, page)
		count.Put(c, page, n+1)
	}
	pipeline.Handle(s, titles, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		table.Put(c, r.Key, r.Value)
		add(c, r.Key)
		return nil
	})
	pipeline.Handle(s, visits, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		title, _ := table.Get(c, r.Key)
		out.Send(c, r.Key, title+" "+r.Value)
		add(c, r.Key)
		return nil
	})
	return p, count
}

// What is sent for one transaction comes in the order of their times, whatever they were sent in; of equal times the table's first.
func TestInputsOfOneTransactionAreTakenByTime(t *testing.T) {
	p, count := reading()
	d := pipelinetest.New(t, p, 3)
	at := func(s int) time.Time { return d.Now().Add(time.Duration(s) * time.Second) }
	d.Abort(1)
	d.Transaction(func() {
		pipelinetest.SendAt(d, visits, "/a", "ann", at(1))
		pipelinetest.SendAt(d, visits, "/a", "bob", at(2))
		pipelinetest.SendAt(d, visits, "/a", "cat", at(5))
		pipelinetest.SendAt(d, titles, "/a", "Old", at(2))
		pipelinetest.SendAt(d, titles, "/a", "New", at(4))
	})
	d.Restart()
	pipelinetest.Send(d, visits, "/a", "dan")
	pipelinetest.Send(d, titles, "/a", "Newest")
	pipelinetest.Send(d, visits, "/a", "eve")
	var got []string
	for _, r := range pipelinetest.Read(d, seen) {
		got = append(got, r.Value)
	}
	if want := []string{" ann", "Old bob", "New cat", "New dan", "Newest eve"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n, _ := count.Get(d.Committed("join", "/a"), "/a"); n != 8 {
		t.Errorf("both handlers counted %d, want 8", n)
	}
}
