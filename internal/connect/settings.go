package connect

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// DialTimeout bounds one connection attempt, TLS included.
const DialTimeout = 10 * time.Second

// Settings say how to reach the brokers and what they and we must prove. They are safe for concurrent use.
type Settings struct {
	Brokers  []string // host:port, asked in this order
	ClientID string
	TLS      *TLS           // nil: plain text
	Login    sasl.Mechanism // nil: no login
	User     string         // the login's, for messages
}

// Options are what a client needs to connect as the settings say, the addresses included.
func (s Settings) Options() []kgo.Opt {
	opts := []kgo.Opt{kgo.ClientID(s.ClientID), kgo.SeedBrokers(s.Brokers...)}
	if s.TLS != nil {
		opts = append(opts, kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, DialTimeout)
			defer cancel()
			return s.TLS.Dial(ctx, network, addr)
		}))
	}
	if s.Login != nil {
		opts = append(opts, kgo.SASL(s.Login))
	}
	return opts
}

// Protocol is Kafka's word for the settings (security.protocol).
func (s Settings) Protocol() string { return protocol(s.TLS != nil, s.Login != nil) }

func protocol(tls, login bool) string {
	switch {
	case tls && login:
		return "SASL_SSL"
	case tls:
		return "SSL"
	case login:
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}
