package soak

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// readers are read_committed readers of the output's partitions: when each of them got something.
type readers struct {
	mu  sync.Mutex
	got [partitions][]time.Time
}

// followOutput reads until the test ends.
func followOutput(t *testing.T, seeds []string) *readers {
	t.Helper()
	cl := kafkatest.Client(t, seeds, kgo.ConsumeTopics(output), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(50*time.Millisecond), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	r := &readers{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.follow(ctx, cl)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

func (r *readers) follow(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx) // errors are the brokers' restarts: the client tries again
		now := time.Now()
		r.mu.Lock()
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				r.got[p.Partition] = append(r.got[p.Partition], now)
			}
		})
		r.mu.Unlock()
	}
}

// stoodStill is the longest time in which some partition's reader got nothing, of all that touch the span. A reader that has
// got nothing since counts up to the span's end.
func (r *readers) stoodStill(from, to time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var longest time.Duration
	for _, got := range r.got {
		longest = max(longest, longestGap(got, from, to))
	}
	return longest
}

func longestGap(got []time.Time, from, to time.Time) (longest time.Duration) {
	last := from
	for _, at := range got {
		if at.After(from) {
			longest = max(longest, at.Sub(last))
		}
		if at.After(to) {
			return longest
		}
		last = at
	}
	return max(longest, to.Sub(last))
}

func TestTheLongestGapReachesOverTheEndsOfTheSpan(t *testing.T) {
	zero := time.Unix(0, 0)
	at := func(seconds ...int) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, zero.Add(time.Duration(s)*time.Second))
		}
		return times
	}
	for _, try := range []struct {
		got  []time.Time
		want time.Duration
	}{
		{at(1, 9, 11, 12, 18, 19, 20, 30), 10 * time.Second}, // from before its end to behind it
		{at(1, 11, 12, 19, 21), 10 * time.Second},            // from before its begin
		{at(9, 11, 12, 17, 21), 5 * time.Second},
		{at(9, 11), 9 * time.Second}, // nothing since
		{nil, 10 * time.Second},
	} {
		if got := longestGap(try.got, zero.Add(10*time.Second), zero.Add(20*time.Second)); got != try.want {
			t.Errorf("%v: %v, want %v", try.got, got, try.want)
		}
	}
}
