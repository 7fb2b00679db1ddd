package verify

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"sort"
)

const (
	blockEntries = 128 // of a run: what one look-up reads
	fanIn        = 8   // runs of one level before they are merged
	spillBuffer  = 64 << 10
)

// runs are an id table's entries on disk: sorted files, the newest last. It is owned by one goroutine.
type runs struct {
	create scratch
	all    []*run
	block  [blockEntries * entrySize]byte
}

// run is one sorted file. In memory it keeps the first id of each block, and a filter as long as there is room for it.
type run struct {
	file   scratchFile
	n      int
	level  int // how often its entries were merged
	end    int64
	firsts []identity
	filter filter
}

func compareIDs(x, y *identity) int { return bytes.Compare(x[:], y[:]) }

// memory is what is held in memory for what is on disk.
func (r *runs) memory() (n int64) {
	for _, x := range r.all {
		n += int64(len(x.filter) + len(x.firsts)*len(identity{}))
	}
	return n
}

// find looks from the newest run to the oldest.
func (r *runs) find(id *identity) (e entry, ok bool, err error) {
	for _, x := range slices.Backward(r.all) {
		if x.filter != nil && !x.filter.has(id) {
			continue
		}
		if e, ok, err = r.findIn(x, id); ok || err != nil {
			return e, ok, err
		}
	}
	return e, false, nil
}

// findIn reads the one block that may have the id.
func (r *runs) findIn(x *run, id *identity) (e entry, ok bool, err error) {
	block := sort.Search(len(x.firsts), func(i int) bool { return compareIDs(&x.firsts[i], id) > 0 }) - 1
	if block < 0 {
		return e, false, nil
	}
	n := min(blockEntries, x.n-block*blockEntries)
	b := r.block[:n*entrySize]
	if _, err := x.file.ReadAt(b, int64(block)*int64(len(r.block))); err != nil {
		return e, false, err
	}
	i := sort.Search(n, func(i int) bool { return bytes.Compare(b[i*entrySize:][:len(id)], id[:]) >= 0 })
	if i == n || !bytes.Equal(b[i*entrySize:][:len(id)], id[:]) {
		return e, false, nil
	}
	return readEntry(b[i*entrySize:]), true, nil
}

func readEntry(b []byte) (e entry) {
	copy(e.id[:], b)
	b = b[len(e.id):]
	e.content = binary.LittleEndian.Uint64(b)
	e.place = int64(binary.LittleEndian.Uint64(b[8:]))
	e.bucketEnd = int64(binary.LittleEndian.Uint64(b[16:]))
	return e
}

func (e *entry) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, e.id[:]...), e.content)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.place))
	return binary.LittleEndian.AppendUint64(b, uint64(e.bucketEnd))
}

// write makes a run of n entries that are in order.
func (r *runs) write(n int, at func(int) *entry) error {
	w, err := r.begin(n, 0)
	if err != nil || w == nil {
		return err
	}
	for i := range n {
		w.add(at(i))
	}
	return r.finish(w)
}

// runWriter writes one run. Errors wait for its end.
type runWriter struct {
	*run
	w       *bufio.Writer
	scratch []byte
}

// begin starts a run of at most n entries; nil when there is nothing to write.
func (r *runs) begin(n, level int) (*runWriter, error) {
	if n == 0 {
		return nil, nil
	}
	file, err := r.create()
	if err != nil {
		return nil, err
	}
	x := &run{file: file, level: level, end: math.MinInt64, filter: newFilter(n)}
	return &runWriter{run: x, w: bufio.NewWriterSize(file, spillBuffer)}, nil
}

func (w *runWriter) add(e *entry) {
	if w.n%blockEntries == 0 {
		w.firsts = append(w.firsts, e.id)
	}
	w.n++
	w.end = max(w.end, e.bucketEnd)
	w.filter.add(&e.id)
	w.scratch = e.append(w.scratch[:0])
	_, _ = w.w.Write(w.scratch) // Flush repeats the error
}

func (r *runs) finish(w *runWriter) error {
	err := w.w.Flush()
	if err != nil || w.n == 0 {
		_ = w.file.Close() // the error that counts is the first
		return err
	}
	r.all = append(r.all, w.run)
	return nil
}

// tidy drops runs that no longer count, merges where there are many of one size, and keeps filters within a limit: without
// one, a run is read for every look-up.
func (r *runs) tidy(horizon, limit int64) error {
	r.all = slices.DeleteFunc(r.all, func(x *run) bool {
		if x.end > horizon {
			return false
		}
		_ = x.file.Close()
		return true
	})
	for n := r.tail(); n >= fanIn; n = r.tail() {
		if err := r.merge(len(r.all)-n, horizon); err != nil {
			return err
		}
	}
	for _, x := range r.all { // the oldest and largest first
		if r.memory() <= limit {
			break
		}
		x.filter = nil
	}
	return nil
}

// tail counts the newest runs that are of one level.
func (r *runs) tail() (n int) {
	for _, x := range slices.Backward(r.all) {
		if x.level != r.all[len(r.all)-1].level {
			break
		}
		n++
	}
	return n
}

// merge makes one run of those from i on. Of an id that is there twice only the newest entry still counts.
func (r *runs) merge(i int, horizon int64) error {
	olds, n := slices.Clone(r.all[i:]), 0
	sources := make([]*entryReader, len(olds))
	for k, x := range olds {
		x.filter = nil // room for the new one
		sources[k] = newEntryReader(x)
		n += x.n
	}
	w, err := r.begin(n, olds[0].level+1)
	if err != nil {
		return err
	}
	err = mergeEntries(sources, func(e *entry) {
		if e.bucketEnd > horizon {
			w.add(e)
		}
	})
	if err != nil {
		_ = w.file.Close()
		return err
	}
	r.all = r.all[:i]
	err = r.finish(w)
	for _, x := range olds {
		_ = x.file.Close() // it was only read, and is not needed any more
	}
	return err
}

// entryReader reads a run from front to back.
type entryReader struct {
	r    *bufio.Reader
	left int
	e    entry
}

func newEntryReader(x *run) *entryReader {
	section := io.NewSectionReader(x.file, 0, int64(x.n)*int64(entrySize))
	return &entryReader{r: bufio.NewReaderSize(section, spillBuffer), left: x.n}
}

// next moves on to the next entry; ok is false behind the last.
func (r *entryReader) next() (ok bool, err error) {
	if r.left == 0 {
		return false, nil
	}
	var b [entrySize]byte
	if _, err := io.ReadFull(r.r, b[:]); err != nil {
		return false, err
	}
	r.left--
	r.e = readEntry(b[:])
	return true, nil
}

// mergeEntries calls f with the entries of all sources in order of their ids. There are few sources.
func mergeEntries(sources []*entryReader, f func(*entry)) error {
	var live []*entryReader
	for _, s := range sources {
		ok, err := s.next()
		if err != nil {
			return err
		}
		if ok {
			live = append(live, s)
		}
	}
	for len(live) > 0 {
		first := 0
		for i := range live[1:] {
			if compareIDs(&live[i+1].e.id, &live[first].e.id) < 0 {
				first = i + 1
			}
		}
		f(&live[first].e)
		ok, err := live[first].next()
		if err != nil {
			return err
		}
		if !ok {
			live = slices.Delete(live, first, first+1)
		}
	}
	return nil
}

func (r *runs) each(f func(*entry)) error {
	for _, x := range r.all {
		s := newEntryReader(x)
		for {
			ok, err := s.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			f(&s.e)
		}
	}
	return nil
}

func (r *runs) close() {
	for _, x := range r.all {
		_ = x.file.Close() // only read, and not needed any more
	}
	r.all = nil
}
