package kafkatest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/faultnet"
)

// A Proxy passes Kafka requests on, and can lose, hold, change or delay them and their answers. It stands between the brokers
// ([Broker.Between]), before one broker ([NewProxy]), or between one process and all brokers ([Cluster.Door]). Its methods may
// be called from any goroutine while connections are open.
type Proxy struct {
	doors map[string]net.Listener // by the broker's address

	mu      sync.Mutex
	changed chan struct{} // closed at each change of what follows
	links   map[*link]struct{}
	faults  []*Injected
	held    map[kmsg.Key]bool
	frozen  Way
	delay   time.Duration
	down    bool
	arrived map[kmsg.Key]int
	passed  map[kmsg.Key]int
	err     error // the first frame that could not be read
}

func newProxy() *Proxy {
	return &Proxy{
		doors: map[string]net.Listener{}, changed: make(chan struct{}), links: map[*link]struct{}{},
		held: map[kmsg.Key]bool{}, arrived: map[kmsg.Key]int{}, passed: map[kmsg.Key]int{},
	}
}

// NewProxy listens on addr and passes everything to the broker at target until Close. Answers that name the broker's own
// address are not changed: a client has to use Dial.
func NewProxy(addr, target string) (*Proxy, error) {
	p := newProxy()
	err := p.listen(addr, target)
	if err == nil {
		go p.accept(target, false)
	}
	return p, err
}

func (p *Proxy) listen(addr, target string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("proxy for %s: %w", target, err)
	}
	p.doors[target] = ln
	return nil
}

// Seeds are the addresses to dial instead of the brokers'.
func (p *Proxy) Seeds() []string {
	var addrs []string
	for _, ln := range p.doors {
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs
}

// Dial is a dialer for a client whose every connection is to take a proxy before one broker.
func (p *Proxy) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, p.Seeds()[0])
}

// Close ends the listeners, all connections, and with them every request that waits.
func (p *Proxy) Close() {
	for _, ln := range p.doors {
		ln.Close()
	}
	p.Down()
}

// accept serves the clients of one broker. It ends with the listener.
func (p *Proxy) accept(target string, translate bool) {
	for {
		c, err := p.doors[target].Accept()
		if err != nil {
			return
		}
		go p.serve(c, target, translate)
	}
}

// serve ends with the client's connection or the broker's. A broker that is down shows as a reset.
func (p *Proxy) serve(client net.Conn, target string, translate bool) {
	l := &link{p: p, client: client, ended: make(chan struct{}), translate: translate}
	defer l.reset()
	broker, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	l.broker = broker
	if !p.join(l) {
		return
	}
	defer p.change(func() { delete(p.links, l) })
	l.run()
}

// join reports whether new connections are allowed.
func (p *Proxy) join(l *link) (up bool) {
	p.change(func() {
		if up = !p.down; up {
			p.links[l] = struct{}{}
		}
	})
	return up
}

// change changes the rules and wakes all who wait for another one.
func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// cutAll wants the lock.
func (p *Proxy) cutAll() {
	for l := range p.links {
		l.reset()
	}
}

// await waits until the rules say so. It returns false when the connection ended first.
func (p *Proxy) await(l *link, ok func() bool) bool {
	for {
		p.mu.Lock()
		now, changed := ok(), p.changed
		p.mu.Unlock()
		if now {
			return true
		}
		select {
		case <-changed:
		case <-l.ended:
			return false
		}
	}
}

// match finds the fault that takes a request.
func (p *Proxy) match(key kmsg.Key, frame []byte) *Injected {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.faults {
		if i.fault.Key != key {
			continue
		}
		req, err := faultnet.DecodeRequest(frame)
		if err != nil {
			p.note(err)
		}
		if i.takes(req) {
			return i
		}
	}
	return nil
}

func (p *Proxy) count(counts map[kmsg.Key]int, key kmsg.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts[key]++
}

func (p *Proxy) counted(counts map[kmsg.Key]int, key kmsg.Key) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return counts[key]
}

// fail keeps what a proxy could not read: its connection would silently do something else than the test wants.
func (p *Proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(err)
}

// note is fail, and wants the lock.
func (p *Proxy) note(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *Proxy) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
