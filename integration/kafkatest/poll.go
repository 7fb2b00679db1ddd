package kafkatest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// pollEvery is short because what is waited for is often a few milliseconds away, and long enough
// that a waiting test costs no processor.
const pollEvery = 10 * time.Millisecond

// Poll calls try until it returns nil, and returns its last error when ctx ends first.
func Poll(ctx context.Context, try func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: last: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// Within fails the test unless try returns nil within the limit.
func Within(t testing.TB, limit time.Duration, what string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := Poll(ctx, try); err != nil {
		t.Fatalf("%s, not within %v: %v", what, limit, err)
	}
}
