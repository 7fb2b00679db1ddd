package pipelinetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// Inputs are the records that Crash feeds to a pipeline, in this order. The zero value is empty and ready for Put. Its clock begins
// at 2026-01-01 00:00 UTC, as a Driver's, and moves one millisecond with each record, so that a stage with several inputs, which
// takes the lowest record time first, takes them in the order in which they were put. When the pipeline runs, its wall clock goes
// on from the inputs' last time: what is put more than an hour ahead of that becomes a dead letter.
type Inputs struct {
	since time.Duration // the clock
	list  []put
	errs  []error
}

type put struct {
	topic      string
	partition  int32 // byKey, or where it goes
	key, value []byte
	headers    []record.Header
	at         int64 // ms
}

const byKey = -1

// Now returns the time of the next record.
func (in *Inputs) Now() time.Time { return beginning().Add(in.since) }

// Advance moves the clock.
func (in *Inputs) Advance(by time.Duration) { in.since += by }

// Put adds one record at the inputs' time, which goes to the partition of its key. What does not encode fails the test in Crash.
func Put[K, V any](in *Inputs, to topics.Topic[K, V], key K, value V) {
	PutAt(in, to, key, value, in.Now())
	in.since += time.Millisecond
}

// PutAt is Put with a record timestamp, of which whole milliseconds count. It does not move the clock.
func PutAt[K, V any](in *Inputs, to topics.Topic[K, V], key K, value V, at time.Time) {
	k, err := to.Key.Append([]byte{}, key)
	if err != nil {
		in.errs = append(in.errs, fmt.Errorf("input %d, topic %q: encode key: %w", len(in.list), to.Name, err))
	}
	v, err := to.Value.Append([]byte{}, value)
	if err != nil {
		in.errs = append(in.errs, fmt.Errorf("input %d, topic %q: encode value: %w", len(in.list), to.Name, err))
	}
	PutRaw(in, to.Name, k, v, nil, at)
}

// PutRaw adds bytes as they are, which are copied; nil is Kafka's null. A null key goes to partition 0.
func PutRaw(in *Inputs, to string, key, value []byte, headers []record.Header, at time.Time) {
	PutRawTo(in, to, byKey, key, value, headers, at)
}

// PutRawTo is PutRaw to a partition, which need not be the key's.
func PutRawTo(in *Inputs, to string, partition int32, key, value []byte, headers []record.Header, at time.Time) {
	in.list = append(in.list, put{to, partition, bytes.Clone(key), bytes.Clone(value), slices.Clone(headers), at.UnixMilli()})
}

// place returns the inputs with their partitions, checked against a pipeline.
func (in *Inputs) place(p *pipeline.Pipeline, partitions int32) ([]put, error) {
	errs := slices.Clone(in.errs)
	if len(in.list) == 0 {
		errs = append(errs, errors.New("no inputs: add some with Put"))
	}
	placed := slices.Clone(in.list)
	for i := range placed {
		r := &placed[i]
		if !isInput(p, r.topic) {
			errs = append(errs, fmt.Errorf("input %d: topic %q is no input of pipeline %q: put to a topic that a stage handles", i, r.topic, p.App()))
		}
		if r.partition == byKey {
			r.partition = partitionOf(p, r.topic, r.key, partitions)
		}
		if r.partition < 0 || r.partition >= partitions {
			errs = append(errs, fmt.Errorf("input %d: topic %q has no partition %d: the test runs with %d", i, r.topic, r.partition, partitions))
		}
	}
	return placed, errors.Join(errs...)
}
