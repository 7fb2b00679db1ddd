package record

import "strconv"

// Header is one header of a record. Order and repeated names are kept; a nil Value is Kafka's null.
type Header struct {
	Key   string
	Value []byte
}

// Position is where a record stands: a topic, a partition, and the offset of the record itself (not the next one).
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
}

// String returns "topic/partition/offset".
func (p Position) String() string {
	b := make([]byte, 0, len(p.Topic)+24)
	b = append(append(b, p.Topic...), '/')
	b = append(strconv.AppendInt(b, int64(p.Partition), 10), '/')
	return string(strconv.AppendInt(b, p.Offset, 10))
}
