package pipelinetest

import (
	"bytes"
	"slices"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// topic is the records of a topic in the order of their arrival, and by partition.
type topic struct {
	records    []pipeline.Out
	partitions [][]int // by partition and offset: the place in records
	read       int     // records[:read] were handed out
}

// Send sends one record at the driver's time, to the partition of its key, and runs the pipeline until it rests.
func Send[K, V any](d *Driver, to topics.Topic[K, V], key K, value V) {
	d.t.Helper()
	SendAt(d, to, key, value, d.now)
}

// SendAt is Send with a record timestamp, of which whole milliseconds count.
func SendAt[K, V any](d *Driver, to topics.Topic[K, V], key K, value V, at time.Time) {
	d.t.Helper()
	k, err := to.Key.Append([]byte{}, key)
	if err != nil {
		d.t.Fatalf("topic %q: encode key: %v", to.Name, err)
	}
	v, err := to.Value.Append([]byte{}, value)
	if err != nil {
		d.t.Fatalf("topic %q: encode value: %v", to.Name, err)
	}
	SendRaw(d, to.Name, k, v, nil, at)
}

// SendRaw sends bytes as they are; nil is Kafka's null. A null key goes to partition 0.
func SendRaw(d *Driver, to string, key, value []byte, headers []record.Header, at time.Time) {
	d.t.Helper()
	SendRawTo(d, to, d.partition(to, key), key, value, headers, at)
}

// SendRawTo is SendRaw to a partition, which need not be the key's.
func SendRawTo(d *Driver, to string, partition int32, key, value []byte, headers []record.Header, at time.Time) {
	d.t.Helper()
	if !isInput(d.p, to) {
		d.t.Fatalf("topic %q is no input of pipeline %q: send to a topic that a stage handles", to, d.p.App())
	}
	d.append(pipeline.Out{Topic: to, Partition: partition, Key: key, Value: value, Headers: headers, Timestamp: at.UnixMilli()})
	if !d.batching {
		d.run()
	}
}

func isInput(p *pipeline.Pipeline, name string) bool {
	return slices.ContainsFunc(p.Stages(), func(s *pipeline.Stage) bool { return slices.Contains(s.Inputs(), name) })
}

// Read returns the records that a topic got since it was last read, in the order of their arrival over all partitions. It
// fails the test when one does not decode.
func Read[K, V any](d *Driver, from topics.Topic[K, V]) []pipeline.Record[K, V] {
	d.t.Helper()
	var read []pipeline.Record[K, V]
	for _, r := range ReadRaw(d, from.Name) {
		key, err := from.Key.Decode(r.Key)
		if err != nil {
			d.t.Fatalf("topic %q: key %q: %v", from.Name, r.Key, err)
		}
		value, err := from.Value.Decode(r.Value)
		if err != nil {
			d.t.Fatalf("topic %q: value %q: %v", from.Name, r.Value, err)
		}
		read = append(read, pipeline.Record[K, V]{Key: key, Value: value, Time: time.UnixMilli(r.Timestamp).UTC(), Headers: r.Headers})
	}
	return read
}

// ReadRaw is Read without decoding, for dead letters. Partition and Timestamp are those that the record got.
func ReadRaw(d *Driver, from string) []pipeline.Out {
	t := d.topic(from)
	read := t.records[t.read:]
	t.read = len(t.records)
	return slices.Clone(read)
}

func (d *Driver) topic(name string) *topic {
	t := d.topics[name]
	if t == nil {
		t = &topic{partitions: make([][]int, d.partitions)}
		d.topics[name] = t
	}
	return t
}

// append adds a copy of a record to its topic, and returns the copy with the partition and the time that it got.
func (d *Driver) append(o pipeline.Out) pipeline.Out {
	o = clone(o)
	if o.Partition == pipeline.ByKey {
		o.Partition = d.partition(o.Topic, o.Key)
	}
	if o.Timestamp == pipeline.WhenWritten {
		o.Timestamp = d.now.UnixMilli()
	}
	t := d.topic(o.Topic)
	t.partitions[o.Partition] = append(t.partitions[o.Partition], len(t.records))
	t.records = append(t.records, o)
	for _, k := range d.tasks {
		if k.partition == o.Partition && slices.Contains(k.stage.Inputs(), o.Topic) {
			k.stopped = false
		}
	}
	return o
}

func clone(o pipeline.Out) pipeline.Out {
	o.Key, o.Value, o.Headers = bytes.Clone(o.Key), bytes.Clone(o.Value), slices.Clone(o.Headers)
	for i := range o.Headers {
		o.Headers[i].Value = bytes.Clone(o.Headers[i].Value)
	}
	return o
}
