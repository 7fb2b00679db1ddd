package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// Survey is what was found out about a cluster's doors.
type Survey struct {
	Bootstrap  []Door   // in the order of Settings.Brokers, up to the first that opened; all of them when it is to be complete
	Via        string   // the bootstrap address that opened, empty if none did
	Brokers    []Broker // what the brokers advertise
	ClusterID  string
	Controller int32
}

// Broker is one broker as the cluster advertises it to clients of this listener.
type Broker struct {
	ID   int32
	Addr string
	Door Door
}

// Look knocks at the bootstrap addresses until one opens, asks it which brokers the cluster advertises, and knocks at those.
// With all it knocks at every bootstrap address. It takes about ten seconds at most for each address that does not answer; ctx
// ends it early.
func (s Settings) Look(ctx context.Context, all bool) Survey {
	var found Survey
	for _, addr := range s.Brokers {
		door := s.knock(ctx, addr)
		if door.Fault == nil && found.Via == "" {
			found.advertised(door)
		}
		found.Bootstrap = append(found.Bootstrap, door)
		if found.Via != "" && !all {
			break
		}
	}
	s.knockAll(ctx, &found)
	return found
}

// advertised takes over what an open door says of the cluster.
func (f *Survey) advertised(d Door) {
	f.Via, f.Controller = d.Addr, d.answer.ControllerID
	if d.answer.ClusterID != nil {
		f.ClusterID = *d.answer.ClusterID
	}
	for _, b := range d.answer.Brokers {
		f.Brokers = append(f.Brokers, Broker{ID: b.NodeID, Addr: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))})
	}
}

// knockAll knocks at all advertised addresses at once; one that opened as a bootstrap address is not asked again.
func (s Settings) knockAll(ctx context.Context, f *Survey) {
	var wait sync.WaitGroup
	for i := range f.Brokers {
		b := &f.Brokers[i]
		if b.Addr == f.Via {
			b.Door = f.door(f.Via)
			continue
		}
		wait.Go(func() {
			b.Door = s.knock(ctx, b.Addr)
			if b.Door.Fault != nil {
				b.Door.Fault = stray(f.Via, *b, b.Door.Fault)
			}
		})
	}
	wait.Wait()
}

func (f *Survey) door(addr string) Door {
	for _, d := range f.Bootstrap {
		if d.Addr == addr {
			return d
		}
	}
	return Door{Addr: addr}
}

func stray(via string, b Broker, why *Fault) *Fault {
	return &Fault{Kind: StrayAdvertisement, Addr: via, Err: why,
		Cause:  fmt.Sprintf("it answers, and says that broker %d is to be reached at %s; there: %s", b.ID, b.Addr, why.Cause),
		Remedy: fmt.Sprintf("have advertised.listeners of broker %d name an address that this host can use, or make %s usable from here: %s", b.ID, b.Addr, why.Remedy)}
}

// Fault is why nothing can be done with the cluster: no bootstrap address opened, or no broker can be reached where the cluster
// says it is. nil: at least one broker can be used. A mistake that waiting cannot cure is named before an address that is only
// down.
func (f Survey) Fault() *Fault {
	if f.Via == "" {
		return worst(f.Bootstrap)
	}
	var doors []Door
	for _, b := range f.Brokers {
		if b.Door.Fault == nil {
			return nil
		}
		doors = append(doors, b.Door)
	}
	return worst(doors)
}

func worst(doors []Door) *Fault {
	var first *Fault
	for _, d := range doors {
		if d.Fault != nil && (first == nil || first.Passes() && !d.Fault.Passes()) {
			first = d.Fault
		}
	}
	return first
}

// Strays are the advertised brokers that cannot be reached.
func (f Survey) Strays() []*Fault {
	var all []*Fault
	for _, b := range f.Brokers {
		if b.Door.Fault != nil {
			all = append(all, b.Door.Fault)
		}
	}
	return all
}

// Check is Look for a command that is about to connect: the fault that keeps it from working, as an error, within limit.
func (s Settings) Check(ctx context.Context, limit time.Duration) error {
	looking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f := s.Look(looking, false).Fault()
	if err := ctx.Err(); err != nil { // told to stop: what it met then is no fault of the cluster's
		return err
	}
	if f == nil {
		return nil
	}
	return f
}

// FaultOf is the fault in err's chain, nil if there is none.
func FaultOf(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return nil
}
