package faultnet

import (
	"context"
	"maps"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DialFunc makes a connection; net.Dialer's DialContext is one.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Network is one process's way to the brokers. Its methods are safe for concurrent use; set the fields before the first Dial.
type Network struct {
	// Latency of a request, at most; each has its own.
	Latency time.Duration
	// Patience is how long a broker may need for an answer that is to be lost; then it counts as given. New sets 5 ms.
	Patience time.Duration
	// Lag makes one topic's transaction markers late. New sets one that does nothing.
	Lag *MarkerLag

	dial DialFunc

	mu     sync.Mutex
	conns  map[*conn]struct{}
	cut    bool
	frozen chan struct{} // not nil: reads and writes wait until it is closed
	rules  []*Rule
	watch  func(Request) Order // may be nil: sees each request that no rule is about
	sent   int
	hits   map[string]int // how often the rules of a name acted
}

// New returns a network without faults.
func New(dial DialFunc) *Network {
	return &Network{Patience: 5 * time.Millisecond, Lag: &MarkerLag{}, dial: dial, conns: map[*conn]struct{}{}, hits: map[string]int{}}
}

// Dial connects through the network; it fits kgo.Dialer. It waits while the network is frozen, until ctx ends.
func (n *Network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := n.gate(ctx.Done()); err != nil {
		return nil, err
	}
	inner, err := n.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, n: n, waiting: map[int32]expectation{}, reading: make(chan struct{}, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		_ = inner.Close()
		return nil, refused()
	}
	n.conns[c] = struct{}{}
	return c, nil
}

func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// gate waits while the process is frozen, and refuses when it is cut off.
func (n *Network) gate(done <-chan struct{}) error {
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

// Down cuts every connection and refuses new ones until Up. What sits in a socket still arrives.
func (n *Network) Down() {
	n.mu.Lock()
	n.cut = true
	conns := n.conns
	n.conns = map[*conn]struct{}{}
	n.mu.Unlock()
	for c := range conns {
		c.abandon()
	}
}

// Up ends Down.
func (n *Network) Up() {
	n.mu.Lock()
	n.cut = false
	n.mu.Unlock()
}

// Freeze stops all traffic, as SIGSTOP of the process would, until Thaw.
func (n *Network) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen == nil {
		n.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (n *Network) Thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen != nil {
		close(n.frozen)
		n.frozen = nil
	}
}

// Arm adds a rule, which is the network's from now on.
func (n *Network) Arm(r *Rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = append(n.rules, r)
}

// Disarm ends a rule before it is used up.
func (n *Network) Disarm(r *Rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.Left = 0
}

// Watch asks f about each request that no rule is about. f must not call the network; an order's Then may.
func (n *Network) Watch(f func(Request) Order) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch = f
}

// Heal ends every fault.
func (n *Network) Heal() {
	n.mu.Lock()
	n.rules, n.watch = nil, nil
	n.mu.Unlock()
	n.Lag.Set(0)
	n.Thaw()
	n.Up()
}

// decide finds what to do with a request.
func (n *Network) decide(key kmsg.Key, version int16) Order {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent++
	if o, ok := n.apply(key); ok || n.watch == nil {
		return o
	}
	return n.watch(Request{key, version, n.sent})
}

func (n *Network) apply(key kmsg.Key) (Order, bool) {
	for _, r := range n.rules {
		if r.Key != key || r.Left == 0 {
			continue
		}
		if r.Skip > 0 {
			r.Skip--
			continue
		}
		r.Left--
		n.hits[r.Name]++
		o := r.Order
		r.Order.Then = nil
		return o, true
	}
	return Order{}, false
}

// Taken returns how often the rules of each name acted.
func (n *Network) Taken() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.hits)
}
