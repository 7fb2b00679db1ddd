package pipelinetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

var (
	payments = topics.New("payments", record.String, record.Int64) // account → cents
	balances = topics.New("balances", record.String, record.String)
)

// bank is a small ledger: a balance and a version per account, duplicates dropped, negative amounts refused.
func bank(extra handler) *pipeline.Pipeline {
	p := pipeline.New("bank")
	s := p.Stage("post")
	inbox := state.NewDedupe(s, "inbox", time.Hour)
	sums := state.NewTable(s, "sums", record.String, record.Int64)
	out := pipeline.NewOutput(s, balances)
	pipeline.Handle(s, payments, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		if r.Value < 0 {
			return pipeline.DeadLetter("negative", fmt.Errorf("%d cents", r.Value))
		}
		if inbox.Check(c, fmt.Sprint(r.Key, r.Value), r.Time, state.Fingerprint{}) != state.New {
			return nil
		}
		sum, _ := sums.Get(c, r.Key)
		sums.Put(c, r.Key, sum+r.Value)
		out.Send(c, r.Key, fmt.Sprint(sum+r.Value, extra(c, r)))
		return nil
	})
	return p
}

func none(*pipeline.Ctx, payment) string { return "" }

func amounts(n int) *pipelinetest.Inputs {
	in := &pipelinetest.Inputs{}
	for i := range n {
		amount := int64(i / 2)
		if i%7 == 3 {
			amount = -1
		}
		pipelinetest.Put(in, payments, fmt.Sprint("account-", i%5), amount)
	}
	return in
}

func TestLedgerPassesEveryCrashPoint(t *testing.T) {
	pipelinetest.Crash(t, func() *pipeline.Pipeline { return bank(none) }, amounts(30), pipelinetest.CrashConfig{})
}

// A re-key makes tasks of one stage write what another reads, in another order each time: that is no difference.
func TestPipelineWithARekeyPasses(t *testing.T) {
	in := &pipelinetest.Inputs{}
	for i := range 24 {
		pipelinetest.Put(in, clicks, fmt.Sprint("user-", i%7), fmt.Sprint("/page-", i%4))
	}
	for _, partitions := range []int32{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			pipelinetest.Crash(t, func() *pipeline.Pipeline { return newSite().Pipeline }, in, pipelinetest.CrashConfig{Partitions: partitions})
		})
	}
}

// Two inputs are joined in the order in which they were put.
func TestJoinPasses(t *testing.T) {
	owners := topics.New("owners", record.String, record.String)
	build := func() *pipeline.Pipeline {
		p := pipeline.New("join")
		s := p.Stage("join")
		names := state.NewTable(s, "names", record.String, record.String)
		out := pipeline.NewOutput(s, balances)
		pipeline.Handle(s, owners, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
			names.Put(c, r.Key, r.Value)
			return nil
		})
		pipeline.Handle(s, payments, func(c *pipeline.Ctx, r payment) error {
			name, _ := names.Get(c, r.Key)
			out.Send(c, r.Key, fmt.Sprint(name, " ", r.Value))
			return nil
		})
		return p
	}
	in := &pipelinetest.Inputs{}
	for i := range 16 {
		key := fmt.Sprint("account-", i%3)
		if i%4 == 0 {
			pipelinetest.Put(in, owners, key, fmt.Sprint("owner-", i))
		}
		pipelinetest.Put(in, payments, key, int64(i))
	}
	pipelinetest.Crash(t, build, in, pipelinetest.CrashConfig{})
}
