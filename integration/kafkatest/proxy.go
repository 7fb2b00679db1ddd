package kafkatest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// Request keys that tests hold or cut.
const (
	EndTxn          int16 = 26 // a client decides its transaction
	WriteTxnMarkers int16 = 27 // the coordinator tells the partitions, over the network even to itself
)

// A Proxy passes Kafka requests on and can treat those of one key differently. Its methods may be
// called from any goroutine while connections are open.
type Proxy struct {
	target string
	ln     net.Listener

	mu    sync.Mutex
	held  map[int16]chan struct{}
	mute  map[int16]bool
	count map[int16]int
	conns map[net.Conn]struct{}
}

// NewProxy listens on addr and passes everything to target until Close.
func NewProxy(addr, target string) (*Proxy, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", target, err)
	}
	p := &Proxy{target: target, ln: ln, held: map[int16]chan struct{}{}, mute: map[int16]bool{}, count: map[int16]int{}, conns: map[net.Conn]struct{}{}}
	go p.accept()
	return p, nil
}

// Dial is a dialer for a client whose every connection is to take this proxy.
func (p *Proxy) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, p.ln.Addr().String())
}

// Hold makes requests of this key wait in the proxy until Release. Later requests on the same
// connection wait behind them.
func (p *Proxy) Hold(key int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[key] == nil {
		p.held[key] = make(chan struct{})
	}
}

// Release lets held requests of this key go.
func (p *Proxy) Release(key int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.held[key]; c != nil {
		close(c)
		delete(p.held, key)
	}
}

// Mute swallows the answers to requests of this key: the broker acts, the client never hears of it.
func (p *Proxy) Mute(key int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute[key] = true
}

// Passed is the number of requests of this key that the proxy has handed to the broker.
func (p *Proxy) Passed(key int16) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[key]
}

// Cut ends all connections; requests that are held on them are lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Close ends the listener, all connections, and with them every held request.
func (p *Proxy) Close() {
	p.ln.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	for key, c := range p.held {
		close(c)
		delete(p.held, key)
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		go p.serve(c)
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	broker, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer broker.Close()
	p.track(client, broker)
	defer p.forget(client, broker)
	muted := &correlations{ids: map[int32]bool{}}
	go func() {
		answers(client, broker, muted)
		client.Close()
	}()
	p.requests(broker, client, muted)
}

func (p *Proxy) track(cs ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range cs {
		p.conns[c] = struct{}{}
	}
}

func (p *Proxy) forget(cs ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range cs {
		delete(p.conns, c)
	}
}

// requests passes frames on: length, then key, version and correlation id.
func (p *Proxy) requests(to io.Writer, from io.Reader, muted *correlations) {
	for {
		frame, err := readFrame(from)
		if err != nil || len(frame) < 12 {
			return
		}
		key := int16(binary.BigEndian.Uint16(frame[4:]))
		wait, mute := p.rule(key)
		if mute {
			muted.add(int32(binary.BigEndian.Uint32(frame[8:])))
		}
		if wait != nil {
			<-wait
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
		p.passed(key)
	}
}

func (p *Proxy) passed(key int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[key]++
}

func (p *Proxy) rule(key int16) (wait <-chan struct{}, mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[key], p.mute[key]
}

// answers passes frames back: length, then correlation id.
func answers(to io.Writer, from io.Reader, muted *correlations) {
	for {
		frame, err := readFrame(from)
		if err != nil || len(frame) < 8 {
			return
		}
		if muted.take(int32(binary.BigEndian.Uint32(frame[4:]))) {
			continue
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// readFrame returns one whole frame, its length included.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// correlations are the requests of one connection whose answers are swallowed.
type correlations struct {
	mu  sync.Mutex
	ids map[int32]bool
}

func (c *correlations) add(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids[id] = true
}

func (c *correlations) take(id int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.ids[id]
	delete(c.ids, id)
	return was
}
