package pipeline

// arena holds the bytes of a transaction's outputs. They stay valid until reset, which the owner calls once every record of
// the transaction has been delivered or given up.
type arena struct {
	buf  []byte
	used int // bytes of the transaction, over all chunks
}

// tail returns an empty slice whose spare capacity is the free part of the arena. It is never nil: a codec that appends
// nothing to it has encoded no bytes, one that returns nil has encoded Kafka's null.
func (a *arena) tail() []byte {
	if a.buf == nil {
		a.buf = make([]byte, 0, 64<<10)
	}
	return a.buf[len(a.buf):]
}

// keep makes b, which was built by appending to tail, part of the arena and returns it with no spare capacity; nil stays nil.
func (a *arena) keep(b []byte) []byte {
	a.used += len(b)
	if free := cap(a.buf) - len(a.buf); len(b) > free { // b moved to memory of its own: begin a chunk that has room
		a.buf = make([]byte, 0, max(64<<10, 2*a.used))
	} else {
		a.buf = a.buf[:len(a.buf)+len(b)]
	}
	return b[:len(b):len(b)]
}

func (a *arena) reset() { a.buf, a.used = a.buf[:0], 0 }
