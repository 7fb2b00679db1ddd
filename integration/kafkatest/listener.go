package kafkatest

import (
	"fmt"
	"strings"
)

// A Listener is one more door of a broker, beside the plain one that the test itself uses.
type Listener struct {
	// Name is in capitals, and the key of Broker.Listeners.
	Name string
	// Protocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
	Protocol string
	// Advertise is what clients are told to dial, host:port; empty: where the broker listens.
	Advertise string
	// Config are properties of this listener alone, such as "ssl.client.auth".
	Config map[string]string
}

// addListeners opens the listeners of Options.Listeners on ports that no other kind of a single broker uses.
func addListeners(o Options, s slot, index int, add func(name, protocol, addr, advertise string, config map[string]string)) error {
	if len(o.Listeners) > 0 && (o.Brokers > 1 || o.Proxied || len(o.Listeners) > maxListeners) {
		return fmt.Errorf("%d listeners: at most %d, on a single broker without a proxy", len(o.Listeners), maxListeners)
	}
	for i, l := range o.Listeners {
		addr := s.addr(listenerPort(i), index)
		advertise := l.Advertise
		if advertise == "" {
			advertise = addr
		}
		add(l.Name, l.Protocol, addr, advertise, l.Config)
	}
	return nil
}

// listenerAddrs is where the listeners of Options.Listeners listen, by name.
func listenerAddrs(o Options, s slot, index int) map[string]string {
	addrs := map[string]string{}
	for i, l := range o.Listeners {
		addrs[l.Name] = s.addr(listenerPort(i), index)
	}
	return addrs
}

func listenerKey(name, key string) string {
	return "listener.name." + strings.ToLower(name) + "." + key
}
