package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// Record is one input record. Key and Value belong to the handler; Headers and what they point to are valid until it returns.
type Record[K, V any] struct {
	Key     K
	Value   V
	Time    time.Time // the record's timestamp, UTC, milliseconds
	Headers []record.Header
}

// Handler handles one record. It must depend on its arguments and the stage's stores alone: no wall clock, no randomness,
// no network. An error undoes what this call wrote and sent, and nothing else.
type Handler[K, V any] func(c *Ctx, r Record[K, V]) error

// Handle registers the handler of an input of the stage. A stage may have several inputs: they need equal partition counts,
// and task i owns partition i of each and the stores that they share. The task takes the record with the lowest record time
// among those polled, and of equal ones that of the input declared first: so declare tables before the streams that look
// them up. A key or value that does not decode becomes a dead letter; its
// reason is the codec's (record.MalformedError), else malformed_key or malformed_value.
func Handle[K, V any](s *Stage, in topics.Topic[K, V], handler Handler[K, V]) {
	if handler == nil {
		s.p.errs = append(s.p.errs, fmt.Errorf("stage %q: the handler of %q is nil", s.name, in.Name))
	}
	if in.Key == nil || in.Value == nil {
		s.p.errs = append(s.p.errs, fmt.Errorf("stage %q: topic %q has no codec: make it with topics.New", s.name, in.Name))
	}
	s.draw(sourceNode, "KSTREAM-SOURCE", in.Name)
	s.inputs = append(s.inputs, input{in.Name, func(c *Ctx, raw *Input) error {
		key, err := in.Key.Decode(raw.Key)
		if err != nil {
			return malformed("malformed_key", err)
		}
		value, err := in.Value.Decode(raw.Value)
		if err != nil {
			return malformed("malformed_value", err)
		}
		return handler(c, Record[K, V]{key, value, c.Time(), raw.Headers})
	}})
}

func malformed(reason string, err error) error {
	var m *record.MalformedError
	if errors.As(err, &m) {
		return DeadLetter(m.Reason, m.Err)
	}
	return DeadLetter(reason, err)
}
