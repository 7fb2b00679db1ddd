package pipeline_test

import (
	"strings"
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

func nothing(*pipeline.Ctx, pipeline.Record[int64, int64]) error { return nil }

// TestDescribeShowsStepsAndHandlersSideBySide has, in one stage, an input that steps take, and one of a plain handler.
func TestDescribeShowsStepsAndHandlersSideBySide(t *testing.T) {
	p := pipeline.New("app")
	pipeline.Handle(p.Stage("first"), sums, nothing)
	s := p.Stage("second")
	odd := topics.New("odd", record.Int64, record.Int64)
	state.NewTable(s, "z", record.Int64, record.Int64)
	state.NewTable(s, "a", record.Int64, record.Int64)
	pipeline.Handle(s, numbers, nothing)
	pipeline.Handle(s, odd, nothing)
	keep := s.AddStep(pipeline.Step{Kind: "KSTREAM-FILTER", After: []string{"numbers"}})
	drop := s.AddStep(pipeline.Step{Kind: "KSTREAM-FILTER", After: []string{"numbers"}, Stores: []string{"z", "a"}})
	pipeline.NewOutput(s, topics.New("kept", record.Int64, record.Int64))
	s.AddStep(pipeline.Step{Output: "kept", After: []string{keep, drop}})
	s.AddStep(pipeline.Step{Output: "kept", After: []string{keep}})
	pipeline.NewOutput(s, topics.New("said", record.Int64, record.Int64))
	const want = `Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [sums])
      --> first
    Processor: first (stores: [])
      --> none
      <-- KSTREAM-SOURCE-0000000000

  Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000001 (topics: [numbers])
      --> KSTREAM-FILTER-0000000003, KSTREAM-FILTER-0000000004
    Source: KSTREAM-SOURCE-0000000002 (topics: [odd])
      --> second
    Processor: KSTREAM-FILTER-0000000003 (stores: [])
      --> KSTREAM-SINK-0000000005
      <-- KSTREAM-SOURCE-0000000001
    Processor: KSTREAM-FILTER-0000000004 (stores: [a, z])
      --> KSTREAM-SINK-0000000005
      <-- KSTREAM-SOURCE-0000000001
    Processor: second (stores: [a, z])
      --> KSTREAM-SINK-0000000006
      <-- KSTREAM-SOURCE-0000000002
    Sink: KSTREAM-SINK-0000000005 (topic: kept)
      <-- KSTREAM-FILTER-0000000003, KSTREAM-FILTER-0000000004
    Sink: KSTREAM-SINK-0000000006 (topic: said)
      <-- second

`
	for range 3 {
		if got := p.Describe(); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestDescribeOfNothingIsKafkaStreamsOfNothing(t *testing.T) {
	if got := pipeline.New("app").Describe(); got != "Topologies:\n " {
		t.Errorf("got %q", got)
	}
}

func TestAStepThatHangsInTheAirIsRefused(t *testing.T) {
	p := pipeline.New("app")
	s := p.Stage("only")
	pipeline.Handle(s, numbers, nothing)
	s.AddStep(pipeline.Step{Kind: "KSTREAM-PEEK", After: []string{"KSTREAM-FILTER-0000000009"}})
	s.AddStep(pipeline.Step{Output: "nowhere", After: []string{"numbers"}})
	err := p.Validate()
	for _, words := range []string{
		`stage "only": step KSTREAM-PEEK-0000000001 takes records of "KSTREAM-FILTER-0000000009", which is no input`,
		`stage "only": a step writes topic "nowhere", which is no output`,
	} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v does not say %q", err, words)
		}
	}
}
