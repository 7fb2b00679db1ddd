package verify

import (
	"encoding/binary"
	"maps"
	"math"
	"time"
)

// noTime is the stream time of a partition that has applied nothing.
const noTime = math.MinInt64

// ruling is what the inbox says about an event.
type ruling uint8

const (
	isNew ruling = iota
	isDuplicate
	isConflict
	isExpired
)

// inbox is the dedupe rule of one partition, by stream time alone: an id counts while the bucket it was filed under ends
// after stream time − window.
type inbox struct {
	window, width int64 // ms
	streamTime    int64 // ms: the highest record time of an input that did not fail
	ids           *idTable
	buckets       map[int64]census // what is filed, by the end of its bucket
}

func newInbox(window time.Duration, ids *idTable) *inbox {
	w := window.Milliseconds()
	return &inbox{window: w, width: max(1000, w/64), streamTime: noTime, ids: ids, buckets: map[int64]census{}}
}

// timeWith is the stream time that a record of that time sees: its own counts.
func (b *inbox) timeWith(recordTime int64) int64 { return max(b.streamTime, recordTime) }

// horizon is the stream time before which nothing counts.
func (b *inbox) horizon(streamTime int64) int64 {
	if streamTime < math.MinInt64+b.window {
		return math.MinInt64
	}
	return streamTime - b.window
}

// rule judges an id at a record's time, and returns the offset of the first event when it is known.
func (b *inbox) rule(id identity, content uint64, recordTime int64) (r ruling, first int64) {
	horizon := b.horizon(b.timeWith(recordTime))
	e, known := b.ids.find(id)
	switch {
	case known && e.bucketEnd > horizon && e.content == content:
		return isDuplicate, e.offset()
	case known && e.bucketEnd > horizon:
		return isConflict, e.offset()
	case recordTime < horizon:
		return isExpired, -1
	}
	return isNew, -1
}

// manyBuckets is far more than a window has: 64.
const manyBuckets = 1024

// remember files a new id under the bucket of the stream time, which the record's own time has raised.
func (b *inbox) remember(id identity, content uint64, offset, recordTime int64, applied bool) {
	end := (floorDiv(b.timeWith(recordTime), b.width) + 1) * b.width
	b.file(newEntry(id, content, offset, end, applied), b.horizon(b.streamTime))
}

func (b *inbox) file(e entry, horizon int64) {
	b.ids.put(e, horizon)
	if len(b.buckets) > manyBuckets {
		maps.DeleteFunc(b.buckets, func(end int64, _ census) bool { return end <= horizon })
	}
	c := b.buckets[e.bucketEnd]
	c.add(e.id, e.offset())
	b.buckets[e.bucketEnd] = c
}

// advance raises stream time for an input that did not fail.
func (b *inbox) advance(recordTime int64) { b.streamTime = b.timeWith(recordTime) }

// census counts the ids that still count and sums what identifies them, independent of order.
func (b *inbox) census() (c census) {
	horizon := b.horizon(b.streamTime)
	for end, filed := range b.buckets {
		if end <= horizon {
			delete(b.buckets, end)
			continue
		}
		c.ids += filed.ids
		c.sum += filed.sum
	}
	return c
}

// census is a count of ids and the sum of a hash of each with the offset of its first event.
type census struct {
	ids int64
	sum uint64
}

func (c *census) add(id identity, offset int64) {
	var b [len(id) + 8]byte
	copy(b[:], id[:])
	binary.LittleEndian.PutUint64(b[len(id):], uint64(offset))
	c.ids++
	c.sum += xxh64(b[:])
}
