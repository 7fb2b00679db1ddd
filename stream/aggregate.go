package stream

import (
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// Count counts the records of each key and yields the new number after each record (Kafka Streams: groupByKey().count(), with caching
// disabled). It stores one row for each key, in a table of the given name, with the codecs of the stream's key and record.Int64.
func Count[K, V any](s Stream[K, V], store string) Stream[K, int64] {
	return aggregate(s, "Count", store, record.Int64, func(n int64, _ pipeline.Record[K, V]) (int64, error) { return n + 1, nil })
}

// Aggregate keeps one total for each key: add makes the new one of the old (the zero value at first) and a record, and the stream
// that it returns yields each new total (Kafka Streams: groupByKey().aggregate(), with caching disabled). It stores one row for
// each key, in a table of the given name. An error of add fails the record and leaves the total as it was.
//
// A total that its codec encodes as null (record.Nullable) deletes the row, and To writes a tombstone.
func Aggregate[K, V, A any](s Stream[K, V], store string, total record.Codec[A], add func(total A, r pipeline.Record[K, V]) (A, error)) Stream[K, A] {
	return aggregate(s, "Aggregate", store, total, add)
}

func aggregate[K, V, A any](s Stream[K, V], operator, store string, total record.Codec[A], add func(total A, r pipeline.Record[K, V]) (A, error)) Stream[K, A] {
	s.flow.need(operator, add == nil)
	totals := derive[K, A](s.flow.origin, pipeline.Step{Kind: "KSTREAM-AGGREGATE", Stores: []string{store}})
	if !s.flow.keyed(operator, store) {
		return totals
	}
	table := state.NewTable(s.flow.stage, store, s.flow.key, total)
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		before, _ := table.Get(c, r.Key)
		after, err := add(before, r)
		if err != nil {
			return failed(totals.flow.at, err)
		}
		table.Put(c, r.Key, after)
		return totals.flow.push(c, pipeline.Record[K, A]{Key: r.Key, Value: after, Time: r.Time, Headers: r.Headers})
	})
	return totals
}
