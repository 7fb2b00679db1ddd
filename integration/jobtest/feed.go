package jobtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/ledger/generate"
)

const feedTick = 10 * time.Millisecond

// A Feed writes all records, in order, while the faults happen.
type Feed struct {
	records []*kgo.Record
	rate    func(next int) float64
	cl      *kgo.Client
	sent    atomic.Int64
	hurry   chan struct{} // closed: no more pacing
	stop    chan struct{} // closed: no more events
	done    chan error
}

// StartFeed writes until all records are written or the test ends. rate, in events a second, is asked with the index of the next.
func StartFeed(t testing.TB, cl *kgo.Client, records []*kgo.Record, rate func(next int) float64) *Feed {
	f := &Feed{records: records, rate: rate, cl: cl, hurry: make(chan struct{}), stop: make(chan struct{}), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { f.done <- f.run(ctx) }()
	return f
}

// run is paced by the clock, not by the broker: what a dead broker held up is sent when it is back.
func (f *Feed) run(ctx context.Context) error {
	var failed atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	next, credit := 0, 0.0
	for stopped := false; next < len(f.records) && !stopped; {
		select {
		case <-f.stop:
			stopped = true
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

// Sent is how many events have been handed to the client.
func (f *Feed) Sent() int { return int(f.sent.Load()) }

// Running reports whether events are still to come.
func (f *Feed) Running() bool { return int(f.sent.Load()) < len(f.records) }

// Finish sends what is left at once and waits until all of it is acknowledged.
func (f *Feed) Finish(t testing.TB) {
	t.Helper()
	close(f.hurry)
	f.await(t)
}

// Stop sends no more and waits until all that was sent is acknowledged.
func (f *Feed) Stop(t testing.TB) {
	t.Helper()
	close(f.stop)
	f.await(t)
}

func (f *Feed) await(t testing.TB) {
	t.Helper()
	select {
	case err := <-f.done:
		if err != nil {
			t.Fatalf("feed: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("feed: not acknowledged within a minute")
	}
}

// Record is a generated event as a record of the input.
func Record(input string, e generate.Record) *kgo.Record {
	r := &kgo.Record{Topic: input, Key: e.Key, Value: e.Value}
	for _, h := range e.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return r
}
