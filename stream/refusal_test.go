package stream_test

import (
	"strings"
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/stream"
	"github.com/tallystick/tallystick/topics"
)

func swap(r rec) (string, int64, error) { return "other", r.Value, nil }

func product(r rec, row int64) (int64, error) { return r.Value * row, nil }

// mistakes are declarations, and the words that Validate says of each.
var mistakes = map[string]struct {
	build func(p *pipeline.Pipeline, s *pipeline.Stage)
	words []string
}{
	"count after map": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		stream.Count(stream.Map(stream.From(s, in), swap).Filter(odd), "hits").To(out)
	}, []string{`stage "only": Count "hits" follows KSTREAM-MAP-0000000001`, "GroupBy before Count"}},
	"aggregate after map": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		stream.Aggregate(stream.Map(stream.From(s, in), swap), "sum", record.Int64, func(n int64, r rec) (int64, error) { return n, nil })
	}, []string{`Aggregate "sum" follows KSTREAM-MAP-0000000001`, "GroupBy before Aggregate"}},
	"join after map": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		table := stream.TableOf(s, "rows", rows)
		stream.Join(stream.MapValues(stream.Map(stream.From(s, in), swap), add(1)), table, product)
	}, []string{`Join "rows" follows KSTREAM-MAP-0000000003`, "GroupBy before Join"}},
	"merged after map": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		from := stream.From(s, in)
		stream.Count(from.Merge(stream.Map(from, swap)), "hits")
	}, []string{`Count "hits" follows KSTREAM-MAP-0000000001`}},
	"merge of two encodings": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		other := topics.New("also", record.Codec[string](upper{}), record.Int64)
		stream.Count(stream.From(s, in).Merge(stream.From(s, other)), "hits")
	}, []string{`Count "hits": the stream of KSTREAM-MERGE-0000000002 has no one codec`}},
	"merge of two stages": {func(p *pipeline.Pipeline, s *pipeline.Stage) {
		stream.From(s, in).Merge(stream.From(p.Stage("second"), also))
	}, []string{`stage "only": Merge with a stream of stage "second"`, "GroupBy one into it"}},
	"join with another stage's table": {func(p *pipeline.Pipeline, s *pipeline.Stage) {
		stream.Join(stream.From(s, in), stream.TableOf(p.Stage("second"), "rows", rows), product)
	}, []string{`Join with table "rows" of stage "second"`, "TableOf on this stage"}},
	"table after stream": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		from := stream.From(s, in)
		stream.LeftJoin(from, stream.TableOf(s, "rows", rows), func(r rec, _ record.Optional[int64]) (int64, error) { return 0, nil })
	}, []string{`LeftJoin with table "rows", which is declared after the stream`, "TableOf before From"}},
	"table with other keys": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		table := stream.TableOf(s, "rows", topics.New("rows", record.Codec[string](upper{}), record.Int64))
		stream.Join(stream.From(s, in), table, product)
	}, []string{`Join with table "rows": its keys are encoded as upper and the stream's as string`}},
	"no functions": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		table := stream.TableOf(s, "rows", rows)
		from := stream.From(s, in)
		_, _ = from.Filter(nil).Peek(nil).Branch(nil)
		from.Deduplicate("seen", 1e9, nil)
		stream.MapValues[string, int64, int64](from, nil)
		stream.Map[string, int64, string, int64](from, nil)
		stream.Aggregate[string, int64, int64](from, "sum", record.Int64, nil)
		stream.Join[string, int64, int64, int64](from, table, nil)
		stream.LeftJoin[string, int64, int64, int64](from, table, nil)
	}, []string{"Filter of the records of in has no function", "Peek of the records of KSTREAM-FILTER-", "Branch of", "Deduplicate of",
		"MapValues of", "Map of", "Aggregate of", "Join of", "LeftJoin of"}},
	"no codecs": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		table := stream.TableOf(s, "rows", topics.Topic[string, int64]{Name: "rows"})
		from := stream.From(s, topics.Topic[string, int64]{Name: "in"})
		stream.Join(from, table, product)
		stream.Count(from, "n")
	}, []string{`topic "rows" has no codec`, `topic "in" has no codec`}},
	"group into itself": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		stream.GroupBy(stream.From(s, in), s, record.String, record.Int64, newKey)
	}, []string{`stage "only": GroupBy into the stage itself`}},
	"group into another pipeline": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		stream.GroupBy(stream.From(s, in), pipeline.New("other").Stage("far"), record.String, record.Int64, newKey)
	}, []string{`stage "only": GroupBy into stage "far" of pipeline "other"`}},
	"group twice into one stage": {func(p *pipeline.Pipeline, s *pipeline.Stage) {
		from, to := stream.From(s, in), p.Stage("second")
		stream.GroupBy(from, to, record.String, record.Int64, newKey)
		stream.GroupBy(from, to, record.String, record.Int64, newKey)
	}, []string{`stage "second": its repartition topic is declared twice`}},
	"group without codecs or function": {func(p *pipeline.Pipeline, s *pipeline.Stage) {
		stream.Count(stream.GroupBy[string, int64, string](stream.From(s, in), p.Stage("second"), nil, nil, nil), "n")
	}, []string{"GroupBy of the records of in has no function", `topic "app-second-repartition" has no codec`}},
	"a window of nothing": {func(_ *pipeline.Pipeline, s *pipeline.Stage) {
		stream.From(s, in).Deduplicate("seen", 0, func(r rec) string { return r.Key })
	}, []string{`store "seen"`, "window 0s"}},
}

func TestMistakesAreRefusedByNameWithTheRemedy(t *testing.T) {
	for name, test := range mistakes {
		t.Run(name, func(t *testing.T) {
			p := pipeline.New("app")
			test.build(p, p.Stage("only"))
			err := p.Validate()
			for _, words := range test.words {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("%v\ndoes not say %q", err, words)
				}
			}
			_ = p.Describe()
		})
	}
}

// upper is another encoding of the same type.
type upper struct{}

func (upper) ID() string { return "upper" }
func (upper) Append(dst []byte, v string) ([]byte, error) {
	return append(dst, strings.ToUpper(v)...), nil
}
func (upper) Decode(src []byte) (string, error) { return string(src), nil }

// TestGroupByMakesAnyKeyTheStreamsOwn has what is refused behind Map and allowed behind GroupBy.
func TestGroupByMakesAnyKeyTheStreamsOwn(t *testing.T) {
	p := pipeline.New("app")
	to := p.Stage("by-other")
	table := stream.TableOf(to, "rows", rows)
	from := stream.Map(stream.From(p.Stage("only"), in), swap)
	grouped := stream.GroupBy(from, to, record.String, record.Int64, func(r rec) string { return r.Key })
	stream.Count(stream.Join(grouped, table, product), "n")
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

func TestOperatorsThatKeepTheKeyAreNotRefused(t *testing.T) {
	p := pipeline.New("app")
	s := p.Stage("only")
	table := stream.TableOf(s, "rows", rows)
	a, b := stream.From(s, in).Filter(odd).Branch(odd)
	merged := stream.MapValues(a.Peek(func(rec) {}), add(1)).Merge(b).Deduplicate("seen", 1e9, func(r rec) string { return r.Key })
	stream.Count(stream.Join(merged, table, product), "n")
	stream.Map(merged, swap).To(out)
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}
