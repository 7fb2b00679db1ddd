package stream

import (
	"fmt"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// Stream is records on their way through one stage (Kafka Streams: KStream). It is a value: every operator may be called on it any
// number of times, and each then sees all records, in the order of the calls. Declaring is for one goroutine.
type Stream[K, V any] struct{ flow *flow[K, V] }

// flow is a point that records pass.
type flow[K, V any] struct {
	origin[K]
	next []pipeline.Handler[K, V]
}

// origin is what is known of the records that pass a point, whatever their values.
type origin[K any] struct {
	stage   *pipeline.Stage
	at      string          // the input topic or step that they come from
	input   int             // the first of the stage's inputs that they come from
	key     record.Codec[K] // nil when an operator made the keys, or the topic has none
	rekeyed string          // the step that made the keys; "" when records are where their keys belong
}

// derive makes the point behind a step of its own.
func derive[K, V any](from origin[K], step pipeline.Step) Stream[K, V] {
	step.After = append(step.After, from.at)
	from.at = from.stage.AddStep(step)
	return Stream[K, V]{&flow[K, V]{origin: from}}
}

func (f *flow[K, V]) push(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
	for _, next := range f.next {
		if err := next(c, r); err != nil {
			return err
		}
	}
	return nil
}

// each adds what happens to every record.
func (s Stream[K, V]) each(h pipeline.Handler[K, V]) { s.flow.next = append(s.flow.next, h) }

// refuse reports a mistake when the pipeline is validated.
func (o *origin[K]) refuse(format string, args ...any) { o.stage.Refuse(fmt.Errorf(format, args...)) }

// need refuses an operator without its function.
func (o *origin[K]) need(operator string, missing bool) {
	if missing {
		o.refuse("%s of the records of %s has no function: give it one", operator, o.at)
	}
}

// failed names the operator whose function refused a record.
func failed(step string, err error) error { return fmt.Errorf("%s: %w", step, err) }

// From begins a stream at an input of the stage (Kafka Streams: StreamsBuilder.stream). It stores nothing. What does not decode
// is a dead letter, see pipeline.Handle.
func From[K, V any](s *pipeline.Stage, in topics.Topic[K, V]) Stream[K, V] {
	f := &flow[K, V]{origin: origin[K]{stage: s, at: in.Name, input: len(s.Inputs()), key: in.Key}}
	pipeline.Handle(s, in, f.push)
	return Stream[K, V]{f}
}

// Stage returns the stage that the stream runs in.
func (s Stream[K, V]) Stage() *pipeline.Stage { return s.flow.stage }

// To writes the records to a topic (Kafka Streams: KStream.to), each to the partition of its key. It stores nothing. A record that does not
// encode or fit fails, see pipeline.Output; a null is written where the topic's codec is a record.Nullable.
func (s Stream[K, V]) To(out topics.Topic[K, V]) {
	output := pipeline.NewOutput(s.flow.stage, out)
	s.flow.stage.AddStep(pipeline.Step{Output: out.Name, After: []string{s.flow.at}})
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		output.Send(c, r.Key, r.Value)
		return nil
	})
}
