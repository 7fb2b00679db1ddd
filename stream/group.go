package stream

import (
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
)

// GroupBy sends each record to another stage under the key that by makes of it, so that all records of that key meet in one
// task, and returns the stream as that stage reads it (Kafka Streams: KStream.groupBy, or selectKey and repartition). It stores
// nothing; the hop is a topic of the engine's, <application.id>-<stage>-repartition, and costs one transaction.
//
//	perPage := stream.GroupBy(clicks, p.Stage("by-page"), record.String, record.JSON[Click](), page)
//
// to is a stage of the same pipeline, of its own: declare tables that the stream will be joined with on it first. A key that encodes as
// null becomes a dead letter of that stage; Kafka Streams drops it.
func GroupBy[K, V, G any](s Stream[K, V], to *pipeline.Stage, key record.Codec[G], value record.Codec[V], by func(r pipeline.Record[K, V]) G) Stream[G, V] {
	s.flow.need("GroupBy", by == nil)
	if to == s.flow.stage {
		s.flow.refuse("GroupBy into the stage itself: the records would go round in it; declare a stage of their own")
	}
	if to.Pipeline() != s.flow.stage.Pipeline() {
		s.flow.refuse("GroupBy into stage %q of pipeline %q: declare the stage on this pipeline", to.Name(), to.Pipeline().App())
	}
	step := s.flow.stage.AddStep(pipeline.Step{Kind: "KSTREAM-KEY-SELECT", After: []string{s.flow.at}})
	hop := pipeline.NewRepartition(to, key, value)
	output := pipeline.NewOutput(s.flow.stage, hop)
	s.flow.stage.AddStep(pipeline.Step{Output: hop.Name, After: []string{step}})
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		output.Send(c, by(r), r.Value)
		return nil
	})
	return From(to, hop)
}
