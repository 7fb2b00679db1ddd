package pipelinetest_test

import (
	"fmt"
	"strings"
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
	t.Parallel()
	pipelinetest.Crash(t, func() *pipeline.Pipeline { return bank(none) }, amounts(30), pipelinetest.CrashConfig{})
}

// A re-key makes tasks of one stage write what another reads, in another order each time: that is no difference.
func TestPipelineWithARekeyPasses(t *testing.T) {
	t.Parallel()
	in := &pipelinetest.Inputs{}
	for i := range 24 {
		pipelinetest.Put(in, clicks, fmt.Sprint("user-", i%7), fmt.Sprint("/page-", i%4))
	}
	pipelinetest.Crash(t, func() *pipeline.Pipeline { return newSite().Pipeline }, in, pipelinetest.CrashConfig{Partitions: 3})
}

// Two inputs are joined in the order in which they were put.
func TestJoinPasses(t *testing.T) {
	t.Parallel()
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

// A re-key through a repartition topic, with a timer behind it, by two workers as well.
func TestRepartitionAndTimerPass(t *testing.T) {
	t.Parallel()
	build := func() *pipeline.Pipeline {
		p := pipeline.New("hits")
		first, count := p.Stage("views"), p.Stage("count")
		pages := pipeline.NewRepartition(count, record.String, record.String)
		forward := pipeline.NewOutput(first, pages)
		pipeline.Handle(first, clicks, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
			forward.Send(c, r.Value, r.Key)
			return nil
		})
		hits := state.NewTable(count, "hits", record.String, record.Int64)
		out := pipeline.NewOutput(count, counted)
		pipeline.Handle(count, pages, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
			n, _ := hits.Get(c, r.Key)
			hits.Put(c, r.Key, n+1)
			return nil
		})
		count.Every(time.Second, func(c *pipeline.Ctx, _ time.Time) error {
			for page, n := range hits.All(c) {
				out.Send(c, page, n)
			}
			return nil
		})
		return p
	}
	in := &pipelinetest.Inputs{}
	for i := range 18 {
		pipelinetest.Put(in, clicks, fmt.Sprint("user-", i%5), fmt.Sprint("/page-", i%3))
		in.Advance(300 * time.Millisecond)
	}
	pipelinetest.Crash(t, build, in, pipelinetest.CrashConfig{Partitions: 1, Seeds: 2})
}

func TestMistakesInACrashTestAreNamed(t *testing.T) {
	build := func() *pipeline.Pipeline { return bank(none) }
	for words, test := range map[string]func(tb testing.TB){
		"no inputs: add some with Put": func(tb testing.TB) {
			pipelinetest.Crash(tb, build, &pipelinetest.Inputs{}, pipelinetest.CrashConfig{})
		},
		`topic "balances" is no input of pipeline "bank"`: func(tb testing.TB) {
			in := &pipelinetest.Inputs{}
			pipelinetest.Put(in, balances, "a", "b")
			pipelinetest.Crash(tb, build, in, pipelinetest.CrashConfig{})
		},
		`has no partition 7: the test runs with 2`: func(tb testing.TB) {
			in := &pipelinetest.Inputs{}
			pipelinetest.PutRawTo(in, "payments", 7, []byte("k"), nil, nil, in.Now())
			pipelinetest.Crash(tb, build, in, pipelinetest.CrashConfig{})
		},
		"use positive numbers": func(tb testing.TB) {
			pipelinetest.Crash(tb, build, amounts(1), pipelinetest.CrashConfig{Seeds: -1})
		},
		"has no stage": func(tb testing.TB) {
			pipelinetest.Crash(tb, func() *pipeline.Pipeline { return pipeline.New("empty") }, amounts(1), pipelinetest.CrashConfig{})
		},
		"task post/0 stopped": func(tb testing.TB) {
			pipelinetest.Crash(tb, func() *pipeline.Pipeline {
				return bank(func(*pipeline.Ctx, payment) string { panic("out of order") })
			}, amounts(9), pipelinetest.CrashConfig{Partitions: 1})
		},
	} {
		t.Run(words, func(t *testing.T) {
			if said := fails(t, test); !strings.Contains(said, words) {
				t.Errorf("it says:\n%s", said)
			}
		})
	}
}

// What a stage does with a record of the future, a null key or a wrong partition is the same after each crash, too.
func TestDeadLettersOfEveryKindPass(t *testing.T) {
	t.Parallel()
	in := amounts(4)
	value, _ := record.Int64.Append(nil, 5)
	pipelinetest.PutRaw(in, "payments", nil, value, nil, in.Now())
	pipelinetest.PutRaw(in, "payments", []byte("account-1"), []byte("no number"), []record.Header{{Key: "trace", Value: []byte("x")}}, in.Now())
	pipelinetest.PutRaw(in, "payments", []byte("account-2"), value, nil, in.Now().Add(2*time.Hour))
	wrong := 1 - pipeline.Murmur2.Partition([]byte("account-3"), 2)
	pipelinetest.PutRawTo(in, "payments", wrong, []byte("account-3"), value, nil, in.Now())
	pipelinetest.Put(in, payments, "account-1", 9)
	pipelinetest.Crash(t, func() *pipeline.Pipeline { return bank(none) }, in, pipelinetest.CrashConfig{})
}
