package pipelinetest_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

type payment = pipeline.Record[string, int64]

// handler is what a payment's record adds to its output. maker makes one for each process.
type (
	handler func(c *pipeline.Ctx, r payment) string
	maker   func() handler
)

// saying is a handler that says what f returns.
func saying(f func() string) maker {
	return func() handler { return func(*pipeline.Ctx, payment) string { return f() } }
}

// firstSeen remembers something of the first record of each key, outside a store.
func firstSeen() handler {
	first := map[string]int64{}
	return func(_ *pipeline.Ctx, r payment) string {
		if _, known := first[r.Key]; !known {
			first[r.Key] = r.Value
		}
		return fmt.Sprint(first[r.Key])
	}
}

// keysSeen remembers what all tasks of the process saw.
func keysSeen() handler {
	seen := map[string]bool{}
	return func(_ *pipeline.Ctx, r payment) string { seen[r.Key] = true; return fmt.Sprint(len(seen)) }
}

func ofTheProcess() handler {
	n := 0
	return func(*pipeline.Ctx, payment) string { n++; return fmt.Sprint(n) }
}

func bornAt() handler {
	born := time.Now().UnixNano()
	return func(*pipeline.Ctx, payment) string { return fmt.Sprint(born) }
}

func mapOrder() string {
	var keys []string
	for k := range map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6} {
		keys = append(keys, k)
	}
	return strings.Join(keys, "")
}

// Each of these handlers is what a reviewer would send back, and the test says why.
func TestImpureHandlersAreToldSo(t *testing.T) {
	counter := 0 // lives as long as the test binary: a package variable
	const impure = "the handler is impure"
	for name, c := range map[string]struct {
		make  maker
		words []string
	}{
		"wall clock":              {saying(func() string { return time.Now().Format(time.RFC3339Nano) }), []string{impure, "time.Now", "balances/", "first:", "then:"}},
		"random number":           {saying(func() string { return fmt.Sprint(rand.Uint64()) }), []string{impure, "math/rand"}},
		"map order":               {saying(mapOrder), []string{impure, "a map's order"}},
		"package variable":        {saying(func() string { counter++; return fmt.Sprint(counter) }), []string{impure, "a counter"}},
		"variable of the process": {ofTheProcess, []string{impure, "a counter"}},
		// These give the same when a record is handled twice.
		"shared by tasks":   {keysSeen, []string{"the same inputs", "a cache"}},
		"time of the start": {bornAt, []string{"not deterministic", "two undisturbed runs", "first run:", "second run:", "time.Now"}},
		"emptied by a restart": {firstSeen, []string{"keeps something outside its stores", "a restart between two transactions",
			`topic "balances" partition`, "without a restart:", "with restarts:", "put it into a store"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := fails(t, func(tb testing.TB) {
				pipelinetest.Crash(tb, func() *pipeline.Pipeline { return bank(c.make()) }, amounts(30), pipelinetest.CrashConfig{})
			})
			for _, words := range c.words {
				if !strings.Contains(said, words) {
					t.Errorf("it does not say %q but:\n%s", words, said)
				}
			}
		})
	}
}

// What one map decides is not what it says but in which order: the same records, permuted.
func TestOrderOfAMapIsRecognised(t *testing.T) {
	words := topics.New("words", record.String, record.String)
	letters := topics.New("letters", record.String, record.String)
	said := fails(t, func(tb testing.TB) {
		in := &pipelinetest.Inputs{}
		pipelinetest.Put(in, words, "k", "tallystick")
		pipelinetest.Crash(tb, func() *pipeline.Pipeline {
			p := pipeline.New("spelling")
			s := p.Stage("spell")
			out := pipeline.NewOutput(s, letters)
			pipeline.Handle(s, words, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
				set := map[rune]bool{}
				for _, l := range r.Value {
					set[l] = true
				}
				for l := range set {
					out.Send(c, r.Key, string(l))
				}
				return nil
			})
			return p
		}, in, pipelinetest.CrashConfig{})
	})
	if !strings.Contains(said, "range over a map? Sort its keys first") {
		t.Errorf("it says:\n%s", said)
	}
}

// The offset of a record in a topic that the pipeline writes itself tells where its transactions ended.
func TestDependenceOnTransactionsIsToldSo(t *testing.T) {
	said := fails(t, func(tb testing.TB) {
		pipelinetest.Crash(tb, func() *pipeline.Pipeline {
			p := pipeline.New("offsets")
			first, second := p.Stage("first"), p.Stage("second")
			middle := topics.New("middle", record.String, record.Int64)
			forward := pipeline.NewOutput(first, middle)
			pipeline.Handle(first, payments, func(c *pipeline.Ctx, r payment) error {
				forward.Send(c, r.Key, r.Value)
				return nil
			})
			out := pipeline.NewOutput(second, balances)
			pipeline.Handle(second, middle, func(c *pipeline.Ctx, r payment) error {
				out.Send(c, r.Key, fmt.Sprint(c.Source().Offset))
				return nil
			})
			return p
		}, amounts(10), pipelinetest.CrashConfig{Partitions: 1})
	})
	for _, words := range []string{"depends on where transactions end", `topic "balances" partition 0, record 1 (10 records expected, 10 there)`, "at once:", "one by one:"} {
		if !strings.Contains(said, words) {
			t.Errorf("it does not say %q but:\n%s", words, said)
		}
	}
}
