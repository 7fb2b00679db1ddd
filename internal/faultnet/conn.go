package faultnet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn sees one whole request per Write, and reads whole answers.
type conn struct {
	net.Conn
	n *Network

	mu      sync.Mutex
	waiting map[int32]expectation // by correlation id
	late    [][]byte              // requests that sit in the socket, oldest first; nil when none does
	closed  bool

	// reading holds a token while one reads: the client, or who waits for an answer that is to be lost. It is no mutex: the second
	// waits for as long as the network does, and a bubble's clock stands still while somebody waits in a mutex.
	reading chan struct{}
	buf     []byte // rest of the answer being read
}

// expectation is what is known of an answer before it comes.
type expectation struct {
	key     kmsg.Key
	version int16
	stable  bool // the request is read_committed
	code    int16
	replace bool // replace its error code by code
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

// Write implements net.Conn for one whole request.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.n.gate(nil); err != nil {
		return 0, reset("write")
	}
	if len(b) < 12 {
		n, err := c.Conn.Write(b)
		return n, asReset("write", err)
	}
	if c.n.Latency > 0 {
		time.Sleep(rand.N(c.n.Latency))
	}
	key, version := kmsg.Key(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:]))
	o := c.n.decide(key, version)
	if o.Then != nil && o.Deed != DropResponse && o.Deed != DelayRequest {
		o.Then()
		if err := c.n.gate(nil); err != nil { // that may have frozen or cut the process
			return 0, reset("write")
		}
	}
	c.expect(key, version, b, o)
	return c.send(b, o)
}

func (c *conn) send(b []byte, o Order) (int, error) {
	switch o.Deed {
	case DropRequest:
		_ = c.Conn.Close()
		return 0, reset("write")
	case Hang:
		return len(b), nil
	case DropResponse:
		return c.sendInVain(b, o.Then)
	}
	if c.keep(b, o) {
		return len(b), nil
	}
	n, err := c.Conn.Write(b)
	return n, asReset("write", err)
}

// keep holds a request back, also one that comes behind such a one. It reports whether it did.
func (c *conn) keep(b []byte, o Order) bool {
	c.mu.Lock()
	if o.Deed != DelayRequest && c.late == nil {
		c.mu.Unlock()
		return false
	}
	if c.late == nil {
		go c.deliver(o.Delay)
	}
	c.late = append(c.late, bytes.Clone(b))
	c.mu.Unlock()
	if o.Then != nil {
		o.Then()
	}
	return true
}

// sendInVain sends a request, waits for its answer, and loses it.
func (c *conn) sendInVain(b []byte, then func()) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil {
		c.await(Correlation(b))
	}
	if then != nil {
		then()
	}
	_ = c.Conn.Close()
	return n, asReset("write", err)
}

// await reads until an answer comes, or the network's patience is over. The answers before it are lost too.
func (c *conn) await(correlation int32) {
	_ = c.Conn.SetReadDeadline(time.Now().Add(c.n.Patience))
	c.reading <- struct{}{}
	defer func() { <-c.reading }()
	for {
		f, err := c.frame()
		if err != nil || len(f) >= 8 && int32(binary.BigEndian.Uint32(f[4:])) == correlation {
			return
		}
	}
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
				time.Sleep(c.n.Patience)
				_ = c.Conn.Close()
			}
			return
		}
		b := c.late[0]
		c.late = c.late[1:]
		c.mu.Unlock()
		_, _ = c.Conn.Write(b) // a closed door is the fault's business
	}
}

func (c *conn) expect(key kmsg.Key, version int16, b []byte, o Order) {
	e := expectation{key: key, version: version, code: o.Code, replace: o.Deed == AnswerError}
	lagging := c.n.Lag.on() && (key == kmsg.Fetch || key == kmsg.ListOffsets)
	if lagging {
		e.stable = readCommitted(b)
	}
	if e.replace || lagging {
		c.mu.Lock()
		c.waiting[Correlation(b)] = e
		c.mu.Unlock()
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	c.reading <- struct{}{}
	defer func() { <-c.reading }()
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
	if n < 4 {
		return f, nil
	}
	corr := int32(binary.BigEndian.Uint32(f[4:]))
	c.mu.Lock()
	e, known := c.waiting[corr]
	delete(c.waiting, corr)
	c.mu.Unlock()
	if !known {
		return f, nil
	}
	return c.n.rewrite(e, corr, f), nil
}

// Close implements net.Conn.
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
		_ = c.Conn.Close()
		return
	}
	_ = c.Conn.SetReadDeadline(time.Now())
}
