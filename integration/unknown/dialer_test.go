package unknown

import (
	"context"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"
)

// dialer leads the client's connections to the proxies that stand before the brokers.
func (s settings) dialer() []kgo.Opt {
	if len(s.Via) == 0 {
		return nil
	}
	return []kgo.Opt{kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if via := s.Via[addr]; via != "" {
			addr = via
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	})}
}
