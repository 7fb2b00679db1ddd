package stream

import (
	"errors"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/state"
)

var (
	errNoID    = errors.New("the record has no id to know it by: give it one, or filter it before Deduplicate")
	errExpired = errors.New("the record is older than the dedupe window and its id is unknown: it may have been passed on before; compare with the output, then send it under a new id")
)

// Deduplicate lets the first record of each id through and drops the others (Kafka Streams has no such operator; its users write one
// over a window store). It stores the ids, for the window, in a dedupe store of the given name: about 32 bytes each in the state
// topic. The window must be longer than the time after which a record can come again.
//
// A task knows the ids of its own partition: records of one id must have one key. A record older than the window whose id is not
// known is a dead letter (outside_dedupe_window), one whose id is "" too (no_id). Contents are not compared: to find one id
// with two contents, use a state.Dedupe in a handler.
func (s Stream[K, V]) Deduplicate(store string, window time.Duration, id func(r pipeline.Record[K, V]) string) Stream[K, V] {
	s.flow.need("Deduplicate", id == nil)
	seen := state.NewDedupe(s.flow.stage, store, window)
	first := derive[K, V](s.flow.origin, pipeline.Step{Kind: "KSTREAM-DEDUPLICATE", Stores: []string{store}})
	s.each(func(c *pipeline.Ctx, r pipeline.Record[K, V]) error {
		key := id(r)
		if key == "" {
			return pipeline.DeadLetter("no_id", errNoID)
		}
		switch seen.Check(c, key, r.Time, state.Fingerprint{}) {
		case state.New:
			return first.flow.push(c, r)
		case state.Expired:
			return pipeline.DeadLetter("outside_dedupe_window", errExpired)
		}
		return nil
	})
	return first
}
