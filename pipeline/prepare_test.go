package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A processor that starts while one broker of several is on its way out looks again, instead of ending with the first request
// that broker does not answer.
func TestALookThatABrokerFailsIsMadeAgain(t *testing.T) {
	dial := fmt.Errorf("describe: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
	for _, c := range []struct {
		name  string
		fails int // times
		with  error
		looks int
		end   error
	}{
		{"a broker that hangs up", 3, dial, 4, nil},
		{"a partition between two leaders", 2, fmt.Errorf("offsets: %w", kerr.NotLeaderForPartition), 3, nil},
		{"topics that are missing", 1, fmt.Errorf("%w: orders", ErrMissingTopics), 1, ErrMissingTopics},
		{"a right that is missing", 1, kerr.TopicAuthorizationFailed, 1, kerr.TopicAuthorizationFailed},
		{"brokers that never answer", 1000, dial, int(reachPatience/idlePoll) + 1, dial},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, looks := &Processor{cfg: Config{Logger: slog.New(slog.DiscardHandler)}, pipe: &Pipeline{app: "app"}}, 0
				began := time.Now()
				err := p.patiently(t.Context(), func() error {
					if looks++; looks <= c.fails {
						return c.with
					}
					return nil
				})
				if !errors.Is(err, c.end) || looks < c.looks || looks > c.looks+1 {
					t.Errorf("%d looks, %v; want %d and %v", looks, err, c.looks, c.end)
				}
				if took := time.Since(began); took > reachPatience+idlePoll {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
