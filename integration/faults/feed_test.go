package faults

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	faultSeconds = 60  // what the faults take, roughly: the feed is paced to last that long
	reserve      = 10  // the last tenth of the feed waits for the end of the faults…
	trickle      = 100 // …at so many events a second, should they take longer
	feedTick     = 10 * time.Millisecond
)

// A feed writes all records, in order, while the faults happen.
type feed struct {
	records []*kgo.Record
	cl      *kgo.Client
	sent    atomic.Int64
	hurry   chan struct{} // closed: no more pacing
	done    chan error
}

func startFeed(t *testing.T, cl *kgo.Client, records []*kgo.Record) *feed {
	f := &feed{records: records, cl: cl, hurry: make(chan struct{}), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { f.done <- f.run(ctx) }()
	return f
}

// run is paced by the clock, not by the broker: what a dead broker held up is sent when it is back.
func (f *feed) run(ctx context.Context) error {
	var failed atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	next, credit := 0, 0.0
	for next < len(f.records) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.hurry:
			credit = float64(len(f.records))
		case <-tick.C:
			credit += f.rate(next) * feedTick.Seconds()
		}
		for ; credit >= 1 && next < len(f.records); credit-- {
			f.cl.Produce(ctx, f.records[next], promise) // waits while too many are unacknowledged
			next++
		}
		f.sent.Store(int64(next))
	}
	err := f.cl.Flush(ctx)
	if e := failed.Load(); e != nil {
		err = errors.Join(err, *e)
	}
	return err
}

// rate is in events a second.
func (f *feed) rate(next int) float64 {
	steady := len(f.records) - len(f.records)/reserve
	if next >= steady {
		return trickle
	}
	return float64(steady) / faultSeconds
}

// running reports whether events are still to come.
func (f *feed) running() bool { return int(f.sent.Load()) < len(f.records) }

// finish sends what is left at once and waits until all of it is acknowledged.
func (f *feed) finish(t *testing.T) {
	t.Helper()
	close(f.hurry)
	select {
	case err := <-f.done:
		if err != nil {
			t.Fatalf("feed: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("feed: not acknowledged within a minute")
	}
}
