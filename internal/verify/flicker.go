package verify

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sighting remembers what a reader of committed records saw of a partition, in sums over blocks: two thirds of a byte a
// record. A second reading takes away what it sees; what does not come out even has changed, come or gone.
type sighting struct {
	blocks []block
	upTo   int64 // everything below was decided when it was seen
	tail   [keptTail]*kgo.Record
}

// keptTail is how many records are kept whole, as evidence: what a broker loses or changes, it loses at the end of a log.
const keptTail = 64

// block sums the hashes of up to blockRecords records, and the hashes times their place in it: the second sum tells which
// record it is when only one differs.
type block struct {
	first, last  int64 // offsets
	count        int32
	sum, weighed uint64
}

const blockRecords = 64

// see notes a record; offsets go up.
func (s *sighting) see(rec *kgo.Record) {
	if n := len(s.blocks); n == 0 || s.blocks[n-1].count >= blockRecords {
		s.blocks = append(s.blocks, block{first: rec.Offset})
	}
	b := &s.blocks[len(s.blocks)-1]
	b.last = rec.Offset
	b.add(rec.Offset, glimpse(rec), 1)
	s.upTo = rec.Offset + 1
	s.tail[rec.Offset%keptTail] = rec
}

// shown returns a record as it was seen, nil when that was too long ago.
func (s *sighting) shown(offset int64) *kgo.Record {
	if rec := s.tail[offset%keptTail]; rec != nil && rec.Offset == offset {
		return rec
	}
	return nil
}

func (b *block) add(offset int64, hash uint64, times int32) {
	b.count += times
	b.sum += hash * uint64(times)
	b.weighed += hash * uint64(offset-b.first+1) * uint64(times)
}

// again takes away a record that is seen a second time. It reports false for one that had not been there: it lies between
// what was seen.
func (s *sighting) again(offset int64, hash uint64) bool {
	i, _ := slices.BinarySearchFunc(s.blocks, offset, func(b block, at int64) int { return cmp.Compare(b.last, at) })
	if i == len(s.blocks) || offset < s.blocks[i].first {
		return offset >= s.upTo
	}
	s.blocks[i].add(offset, hash, -1)
	return true
}

// differ calls report for each block from an offset on that does not come out even, with the offset of the one record that
// differs, or -1 when there are several.
func (s *sighting) differ(from int64, report func(b *block, at int64)) {
	for i := range s.blocks {
		if b := &s.blocks[i]; b.first >= from && (b.count != 0 || b.sum != 0 || b.weighed != 0) {
			report(b, b.culprit())
		}
	}
}

// culprit finds the offset whose weight explains both sums, -1 when there is none.
func (b *block) culprit() int64 {
	for at := b.first; at <= b.last; at++ {
		if b.sum != 0 && b.sum*uint64(at-b.first+1) == b.weighed {
			return at
		}
	}
	return -1
}

// differs says what happened to a block, given the one record that it is about.
func (b *block) differs(at int64) string {
	switch what := fmt.Sprintf("offset %d", at); {
	case at < 0:
		return fmt.Sprintf("several records of offsets %d to %d are not what they were", b.first, b.last)
	case b.count == 0:
		return what + " has changed"
	case b.count > 0:
		return what + " has vanished"
	default:
		return what + " has appeared"
	}
}

// glimpse hashes what a reader sees of a record.
func glimpse(rec *kgo.Record) uint64 {
	b := appendField(appendField(nil, rec.Key), rec.Value)
	b = binary.BigEndian.AppendUint64(b, uint64(rec.Timestamp.UnixMilli()))
	for _, h := range rec.Headers {
		b = appendField(appendField(b, []byte(h.Key)), h.Value)
	}
	return xxh64(b)
}

// watched is a stream whose records are noted as they are consumed.
type watched struct {
	stream
	seen *sighting
	last *kgo.Record
}

func (w *watched) peek(ctx context.Context) (*kgo.Record, error) {
	rec, err := w.stream.peek(ctx)
	w.last = rec
	return rec, err
}

func (w *watched) pop() {
	w.seen.see(w.last)
	w.stream.pop()
}

// watch notes what a stream shows, in raw mode.
func (a *audit) watch(topic string, s stream) stream {
	if !a.raw {
		return s
	}
	seen := &sighting{}
	a.seen[topic] = seen
	return &watched{stream: s, seen: seen}
}
