package stream_test

import (
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/stream"
	"github.com/tallystick/tallystick/topics"
)

var (
	numbers  = topics.New("numbers", record.Int64, record.Int64)
	labels   = topics.New("labels", record.Int64, record.Int64)
	numbered = topics.New("numbered", record.Int64, record.Int64)
)

type num = pipeline.Record[int64, int64]

func double(r num) (int64, error) { return 2 * r.Value, nil }

// everyOperator has each operator on the way of a record, with functions and codecs that do not allocate.
func everyOperator() *pipeline.Stage {
	s := pipeline.New("app").Stage("only")
	table := stream.TableOf(s, "labels", labels)
	ids := [...]string{"a", "b", "c", "d"}
	from := stream.From(s, numbers).Filter(func(r num) bool { return r.Value != 0 }).Peek(func(num) {})
	from.Deduplicate("seen", time.Hour, func(r num) string { return ids[r.Key%4] }).To(numbered)
	a, b := from.Branch(func(r num) bool { return r.Value%2 == 0 })
	merged := stream.MapValues(a, double).Merge(b)
	stream.Count(merged, "n").To(numbered)
	stream.Aggregate(merged, "sum", record.Int64, func(sum int64, r num) (int64, error) { return sum + r.Value, nil })
	stream.Join(merged, table, func(r num, row int64) (int64, error) { return row, nil }).To(numbered)
	stream.LeftJoin(merged, table, func(r num, row record.Optional[int64]) (int64, error) { return row.Value, nil })
	stream.GroupBy(merged, s.Pipeline().Stage("next"), record.Int64, record.Int64, func(r num) int64 { return r.Value })
	stream.Map(merged, func(r num) (int64, int64, error) { return r.Value, r.Key, nil }).To(numbered)
	return s
}

// feed gives a task records, as a worker does.
type feed struct {
	tb     testing.TB
	task   *pipeline.Task
	in     pipeline.Input
	offset int64
}

func newFeed(tb testing.TB, s *pipeline.Stage) *feed {
	if err := s.Pipeline().Validate(); err != nil {
		tb.Fatal(err)
	}
	const noon = 1_700_000_000_000
	f := &feed{tb: tb, task: pipeline.NewTask(s, 0, 1, state.NewMemory(s.Stores()), nil)}
	f.in = pipeline.Input{Position: record.Position{Topic: "numbers"}, Timestamp: noon, Clock: noon}
	return f
}

func (f *feed) next() {
	f.in.Offset = f.offset
	f.in.Key, _ = record.Int64.Append(f.in.Key[:0], f.offset%97)
	f.in.Value, _ = record.Int64.Append(f.in.Value[:0], f.offset)
	f.in.Topic = "numbers"
	if f.offset%5 == 0 {
		f.in.Topic = "labels"
	}
	if _, err := f.task.Process(&f.in); err != nil {
		f.tb.Fatal(err)
	}
	f.offset++
}

func (f *feed) commit() {
	sealed, err := f.task.Seal("w")
	if err != nil {
		f.tb.Fatal(err)
	}
	if err := f.task.Merge(sealed, f.offset); err != nil {
		f.tb.Fatal(err)
	}
}

// TestOperatorsDoNotAllocate is the allocation gate of the chain.
func TestOperatorsDoNotAllocate(t *testing.T) {
	f := newFeed(t, everyOperator())
	transaction := func() {
		for range 2000 {
			f.next()
		}
		f.commit()
	}
	transaction()
	if perRecord := testing.AllocsPerRun(20, transaction) / 2000; perRecord > 0.01 {
		t.Errorf("%.3f allocations a record, want 0", perRecord)
	}
}

func BenchmarkEveryOperator(b *testing.B) { run(b, everyOperator()) }

// BenchmarkFiveFilters is what a stateless operator costs on the way from topic to topic.
func BenchmarkFiveFilters(b *testing.B) {
	s := pipeline.New("app").Stage("only")
	from := stream.From(s, numbers)
	for range 5 {
		from = from.Filter(func(r num) bool { return r.Value >= 0 })
	}
	from.To(numbered)
	stream.From(s, labels)
	run(b, s)
}

// BenchmarkHandler is the same without operators.
func BenchmarkHandler(b *testing.B) {
	s := pipeline.New("app").Stage("only")
	output := pipeline.NewOutput(s, numbered)
	pipeline.Handle(s, numbers, func(c *pipeline.Ctx, r num) error {
		output.Send(c, r.Key, r.Value)
		return nil
	})
	stream.From(s, labels)
	run(b, s)
}

func run(b *testing.B, s *pipeline.Stage) {
	f := newFeed(b, s)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		f.next()
		if i%10_000 == 9_999 {
			f.commit()
		}
	}
}
