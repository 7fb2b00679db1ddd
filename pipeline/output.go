package pipeline

import (
	"fmt"
	"slices"

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// Output is a topic that a stage may write.
type Output[K, V any] struct {
	stage *Stage
	topic topics.Topic[K, V]
}

// NewOutput declares that the stage writes a topic.
func NewOutput[K, V any](s *Stage, t topics.Topic[K, V]) Output[K, V] {
	checkCodecs(s, t)
	if !slices.Contains(s.outputs, t.Name) {
		s.outputs = append(s.outputs, t.Name)
		s.draw(sinkNode, "KSTREAM-SINK", t.Name)
	}
	return Output[K, V]{s, t}
}

// Send adds a record to the transaction. It inherits the timestamp of the record being handled, or the boundary of the timer, and goes to the partition
// of its key by the stage's partitioner, as the inputs did. It never blocks. A record that cannot be encoded or is larger
// than the topic's max.message.bytes fails the input record, whatever the handler returns.
func (o Output[K, V]) Send(c *Ctx, key K, value V) {
	if c.task.stage != o.stage {
		c.fail(fmt.Errorf("output %q belongs to another stage than %q: declare it on this one with NewOutput", o.topic.Name, c.task.stage.name))
		return
	}
	kb, err := encode(c, o.topic.Key, key)
	if err != nil {
		c.fail(fmt.Errorf("output %q: key: %w", o.topic.Name, err))
		return
	}
	vb, err := encode(c, o.topic.Value, value)
	if err != nil {
		c.fail(fmt.Errorf("output %q: value: %w", o.topic.Name, err))
		return
	}
	if err := c.task.limits.check(o.topic.Name, len(kb)+len(vb)); err != nil {
		c.fail(err)
		return
	}
	c.task.out = append(c.task.out, Out{Topic: o.topic.Name, Partition: ByKey, Key: kb, Value: vb, Timestamp: c.time})
}

func encode[T any](c *Ctx, codec record.Codec[T], v T) ([]byte, error) {
	b, err := codec.Append(c.task.arena.tail(), v)
	if err != nil {
		return nil, err
	}
	return c.task.arena.keep(b), nil
}

// Limits holds max.message.bytes by topic; a topic without an entry is not limited.
type Limits map[string]int

// recordOverhead bounds what a batch of one record adds to key and value: 61 bytes of batch header, up to 31 of varints.
const recordOverhead = 100

// TooLargeError says that a record does not fit its topic.
type TooLargeError struct {
	Topic       string
	Size, Limit int // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("record of %d bytes exceeds max.message.bytes=%d of topic %q: raise the topic's limit or send less", e.Size, e.Limit, e.Topic)
}

func (l Limits) check(topic string, size int) error {
	if limit := l[topic]; limit > 0 && size+recordOverhead > limit {
		return &TooLargeError{topic, size + recordOverhead, limit}
	}
	return nil
}
