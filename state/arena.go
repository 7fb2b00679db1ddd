package state

const arenaChunk = 64 << 10

// arena keeps the bytes of one transaction. Slices that it handed out never move and stay valid until reset, which keeps
// the memory for the next transaction. The zero value is ready.
type arena struct {
	chunks [][]byte // chunks[:cur] are full, chunks[cur] is filled up to len
	cur    int
}

// copy returns b's bytes in the arena; never nil, since nil means deleted.
func (a *arena) copy(b []byte) []byte {
	dst := a.room(len(b))
	copy(dst, b)
	return dst
}

func (a *arena) room(n int) []byte {
	for a.cur < len(a.chunks) {
		c := a.chunks[a.cur]
		if used := len(c); used+n <= cap(c) {
			a.chunks[a.cur] = c[:used+n]
			return c[used : used+n : used+n]
		}
		a.cur++
	}
	a.chunks = append(a.chunks, make([]byte, n, max(n, arenaChunk)))
	return a.chunks[a.cur][:n:n]
}

// reset forgets the bytes. A large transaction's memory is given back over the next ones, half of what is unused each
// time, so that neither a burst keeps it for ever nor an ordinary variation allocates.
func (a *arena) reset() {
	if used := a.cur + 1; used < len(a.chunks) {
		keep := used + (len(a.chunks)-used)/2
		clear(a.chunks[keep:])
		a.chunks = a.chunks[:keep]
	}
	for i := range a.chunks {
		a.chunks[i] = a.chunks[i][:0]
	}
	a.cur = 0
}
