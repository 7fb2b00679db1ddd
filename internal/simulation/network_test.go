//go:build synctests

package simulation

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// deed is what the network does with one request.
type deed uint8

const (
	pass         deed = iota
	dropRequest       // the request never arrives, the connection dies
	dropResponse      // the broker acts, the answer is lost, the connection dies
	delayRequest      // the request sits in a socket and arrives late, even when its sender is gone by then
	hang              // the request never arrives, the connection stays open and silent
	answerError       // the broker acts and the answer carries another error code
)

// order says what to do with one request, and the details that some deeds need.
type order struct {
	deed  deed
	delay time.Duration
	code  int16
	then  func() // may be nil: happens before the request is sent, or, when its answer is dropped, after the broker acted
}

// request is what the network sees of a request.
type request struct {
	key, version int16
	n            int // how many requests this process has sent, this one included
}

// network is one process's way to the brokers.
type network struct {
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	lag     *markerLag
	latency time.Duration // of a request, at most; each has its own

	mu     sync.Mutex
	conns  map[*conn]struct{}
	cut    bool
	frozen chan struct{} // not nil: reads and writes wait until it is closed
	rules  []*rule
	watch  func(request) order // may be nil: sees each request that no rule is about
	sent   atomic.Int64
	hits   map[string]int // how often the rules of a name acted
}

// rule acts on requests of one key until it is used up.
type rule struct {
	name  string
	key   int16
	skip  int   // so many requests of the key pass before
	left  int   // so many are acted on
	order order // its then happens at the first only
}

func newNetwork(dial func(context.Context, string, string) (net.Conn, error), lag *markerLag) *network {
	return &network{dial: dial, lag: lag, conns: map[*conn]struct{}{}, hits: map[string]int{}}
}

func reset(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, syscall.ECONNRESET)}
}

// asReset makes a closed pipe look like a connection that a peer or the network cut: the client takes other errors for fatal.
func asReset(op string, err error) error {
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return reset(op)
	}
	return err
}

func (n *network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := n.gate(ctx.Done()); err != nil {
		return nil, err
	}
	inner, err := n.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, n: n, waiting: map[int32]expectation{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		inner.Close()
		return nil, refused()
	}
	n.conns[c] = struct{}{}
	return c, nil
}

func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// gate waits while the process is frozen, and refuses when it is cut off.
func (n *network) gate(done <-chan struct{}) error {
	for {
		n.mu.Lock()
		frozen, cut := n.frozen, n.cut
		n.mu.Unlock()
		switch {
		case cut && frozen == nil:
			return refused()
		case frozen == nil:
			return nil
		}
		select {
		case <-frozen:
		case <-done:
			return refused()
		}
	}
}

// down cuts every connection and refuses new ones until up.
func (n *network) down() {
	n.mu.Lock()
	n.cut = true
	conns := n.conns
	n.conns = map[*conn]struct{}{}
	n.mu.Unlock()
	for c := range conns {
		c.abandon()
	}
}

func (n *network) up() {
	n.mu.Lock()
	n.cut = false
	n.mu.Unlock()
}

// freeze stops all traffic, as SIGSTOP would, until thaw.
func (n *network) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen == nil {
		n.frozen = make(chan struct{})
	}
}

func (n *network) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen != nil {
		close(n.frozen)
		n.frozen = nil
	}
}

func (n *network) arm(r *rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = append(n.rules, r)
}

// heal ends every fault of the process's network.
func (n *network) heal() {
	n.mu.Lock()
	n.rules, n.watch = nil, nil
	n.mu.Unlock()
	n.lag.set(0)
	n.thaw()
	n.up()
}

// decide finds what to do with a request.
func (n *network) decide(key, version int16) order {
	r := request{key, version, int(n.sent.Add(1))}
	n.mu.Lock()
	defer n.mu.Unlock()
	if o, ok := n.apply(key); ok || n.watch == nil {
		return o
	}
	return n.watch(r)
}

func (n *network) apply(key int16) (order, bool) {
	for _, r := range n.rules {
		if r.key != key || r.left == 0 {
			continue
		}
		if r.skip > 0 {
			r.skip--
			continue
		}
		r.left--
		n.hits[r.name]++
		o := r.order
		r.order.then = nil
		return o, true
	}
	return order{}, false
}

// taken returns how often the rules of each name acted.
func (n *network) taken() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]int{}
	for k, v := range n.hits {
		out[k] = v
	}
	return out
}

// conn sees one whole request per Write, and reads whole answers.
type conn struct {
	net.Conn
	n *network

	mu      sync.Mutex
	waiting map[int32]expectation // by correlation id
	late    [][]byte              // requests that sit in the socket, oldest first; nil when none does
	closed  bool
	buf     []byte // rest of the answer being read
}

// expectation is what is known of an answer before it comes.
type expectation struct {
	key, version int16
	stable       bool // the request is read_committed
	code         int16
	replace      bool // replace its error code by code
}

const brokerActs = 5 * time.Millisecond // a broker needs this long at most, in fake time

func (c *conn) Write(b []byte) (int, error) {
	if err := c.n.gate(nil); err != nil {
		return 0, reset("write")
	}
	if len(b) < 12 {
		n, err := c.Conn.Write(b)
		return n, asReset("write", err)
	}
	if c.n.latency > 0 {
		time.Sleep(rand.N(c.n.latency))
	}
	key, version := int16(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:]))
	o := c.n.decide(key, version)
	if o.then != nil && o.deed != dropResponse {
		o.then()
		if err := c.n.gate(nil); err != nil { // that may have frozen or cut the process
			return 0, reset("write")
		}
	}
	c.expect(key, version, b, o)
	return c.send(b, o)
}

func (c *conn) send(b []byte, o order) (int, error) {
	switch o.deed {
	case dropRequest:
		c.Conn.Close()
		return 0, reset("write")
	case hang:
		return len(b), nil
	case dropResponse:
		n, err := c.Conn.Write(b)
		time.Sleep(brokerActs)
		if o.then != nil {
			o.then()
		}
		c.Conn.Close()
		return n, asReset("write", err)
	}
	c.mu.Lock()
	if o.deed == delayRequest || c.late != nil {
		if c.late == nil {
			go c.deliver(o.delay)
		}
		c.late = append(c.late, append([]byte(nil), b...))
		c.mu.Unlock()
		return len(b), nil
	}
	c.mu.Unlock()
	n, err := c.Conn.Write(b)
	return n, asReset("write", err)
}

// deliver hands over what sits in the socket, in order, when its time has come.
func (c *conn) deliver(after time.Duration) {
	time.Sleep(after)
	for {
		c.mu.Lock()
		if len(c.late) == 0 {
			c.late = nil
			closed := c.closed
			c.mu.Unlock()
			if closed {
				time.Sleep(brokerActs)
				c.Conn.Close()
			}
			return
		}
		b := c.late[0]
		c.late = c.late[1:]
		c.mu.Unlock()
		c.Conn.Write(b)
	}
}

func (c *conn) expect(key, version int16, b []byte, o order) {
	e := expectation{key: key, version: version, code: o.code, replace: o.deed == answerError}
	lagging := c.n.lag.on() && (key == keyFetch || key == keyListOffsets)
	if lagging {
		e.stable = readCommitted(key, version, b)
	}
	if e.replace || lagging {
		c.mu.Lock()
		c.waiting[int32(binary.BigEndian.Uint32(b[8:]))] = e
		c.mu.Unlock()
	}
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.buf) == 0 {
		frame, err := c.frame()
		if err != nil {
			return 0, asReset("read", err)
		}
		c.buf = frame
	}
	if err := c.n.gate(nil); err != nil {
		return 0, reset("read")
	}
	n := copy(p, c.buf)
	c.buf = c.buf[n:]
	return n, nil
}

// frame reads one answer with its length in front.
func (c *conn) frame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	f := make([]byte, 4+n)
	copy(f, size[:])
	if _, err := io.ReadFull(c.Conn, f[4:]); err != nil {
		return nil, err
	}
	corr := int32(binary.BigEndian.Uint32(f[4:]))
	c.mu.Lock()
	e, known := c.waiting[corr]
	delete(c.waiting, corr)
	c.mu.Unlock()
	if !known {
		return f, nil
	}
	body := c.n.rewrite(e, f[4:])
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), nil
}

func (c *conn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	c.abandon()
	return nil
}

// abandon closes the connection now, or, when something sits in the socket, once that has been delivered.
func (c *conn) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.late == nil {
		c.Conn.Close()
		return
	}
	_ = c.Conn.SetReadDeadline(time.Now())
}
