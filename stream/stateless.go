package stream

import "github.com/tallystick/tallystick/pipeline"

// Filter lets the records through that keep says true of (Kafka Streams: KStream.filter). It stores nothing.
func (s Stream[K, V]) Filter(keep func(r pipeline.Record[K, V]) bool) Stream[K, V] {
	s.flow.need("Filter", keep == nil)
	kept := derive[K, V](s.flow.origin, pipeline.Step{Kind: "KSTREAM-FILTER"})
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		if !keep(r) {
			return nil
		}
		return kept.flow.push(c, r)
	})
	return kept
}

// Branch parts the records in those that match says true of, and the rest (Kafka Streams: KStream.split, with one branch and a
// default). It stores nothing; match is asked once for each record.
func (s Stream[K, V]) Branch(match func(r pipeline.Record[K, V]) bool) (matching, rest Stream[K, V]) {
	s.flow.need("Branch", match == nil)
	fork := derive[K, V](s.flow.origin, pipeline.Step{Kind: "KSTREAM-BRANCH"}).flow.origin
	matching = derive[K, V](fork, pipeline.Step{Kind: "KSTREAM-BRANCHCHILD"})
	rest = derive[K, V](fork, pipeline.Step{Kind: "KSTREAM-BRANCHCHILD"})
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		if match(r) {
			return matching.flow.push(c, r)
		}
		return rest.flow.push(c, r)
	})
	return matching, rest
}

// Merge makes one stream of two of the same stage (Kafka Streams: KStream.merge). It stores nothing. Of records of two inputs the
// one with the lower record time comes first, see pipeline.Handle; a record that comes by both ways comes twice.
func (s Stream[K, V]) Merge(other Stream[K, V]) Stream[K, V] {
	from := s.flow.origin
	if other.flow.stage != from.stage {
		from.refuse("Merge with a stream of stage %q: tasks see their own stage's records only; take both from topics of this stage, or GroupBy one into it", other.flow.stage.Name())
		return s
	}
	from.input = min(from.input, other.flow.input)
	if from.rekeyed == "" {
		from.rekeyed = other.flow.rekeyed
	}
	from.key = sameCodec(from.key, other.flow.key)
	merged := derive[K, V](from, pipeline.Step{Kind: "KSTREAM-MERGE", After: []string{other.flow.at}})
	s.each(merged.flow.push)
	other.each(merged.flow.push)
	return merged
}

// Peek calls f for each record and lets it through (Kafka Streams: KStream.peek). f is for looking, as in a test or a log: it is called
// again when the transaction was aborted, so what it counts or sends is not exactly once. It stores nothing.
func (s Stream[K, V]) Peek(f func(r pipeline.Record[K, V])) Stream[K, V] {
	s.flow.need("Peek", f == nil)
	seen := derive[K, V](s.flow.origin, pipeline.Step{Kind: "KSTREAM-PEEK"})
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		f(r)
		return seen.flow.push(c, r)
	})
	return seen
}

// MapValues makes a value of each record and keeps its key (Kafka Streams: KStream.mapValues). It stores nothing. An error of f
// fails the record.
func MapValues[K, V, W any](s Stream[K, V], f func(r pipeline.Record[K, V]) (W, error)) Stream[K, W] {
	s.flow.need("MapValues", f == nil)
	mapped := derive[K, W](s.flow.origin, pipeline.Step{Kind: "KSTREAM-MAPVALUES"})
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		value, err := f(r)
		if err != nil {
			return failed(mapped.flow.at, err)
		}
		return mapped.flow.push(c, pipeline.Record[K, W]{Key: r.Key, Value: value, Time: r.Time, Headers: r.Headers})
	})
	return mapped
}

// Map makes a key and a value of each record (Kafka Streams: KStream.map). It stores nothing. An error of f fails the record.
//
// The records stay on the partitions of their old keys: what needs the new key's state is refused until GroupBy, also
// when f happens to keep the key; use [MapValues] then.
func Map[K, V, L, W any](s Stream[K, V], f func(r pipeline.Record[K, V]) (L, W, error)) Stream[L, W] {
	s.flow.need("Map", f == nil)
	step := s.flow.stage.AddStep(pipeline.Step{Kind: "KSTREAM-MAP", After: []string{s.flow.at}})
	mapped := Stream[L, W]{&flow[L, W]{origin: origin[L]{stage: s.flow.stage, at: step, input: s.flow.input, rekeyed: step}}}
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		key, value, err := f(r)
		if err != nil {
			return failed(step, err)
		}
		return mapped.flow.push(c, pipeline.Record[L, W]{Key: key, Value: value, Time: r.Time, Headers: r.Headers})
	})
	return mapped
}
