package kafkatest

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Deed is what a proxy does with one request or its answer.
type Deed uint8

// The deeds. Those on requests come first.
const (
	Pass         Deed = iota // nothing but Then
	DropRequest              // the request never arrives; the connection is reset
	Hang                     // the request never arrives, nor any later one; the connection stays open and silent
	Refuse                   // the request never arrives; it is answered with Code
	DelayRequest             // the request arrives after Delay, even when its sender is gone by then
	DropResponse             // the broker acts; instead of the answer the connection is reset
	HangResponse             // the broker acts; neither this nor any later answer comes, the connection stays open
	AnswerError              // the broker acts; the answer carries Code
)

func (d Deed) String() string {
	return [...]string{"pass", "drop-request", "hang", "refuse", "delay-request", "drop-response", "hang-response", "answer-error"}[d]
}

// onResponse reports whether the deed happens when the broker has acted.
func (d Deed) onResponse() bool { return d >= DropResponse }

// A Fault says what happens to requests of one key.
type Fault struct {
	// Key is the kind of request, such as kmsg.EndTxn.
	Key kmsg.Key
	// Deed is what happens.
	Deed Deed
	// Code is Kafka's error code, of Refuse and AnswerError.
	Code int16
	// Delay is how late the request arrives, of DelayRequest. Later requests of the connection wait behind it.
	Delay time.Duration
	// If chooses among the requests of the key; nil takes all. It must not call the proxy.
	If func(kmsg.Request) bool
	// Skip is how many of the chosen requests pass before.
	Skip int
	// Times is how many are hit then; 0 is all, until Heal.
	Times int
	// Then, if not nil, is called at each hit: of a deed on a request before anything happens to it, of a deed on an answer
	// when the broker has acted and the client does not know yet. The connection waits for its return.
	Then func()
}

// Injected is a fault at work.
type Injected struct {
	fault Fault
	seen  int // chosen requests
	hits  atomic.Int64
}

// Hits is how often the fault has happened so far.
func (i *Injected) Hits() int { return int(i.hits.Load()) }

// takes counts a request of the key and reports whether the fault is for it.
func (i *Injected) takes(req kmsg.Request) bool {
	if i.fault.If != nil && (req == nil || !i.fault.If(req)) {
		return false
	}
	i.seen++
	n := i.seen - i.fault.Skip
	return n > 0 && (i.fault.Times == 0 || n <= i.fault.Times)
}

func (i *Injected) happens() {
	if i.fault.Then != nil {
		i.fault.Then()
	}
	i.hits.Add(1)
}

// Inject arms a fault. Of several that take a request the first one armed acts.
func (p *Proxy) Inject(f Fault) *Injected {
	i := &Injected{fault: f}
	p.change(func() { p.faults = append(p.faults, i) })
	return i
}

// A Way is a direction through a proxy, or both.
type Way uint8

// The ways.
const (
	Requests  Way = 1 << iota // to the brokers
	Responses                 // to the client
	Both      = Requests | Responses
)

// Freeze stops what goes these ways until Thaw. Connections stay, new ones too, and nothing is lost: as on a cut cable,
// whose ends send again. A request that is held back arrives after Thaw even when its sender is gone by then.
func (p *Proxy) Freeze(w Way) { p.change(func() { p.frozen |= w }) }

// Thaw ends Freeze.
func (p *Proxy) Thaw() { p.change(func() { p.frozen = 0 }) }

// Hold makes requests of this key wait in the proxy until Release. Later requests on the same connection wait behind them.
func (p *Proxy) Hold(key kmsg.Key) { p.change(func() { p.held[key] = true }) }

// Release lets held requests of this key go, also those whose sender is gone.
func (p *Proxy) Release(key kmsg.Key) { p.change(func() { delete(p.held, key) }) }

// Delay makes every request wait, one after the other on a connection; 0 ends it.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

// Cut resets all connections; requests that wait on them are lost.
func (p *Proxy) Cut() { p.change(p.cutAll) }

// Down is Cut, and new connections are reset too, until Up.
func (p *Proxy) Down() { p.change(func() { p.down = true; p.cutAll() }) }

// Up ends Down.
func (p *Proxy) Up() { p.change(func() { p.down = false }) }

// Heal ends every fault, and what waits goes on.
func (p *Proxy) Heal() {
	p.change(func() {
		p.faults, p.frozen, p.delay, p.down = nil, 0, 0, false
		clear(p.held)
	})
}

// Arrived is the number of requests of this key that have come in, whatever happened to them then.
func (p *Proxy) Arrived(key kmsg.Key) int { return p.counted(p.arrived, key) }

// Passed is the number of requests of this key that the proxy has handed to a broker.
func (p *Proxy) Passed(key kmsg.Key) int { return p.counted(p.passed, key) }
