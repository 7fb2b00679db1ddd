package kafkatest

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Door returns the proxy of this name that stands before all brokers, for one process: who starts from its Seeds meets no
// broker elsewhere, because every answer that names a broker's address is changed to name the door's. It ends with the test.
// It knows the plain listener alone: what is encrypted cannot be read.
func (c *Cluster) Door(t testing.TB, name string) *Proxy {
	t.Helper()
	if p := c.doors[name]; p != nil {
		return p
	}
	p := newProxy()
	t.Cleanup(func() {
		p.Close()
		delete(c.doors, name)
		if err := p.failure(); err != nil {
			t.Errorf("door of %s: %v", name, err)
		}
	})
	for _, b := range c.Brokers {
		// Any free port: it is held until the end, so that no client can connect to itself there.
		if err := p.listen("127.0.0.1:0", b.Addr); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range c.Brokers {
		go p.accept(b.Addr, true)
	}
	c.doors[name] = p
	return p
}

// namesBrokers reports whether answers to this key carry addresses that franz-go dials.
func namesBrokers(key kmsg.Key) bool {
	switch key {
	case kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster, kmsg.Produce, kmsg.Fetch:
		return true
	}
	return false
}

// translate puts the door's addresses in the place of the brokers'. It reports whether there were any.
func (p *Proxy) translate(resp kmsg.Response) (changed bool) {
	put := func(host *string, port *int32) {
		if *port > 0 { // no coordinator yet: no address
			*host, *port = p.through(*host, *port)
			changed = true
		}
	}
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			put(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		put(&r.Host, &r.Port)
		for i := range r.Coordinators {
			put(&r.Coordinators[i].Host, &r.Coordinators[i].Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			put(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.ProduceResponse: // the new leader of a partition that has moved (KIP-951)
		for i := range r.Brokers {
			put(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.FetchResponse:
		for i := range r.Brokers {
			put(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	}
	return changed
}

// through is the door's address for a broker's.
func (p *Proxy) through(host string, port int32) (string, int32) {
	addr := net.JoinHostPort(host, strconv.Itoa(int(port)))
	ln := p.doors[addr]
	if ln == nil {
		p.fail(fmt.Errorf("an answer names the broker at %s, which the door does not know: its client went around the door", addr))
		return host, port
	}
	at := ln.Addr().(*net.TCPAddr)
	return at.IP.String(), int32(at.Port)
}
