package state

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// A marker decides what is processed: one that no program wrote must not be read as another.
func TestMarkerThatCannotBeIsRefused(t *testing.T) {
	whole := Marker{TxnSeq: 1, Partitions: 4, Next: []InputNext{{"in", 5}}}
	if _, err := ParseMarker(whole.Append(nil)); err != nil {
		t.Fatal(err)
	}
	twice := whole
	twice.Next = []InputNext{{"in", 5}, {"in", 7}}
	if m, err := ParseMarker(twice.Append(nil)); err == nil {
		t.Errorf("a marker that names an input twice is read: applied up to %+v", m.Next)
	}
	four := binary.AppendUvarint(binary.BigEndian.AppendUint64(nil, whole.Digest), 4)
	many := binary.AppendUvarint(binary.BigEndian.AppendUint64(nil, whole.Digest), 1<<32+4)
	if m, err := ParseMarker(bytes.Replace(whole.Append(nil), four, many, 1)); err == nil {
		t.Errorf("a count that does not fit is read as %d partitions", m.Partitions)
	}
}
