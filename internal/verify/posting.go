package verify

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"io"
	"slices"
	"sync"
)

// posting is an applied event: 24 bytes, sortable, so that many can be sorted on disk.
type posting struct {
	id    identity
	place uint64 // partition, offset, and whether the inbox knew nothing of the id
}

const (
	postingSize = len(identity{}) + 8
	offsetBits  = 44
)

func newPosting(id identity, partition int32, offset int64, fresh bool) posting {
	p := posting{id, uint64(partition)<<(offsetBits+1) | uint64(offset)<<1}
	if fresh {
		p.place |= 1
	}
	return p
}

func (p posting) partition() int32 { return int32(p.place >> (offsetBits + 1)) }
func (p posting) offset() int64    { return int64(p.place >> 1 & (1<<offsetBits - 1)) }
func (p posting) fresh() bool      { return p.place&1 != 0 }

func comparePostings(x, y posting) int {
	return cmp.Or(compareIDs(&x.id, &y.id), cmp.Compare(x.place, y.place))
}

// postings sorts what all partitions applied, on disk where it exceeds its memory. It is safe for concurrent use until each is
// called.
type postings struct {
	mu     sync.Mutex
	create scratch
	limit  int // in memory
	buf    []posting
	runs   []span
	file   scratchFile
	size   int64
	err    error
}

// span is a sorted part of the file.
type span struct{ from, to int64 }

// minPostings is how many are handed on at once.
const minPostings = 1 << 10

// add takes a few postings.
func (s *postings) add(ps []posting) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && len(s.buf) > 0 && len(s.buf)+len(ps) > s.limit {
		s.err = s.spill()
	}
	if len(s.buf)+len(ps) > cap(s.buf) { // doubled by hand, never beyond the limit
		s.buf = slices.Grow(s.buf, max(len(ps), min(max(len(s.buf), minPostings), max(0, s.limit-len(s.buf)))))
	}
	s.buf = append(s.buf, ps...)
	return s.err
}

// spill appends what is in memory to the file as a sorted run.
func (s *postings) spill() (err error) {
	if s.file == nil {
		if s.file, err = s.create(); err != nil {
			return err
		}
	}
	slices.SortFunc(s.buf, comparePostings)
	w := bufio.NewWriterSize(s.file, spillBuffer)
	var b [postingSize]byte
	for i := range s.buf {
		copy(b[:], s.buf[i].id[:])
		binary.LittleEndian.PutUint64(b[len(identity{}):], s.buf[i].place)
		_, _ = w.Write(b[:]) // Flush repeats the error
	}
	run := span{s.size, s.size + int64(len(s.buf)*postingSize)}
	s.runs, s.size, s.buf = append(s.runs, run), run.to, s.buf[:0]
	return w.Flush()
}

// each calls f with all postings in order.
func (s *postings) each(f func(posting) error) error {
	if s.err != nil {
		return s.err
	}
	slices.SortFunc(s.buf, comparePostings)
	if len(s.runs) == 0 {
		return eachOf(s.buf, f)
	}
	if err := s.spill(); err != nil {
		return err
	}
	s.buf = nil // the readers need room
	return s.merge(f)
}

func eachOf(ps []posting, f func(posting) error) error {
	for _, p := range ps {
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *postings) merge(f func(posting) error) error {
	var h postingHeap
	size := min(spillBuffer, max(postingSize, s.limit*postingSize/len(s.runs)))
	for _, r := range s.runs {
		reader := &postingReader{r: bufio.NewReaderSize(io.NewSectionReader(s.file, r.from, r.to-r.from), size)}
		ok, err := reader.next()
		if err != nil {
			return err
		}
		if ok {
			h = append(h, reader)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		if err := f(h[0].p); err != nil {
			return err
		}
		ok, err := h[0].next()
		if err != nil {
			return err
		}
		if ok {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return nil
}

// close gives memory and disk back.
func (s *postings) close() {
	if s.file != nil {
		_ = s.file.Close() // only read, and not needed any more
	}
	s.buf, s.runs, s.file, s.size = nil, nil, nil, 0
}

// postingReader reads a run from front to back.
type postingReader struct {
	r *bufio.Reader
	p posting
}

func (r *postingReader) next() (ok bool, err error) {
	var b [postingSize]byte
	switch _, err := io.ReadFull(r.r, b[:]); err {
	case nil:
	case io.EOF:
		return false, nil
	default:
		return false, err
	}
	r.p = posting{identity(b[:len(identity{})]), binary.LittleEndian.Uint64(b[len(identity{}):])}
	return true, nil
}

// postingHeap has the reader with the least posting first.
type postingHeap []*postingReader

func (h postingHeap) Len() int           { return len(h) }
func (h postingHeap) Less(i, j int) bool { return comparePostings(h[i].p, h[j].p) < 0 }
func (h postingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *postingHeap) Push(x any)        { *h = append(*h, x.(*postingReader)) }

func (h *postingHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
