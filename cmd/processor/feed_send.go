package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// flushLimit bounds the wait for answers after a signal.
const flushLimit = 10 * time.Second

// feeder sends records and keeps the account of them. It closes its client at the end.
type feeder struct {
	client   *kgo.Client
	target   feedTarget
	report   *feedReport
	progress *progress
	rate     float64
	pending  sync.WaitGroup // promises
}

// run feeds until the source is empty, a signal comes, or the topic turns out to be unusable; then it waits for the answers. The
// error is what ended it early. When it returns, every record is accounted for.
func (f *feeder) run(ctx context.Context, source feedSource) error {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := f.send(inner, stop, source)
	f.flush(inner)
	f.client.Close() // fails what has no answer
	f.pending.Wait()
	f.report.finish()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case inner.Err() != nil:
		return context.Cause(inner)
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// flush waits for the answers; for a short time only when nothing may be waited for any more.
func (f *feeder) flush(ctx context.Context) {
	if ctx.Err() == nil && f.client.Flush(ctx) == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer cancel()
	_ = f.client.Flush(ctx) // what stays without an answer is counted by its promise
}

func (f *feeder) send(ctx context.Context, stop context.CancelCauseFunc, source feedSource) error {
	start := time.Now()
	for n := int64(0); ; n++ {
		r, number, err := source.next()
		if bad := (*inputError)(nil); errors.As(err, &bad) {
			f.report.refuse(number, 0, bad)
			continue
		}
		if err != nil {
			return err
		}
		if err := f.pace(ctx, start, n); err != nil {
			return err
		}
		if err := f.target.refusal(r, time.Now()); err != nil {
			f.report.refuse(number, size(r), err)
			continue
		}
		f.produce(ctx, stop, number, r)
	}
}

// pace waits for the moment of the record after n others.
func (f *feeder) pace(ctx context.Context, start time.Time, n int64) error {
	if f.rate > 0 {
		if wait := time.Until(start.Add(time.Duration(float64(n) / f.rate * float64(time.Second)))); wait > 0 {
			return sleep(ctx, wait)
		}
	}
	return ctx.Err()
}

func (f *feeder) produce(ctx context.Context, stop context.CancelCauseFunc, number int64, r *kgo.Record) {
	f.pending.Add(1)
	f.client.Produce(ctx, r, func(r *kgo.Record, err error) {
		defer f.pending.Done()
		switch {
		case err == nil:
			f.report.acknowledge(r)
			f.progress.add(1)
		case tooLarge(err):
			f.report.refuse(number, size(r), f.target.tooLarge(r))
		case isRecordError(err):
			f.report.refuse(number, size(r), fmt.Errorf("topic %s: %w (with the rest of its batch)", f.target.topic, err))
		default:
			f.report.lose(err)
			stop(fmt.Errorf("topic %s: %w", f.target.topic, err))
		}
	})
}
