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
	checkCodecs(s, in)
	s.draw(sourceNode, "KSTREAM-SOURCE", in.Name)
	s.inputs = append(s.inputs, input{in.Name, func(c *Ctx, raw *Input) error {
		key, err := in.Key.Decode(raw.Key)
		if err != nil {
			return s.malformed(in.Name, "malformed_key", err)
		}
		value, err := in.Value.Decode(raw.Value)
		if err != nil {
			return s.malformed(in.Name, "malformed_value", err)
		}
		return handler(c, Record[K, V]{key, value, c.Time(), raw.Headers})
	}})
}

// checkCodecs reports what is wrong with the codecs of a topic that the stage reads or writes.
func checkCodecs[K, V any](s *Stage, t topics.Topic[K, V]) {
	if t.Key == nil || t.Value == nil {
		s.Refuse(fmt.Errorf("topic %q has no codec: make it with topics.New", t.Name))
		return
	}
	if err := errors.Join(record.CheckCodec(t.Key), record.CheckCodec(t.Value)); err != nil {
		s.Refuse(fmt.Errorf("topic %q: %w", t.Name, err))
	}
}

// malformed says what becomes of a record that does not decode. In a repartition topic, which this application alone writes, one
// of a newer version is no bad record: an older program was started beside or after it.
func (s *Stage) malformed(topic, reason string, err error) error {
	if s.isRepartition(topic) && errors.Is(err, record.ErrNewerVersion) {
		return &unpolicedError{err}
	}
	var m *record.MalformedError
	if errors.As(err, &m) {
		return DeadLetter(m.Reason, m.Err)
	}
	return DeadLetter(reason, err)
}
