package stream

import (
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// Table is the last value of each key of a topic (Kafka Streams: KTable).
type Table[K, V any] struct {
	from  origin[K]
	name  string
	store state.Table[K, V]
}

// TableOf reads a topic of changes into a table (Kafka Streams: StreamsBuilder.table). It stores one row for each key, in a table
// of the given name; a null value deletes the row.
//
// The topic is an input of the stage as any other: it has as many partitions as the others, with keys placed and encoded alike.
// Declare it before the streams that look rows up: of a change and a lookup at the same record time, the change then comes first.
//
// The lower record time comes first. A task that starts behind a long table waits for what the broker has of it, unless
// pipeline.Config.MaxTaskIdle (max.task.idle.ms, as in Kafka Streams) is negative; above 0 it also waits so long for changes that
// producers may yet send.
func TableOf[K, V any](s *pipeline.Stage, name string, changes topics.Topic[K, V]) Table[K, V] {
	t := Table[K, V]{from: origin[K]{stage: s, input: len(s.Inputs()), key: changes.Key}, name: name}
	nullable := topics.Topic[K, record.Optional[V]]{Name: changes.Name, Key: changes.Key}
	if changes.Key != nil && changes.Value != nil { // else Handle says what is missing
		t.store = state.NewTable(s, name, changes.Key, changes.Value)
		nullable.Value = record.Nullable(changes.Value)
	}
	pipeline.Handle(s, nullable, t.change)
	s.MayBeCompacted(changes.Name)
	t.from.at = s.AddStep(pipeline.Step{Kind: "KTABLE-SOURCE", After: []string{changes.Name}, Stores: []string{name}})
	return t
}

func (t Table[K, V]) change(c *pipeline.Ctx, r pipeline.Record[K, record.Optional[V]]) error {
	if r.Value.Set {
		t.store.Put(c, r.Key, r.Value.Value)
	} else {
		t.store.Delete(c, r.Key)
	}
	return nil
}

// Get returns the row of a key; false when there is none. It is for tests (pipelinetest.Driver.Committed) and for plain handlers
// of the same stage.
func (t Table[K, V]) Get(s state.Scope, key K) (V, bool) { return t.store.Get(s, key) }

// Join looks each record's key up in the table and yields what f makes of both; a record without a row is dropped (Kafka
// Streams: KStream.join with a KTable). It stores nothing of its own. Only records of the stream yield something: a later
// change of the row does not. An error of f fails the record.
func Join[K, V, T, W any](s Stream[K, V], t Table[K, T], f func(r pipeline.Record[K, V], row T) (W, error)) Stream[K, W] {
	s.flow.need("Join", f == nil)
	return join(s, t, "Join", "KSTREAM-JOIN", func(r pipeline.Record[K, V], row T, found bool) (w W, ok bool, err error) {
		if !found {
			return w, false, nil
		}
		w, err = f(r, row)
		return w, true, err
	})
}

// LeftJoin is Join, but f is also asked about a record without a row, which is then not Set (Kafka Streams: KStream.leftJoin
// with a KTable).
func LeftJoin[K, V, T, W any](s Stream[K, V], t Table[K, T], f func(r pipeline.Record[K, V], row record.Optional[T]) (W, error)) Stream[K, W] {
	s.flow.need("LeftJoin", f == nil)
	return join(s, t, "LeftJoin", "KSTREAM-LEFTJOIN", func(r pipeline.Record[K, V], row T, found bool) (W, bool, error) {
		w, err := f(r, record.Optional[T]{Value: row, Set: found})
		return w, true, err
	})
}

func join[K, V, T, W any](s Stream[K, V], t Table[K, T], operator, kind string, f func(r pipeline.Record[K, V], row T, found bool) (W, bool, error)) Stream[K, W] {
	step := pipeline.Step{Kind: kind}
	if t.from.stage == s.flow.stage {
		step.Stores = []string{t.name}
	}
	joined := derive[K, W](s.flow.origin, step)
	if !s.flow.keyed(operator, t.name) || !s.flow.besides(t.from, operator, t.name) {
		return joined
	}
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		row, found := t.store.Get(c, r.Key)
		w, ok, err := f(r, row, found)
		if err != nil {
			return failed(joined.flow.at, err)
		}
		if !ok {
			return nil
		}
		return joined.flow.push(c, pipeline.Record[K, W]{Key: r.Key, Value: w, Time: r.Time, Headers: r.Headers})
	})
	return joined
}

// besides refuses a join with a table whose rows are not where the stream's records are, or come too late.
func (o *origin[K]) besides(table origin[K], operator, name string) bool {
	switch {
	case table.stage != o.stage:
		o.refuse("%s with table %q of stage %q: a task sees its own stage's rows only; declare the table with TableOf on this stage", operator, name, table.stage.Name())
	case table.key == nil: // refused where it was declared
	case table.key.ID() != o.key.ID():
		o.refuse("%s with table %q: its keys are encoded as %s and the stream's as %s, so that equal keys are on different partitions; write both with one codec", operator, name, table.key.ID(), o.key.ID())
	case table.input > o.input:
		o.refuse("%s with table %q, which is declared after the stream: at equal record times the lookup would come before the change; call TableOf before From", operator, name)
	default:
		return true
	}
	return false
}
