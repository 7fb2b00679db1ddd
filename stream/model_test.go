package stream_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/stream"
)

// The operators that a random pipeline is made of. Each is written twice: with the DSL in build, and in model.apply.
const (
	filter    = "filter"
	mapValues = "map values" // fails on some values
	branch    = "branch"
	merge     = "merge"
	dedupe    = "deduplicate"
	count     = "count"
	total     = "aggregate"
	join      = "join"
	leftJoin  = "left join"
	group     = "group by" // at most one, not the first
)

var errSeven = errors.New("divisible by seven")

// build appends an operator to the stream. store names what it keeps.
func build(s str, operator, store string, table stream.Table[string, int64]) str {
	switch operator {
	case filter:
		return s.Filter(func(r rec) bool { return r.Value%3 != 0 }).Peek(func(rec) {})
	case mapValues:
		return stream.MapValues(s, func(r rec) (int64, error) {
			if r.Value%7 == 0 {
				return 0, errSeven
			}
			return r.Value + 1, nil
		})
	case branch:
		odd, even := s.Branch(odd)
		return stream.MapValues(even, func(r rec) (int64, error) { return r.Value / 2, nil }).Merge(odd)
	case merge:
		return s.Merge(stream.MapValues(s, add(100)))
	case dedupe:
		return s.Deduplicate(store, time.Hour, func(r rec) string { return fmt.Sprint(r.Key, "/", r.Value%5) })
	case count:
		return stream.Count(s, store)
	case total:
		return stream.Aggregate(s, store, record.Int64, func(sum int64, r rec) (int64, error) { return sum + r.Value, nil })
	case join:
		return stream.Join(s, table, func(r rec, row int64) (int64, error) { return r.Value + row, nil })
	case leftJoin:
		return stream.LeftJoin(s, table, func(r rec, row record.Optional[int64]) (int64, error) { return r.Value - row.Value, nil })
	case group:
		return stream.GroupBy(s, s.Stage().Pipeline().Stage("grouped"), record.String, record.Int64, newKey)
	}
	panic(operator)
}

func newKey(r rec) string { return fmt.Sprint("g", r.Value%3) }

// model is the second implementation: lists and one map, no engine.
type model struct {
	operators []string
	kept      map[string]int64 // all state, by operator and key
	out       map[string][]int64
}

type message struct {
	key   string
	value int64
}

// apply returns what an operator makes of a record, or fails.
func (m *model) apply(i int, r message) ([]message, bool) {
	kept, row := fmt.Sprint(i, " ", r.key), "row "+r.key
	switch m.operators[i] {
	case filter:
		if r.value%3 == 0 {
			return nil, true
		}
	case mapValues:
		return []message{{r.key, r.value + 1}}, r.value%7 != 0
	case branch:
		if r.value%2 == 0 {
			r.value /= 2
		}
	case merge:
		return []message{{r.key, r.value + 100}, r}, true
	case dedupe:
		kept += fmt.Sprint(" ", r.value%5)
		if m.kept[kept]++; m.kept[kept] > 1 {
			return nil, true
		}
	case count:
		m.kept[kept]++
		r.value = m.kept[kept]
	case total:
		m.kept[kept] += r.value
		r.value = m.kept[kept]
	case join:
		if _, ok := m.kept[row]; !ok {
			return nil, true
		}
		r.value += m.kept[row]
	case leftJoin:
		r.value -= m.kept[row]
	}
	return []message{r}, true
}

// run takes a record through the operators from i to the end of its stage, each result all the way before the next.
func (m *model) run(i int, r message) (results []message, ok bool) {
	if i == len(m.operators) || m.operators[i] == group {
		return []message{r}, true
	}
	made, ok := m.apply(i, r)
	for j := 0; ok && j < len(made); j++ {
		var more []message
		more, ok = m.run(i+1, made[j])
		results = append(results, more...)
	}
	return results, ok
}

// send is a record in each stage: what one that fails has kept is forgotten.
func (m *model) send(from int, r message) {
	before := maps.Clone(m.kept)
	results, ok := m.run(from, r)
	if !ok {
		m.kept = before
		return
	}
	next := slices.Index(m.operators, group) + 1
	for _, r := range results {
		if next > from {
			m.send(next, message{fmt.Sprint("g", r.value%3), r.value})
		} else {
			m.out[r.key] = append(m.out[r.key], r.value)
		}
	}
}

// TestRandomPipelinesDoWhatTheModelDoes compares a random chain of operators, under aborts and restarts, with the model.
func TestRandomPipelinesDoWhatTheModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{kept: map[string]int64{}, out: map[string][]int64{}}
		p := pipeline.New("app")
		stage := p.Stage("first")
		stage.OnError(pipeline.Skip)
		table := stream.TableOf(stage, "rows", rows)
		s := stream.From(stage, in)
		some := []string{filter, mapValues, branch, merge, dedupe, count, total, join, leftJoin, group}
		for i := range rapid.IntRange(1, 6).Draw(t, "operators") {
			operator := rapid.SampledFrom(some).Draw(t, "operator")
			if operator == group { // behind it the table is another stage's
				some = []string{filter, mapValues, branch, merge, dedupe, count, total}
			}
			m.operators = append(m.operators, operator)
			s = build(s, operator, fmt.Sprint("store-", i), table)
			s.Stage().OnError(pipeline.Skip)
		}
		s.To(out)
		d := pipelinetest.New(nil, p, int32(rapid.IntRange(1, 3).Draw(t, "partitions")))
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				r := message{key(t), rapid.Int64Range(0, 60).Draw(t, "value")}
				pipelinetest.Send(d, in, r.key, r.value)
				m.send(0, r)
			},
			"change a row": func(t *rapid.T) {
				k, row := key(t), rapid.Int64Range(0, 9).Draw(t, "row")
				pipelinetest.Send(d, rows, k, row)
				m.kept["row "+k] = row
			},
			"delete a row": func(t *rapid.T) {
				k := key(t)
				pipelinetest.Send(d, none, k, record.Optional[int64]{})
				delete(m.kept, "row "+k)
			},
			"abort":   func(t *rapid.T) { d.Abort(1) },
			"restart": func(t *rapid.T) { d.Restart() },
		})
		got := map[string][]int64{}
		for _, r := range pipelinetest.Read(d, out) {
			got[r.Key] = append(got[r.Key], r.Value)
		}
		if fmt.Sprint(got) != fmt.Sprint(m.out) {
			t.Fatalf("%q:\n got %v\nwant %v", m.operators, got, m.out)
		}
	})
}

func key(t *rapid.T) string { return rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key") }
