package campaign

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// A commit is one transaction as a committed reader saw it.
type commit struct {
	partition     int32
	written, seen time.Time // by the writer's clock, which is this machine's; by the reader
	writer        string    // transactional id: <app>-<instance>-<worker>
}

// commits follows the applied markers of the state topic from the side.
type commits struct {
	mu   sync.Mutex
	seen []commit
	err  error
}

// followCommits reads until the test ends.
func followCommits(t *testing.T, seeds []string) *commits {
	t.Helper()
	cl := kafkatest.Client(t, seeds, kgo.ConsumeTopics(topics.StateTopic(app, "post")),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50*time.Millisecond), kgo.DialTimeout(2*time.Second),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	c := &commits{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.follow(ctx, cl)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return c
}

func (c *commits) follow(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx) // errors are the brokers' faults: the client tries again
		now := time.Now()
		c.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) { c.add(now, r) })
		c.mu.Unlock()
	}
}

func (c *commits) add(now time.Time, r *kgo.Record) {
	if !state.IsMarker(r.Key) {
		return
	}
	m, err := state.ParseMarker(r.Value)
	if err != nil {
		c.err = fmt.Errorf("marker at %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		return
	}
	c.seen = append(c.seen, commit{r.Partition, r.Timestamp, now, m.Writer})
}

// count is the number of commits so far.
func (c *commits) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// failure is what could not be read.
func (c *commits) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// recovered is when each partition had committed something written after from, or what is missing.
func (c *commits) recovered(from time.Time) (at time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := map[int32]time.Time{}
	for i := len(c.seen) - 1; i >= 0 && c.seen[i].seen.After(from); i-- { // later ones are overwritten by earlier ones
		if k := c.seen[i]; k.written.After(from) {
			first[k.partition] = k.seen
		}
	}
	for _, seen := range first {
		if seen.After(at) {
			at = seen
		}
	}
	if len(first) < partitions {
		err = fmt.Errorf("%d of %d partitions have committed what was written since", len(first), partitions)
	}
	return at, err
}

// stood is the longest time within which a partition showed its readers nothing new, from its last commit before one moment
// to its first commit after the other.
func (c *commits) stood(from, until time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, longest := map[int32]time.Time{}, time.Duration(0)
	for _, k := range c.seen {
		before, known := last[k.partition]
		if known && k.seen.After(from) && before.Before(until) {
			longest = max(longest, k.seen.Sub(before))
		}
		last[k.partition] = k.seen
	}
	return longest
}

// by counts the commits of an instance written after a moment.
func (c *commits) by(instance string, from time.Time) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.seen) - 1; i >= 0 && c.seen[i].seen.After(from); i-- {
		if c.seen[i].written.After(from) && belongs(c.seen[i].writer, instance) {
			n++
		}
	}
	return n
}

func belongs(writer, instance string) bool {
	prefix := app + "-" + instance + "-"
	return len(writer) > len(prefix) && writer[:len(prefix)] == prefix
}

// awaitBy waits for a commit of an instance written after a moment.
func (c *commits) awaitBy(t *testing.T, instance string, from time.Time) {
	t.Helper()
	kafkatest.Within(t, patience, instance+" commits", func(context.Context) error {
		if c.by(instance, from) == 0 {
			return fmt.Errorf("no commit of %s", instance)
		}
		return nil
	})
}
