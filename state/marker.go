package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tallystick/tallystick/internal/mutant"
)

const markerSchema = 1

// NoStreamTime is the stream time of a task that has applied no record yet.
const NoStreamTime = math.MinInt64

// Marker is the applied marker: the record that ends each transaction of a task in its state topic and that restore
// proves the contents by.
type Marker struct {
	TxnSeq      uint64      // number of the task's transaction, one more than in the marker before
	StreamTime  int64       // ms; NoStreamTime if no record was applied
	Digest      uint64      // of all live state records
	Partitions  int32       // partition count of the stage's inputs; pinned, since another one would move keys
	Fingerprint string      // FingerprintText of the stage
	Writer      string      // transactional id
	Next        []InputNext // one per input topic, also of those that the stage had and has no more
}

// InputNext says how far an input is applied.
type InputNext struct {
	Topic       string
	AppliedNext int64 // the first offset that is not applied yet
}

// NextOf returns the first offset of topic that is not applied yet; false when the marker does not know the topic.
func (m Marker) NextOf(topic string) (int64, bool) {
	for _, n := range m.Next {
		if n.Topic == topic {
			return n.AppliedNext, true
		}
	}
	return 0, false
}

// Reads reports whether the program that wrote the marker read topic. Of an input that it did not read, Next holds how far it was
// applied by the last program that did.
func (m Marker) Reads(topic string) bool {
	t, err := parseTopology(m.Fingerprint)
	return err != nil || slices.Contains(t.stage.inputs, topic)
}

// Append appends the marker's frozen encoding, the value of its record.
func (m Marker) Append(dst []byte) []byte {
	dst = append(dst, markerSchema)
	dst = binary.AppendUvarint(dst, m.TxnSeq)
	dst = binary.AppendVarint(dst, m.StreamTime)
	dst = binary.BigEndian.AppendUint64(dst, m.Digest)
	dst = binary.AppendUvarint(dst, uint64(m.Partitions))
	dst = appendFramed(dst, m.Fingerprint)
	dst = appendFramed(dst, m.Writer)
	dst = binary.AppendUvarint(dst, uint64(len(m.Next)))
	for _, n := range m.Next {
		dst = appendFramed(dst, n.Topic)
		dst = binary.AppendUvarint(dst, uint64(n.AppliedNext))
	}
	return dst
}

// ParseMarker reads what Append wrote, and nothing else. It keeps no part of b.
func ParseMarker(b []byte) (Marker, error) {
	r := reader{b: b}
	if s := r.byte(); r.err == nil && s != markerSchema {
		return Marker{}, fmt.Errorf("applied marker: schema %d, this program knows %d: a newer version wrote it, run that version", s, markerSchema)
	}
	m := Marker{
		TxnSeq:      r.uvarint(),
		StreamTime:  r.varint(),
		Digest:      r.uint64(),
		Partitions:  int32(r.limited(mostPartitions())),
		Fingerprint: string(r.framed()),
		Writer:      string(r.framed()),
	}
	m.Next = readNext(&r)
	if err := r.end(); err != nil {
		return Marker{}, fmt.Errorf("applied marker of %d bytes: %w: it is damaged or not a marker", len(b), err)
	}
	return m, nil
}

// mostPartitions keeps a damaged count from becoming another one: a larger number would be cut to 32 bits.
func mostPartitions() uint64 {
	if mutant.On("marker-count-cut-short") {
		return math.MaxUint64
	}
	return math.MaxInt32
}

func readNext(r *reader) []InputNext {
	var next []InputNext
	for n := r.limited(uint64(len(r.b) / 2)); n > 0 && r.err == nil; n-- { // an input takes at least two bytes
		topic := string(r.framed())
		if _, twice := (Marker{Next: next}).NextOf(topic); twice && !mutant.On("marker-names-an-input-twice") {
			r.fail(fmt.Errorf("input %q twice", topic))
		}
		next = append(next, InputNext{topic, int64(r.limited(math.MaxInt64))})
	}
	return next
}
