//go:build synctests

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/pipeline"
)

// source makes records: those that are there to stay, and those of transactions that abort.
type source interface {
	event() *kgo.Record
	ghost() *kgo.Record
}

// feeder is the upstream: one transactional producer. One in three of its transactions aborts; what those carried must leave
// no trace.
type feeder struct {
	w      *world
	rng    *rand.Rand
	source source
	events *generate.Generator
	ghosts *generate.Generator // what aborted transactions carry
	client *kgo.Client
	orders chan int                         // so many events, soon
	extra  chan func(*feeder) []*kgo.Record // records of a test's own, in one transaction
	done   chan struct{}

	fed     int
	aborted int
	classes map[generate.Class]int64
	settled map[int32]bool // partitions whose stream time is certainly not that of a record from 1970
}

func newFeeder(w *world, seed uint64) *feeder {
	cfg := generate.Config{Events: 1 << 30, Accounts: 50, Duplicates: 0.08, Conflicts: 0.03, Malformed: 0.04, Refused: 0.08, Seed: seed}
	events, err := generate.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.Seed = seed ^ 1<<40
	ghosts, err := generate.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := kgo.NewClient(append(w.direct(), kgo.TransactionalID(upstreamID), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))...)
	if err != nil {
		w.t.Fatal(err)
	}
	f := &feeder{
		w: w, rng: rand.New(rand.NewPCG(seed, 0xfeed)), events: events, ghosts: ghosts, client: client,
		orders: make(chan int, 256), extra: make(chan func(*feeder) []*kgo.Record), done: make(chan struct{}), classes: map[generate.Class]int64{}, settled: map[int32]bool{},
	}
	f.source = w.job.source(f)
	return f
}

// run feeds what is ordered until orders is closed.
func (f *feeder) run(ctx context.Context) {
	defer close(f.done)
	defer f.client.Close()
	for n := range f.orders {
		if n == 0 {
			f.own(ctx, (<-f.extra)(f))
		}
		for n > 0 {
			some := min(n, 5+f.rng.IntN(60))
			f.feed(ctx, some)
			n -= some
			if f.w.pace > 0 {
				time.Sleep(time.Duration(f.rng.Int64N(int64(f.w.pace))))
			}
		}
	}
}

// only feeds records of a test's own.
func (f *feeder) only(records func(*feeder) []*kgo.Record) {
	f.orders <- 0
	f.extra <- records
}

func (f *feeder) own(ctx context.Context, records []*kgo.Record) {
	i := -1
	f.transaction(ctx, len(records), func() *kgo.Record { i++; return records[i] }, kgo.TryCommit)
}

// stale makes an event that nobody has seen, for one partition, with a time of its own that is outside the dedupe window.
func (f *feeder) stale(partition int32, at time.Time) *kgo.Record {
	for {
		account := fmt.Sprintf("STALE-%d", f.rng.IntN(1000))
		if pipeline.Murmur2.Partition([]byte(account), partitions) != partition {
			continue
		}
		f.classes[generate.Class{Outcome: ledger.DeadLettered, Reason: ledger.OutsideDedupeWindow}]++
		rec := creditRecord(fmt.Sprintf("STALE-%d", f.rng.Int64()), account)
		rec.Partition, rec.Timestamp = partition, at
		return rec
	}
}

func creditRecord(id, account string) *kgo.Record {
	value := fmt.Sprintf(`{"event_id":%q,"account_id":%q,"amount":"1.00","currency":"INR","occurred_at":"2026-01-01T00:00:00Z"}`, id, account)
	return &kgo.Record{Topic: inputTopic, Key: []byte(account), Value: []byte(value)}
}

// feed commits n events, after a transaction that aborts in one case of two: one in three of all.
func (f *feeder) feed(ctx context.Context, n int) {
	if f.rng.IntN(2) == 0 {
		f.transaction(ctx, 3+f.rng.IntN(10), f.source.ghost, kgo.TryAbort)
		f.aborted++
	}
	f.transaction(ctx, n, f.source.event, kgo.TryCommit)
	f.fed += n
}

func (f *feeder) transaction(ctx context.Context, n int, next func() *kgo.Record, end kgo.TransactionEndTry) {
	if err := f.client.BeginTransaction(); err != nil {
		f.w.fail("feed: begin: %v", err)
		return
	}
	for range n {
		f.client.Produce(ctx, next(), func(_ *kgo.Record, err error) {
			if err != nil {
				f.w.fail("feed: produce: %v", err)
			}
		})
	}
	if err := f.client.Flush(ctx); err != nil {
		f.w.fail("feed: flush: %v", err)
	}
	if f.rng.IntN(16) == 0 { // upstream is slow: its records stay undecided, and those of others wait behind them
		time.Sleep(time.Duration(f.rng.IntN(3000)) * time.Millisecond)
	}
	if err := f.client.EndTransaction(ctx, end); err != nil {
		f.w.fail("feed: end: %v", err)
	}
	f.w.journal.logf("schedule.txt", "fed %d, commit=%v", n, end)
}

func (f *feeder) ghost() *kgo.Record {
	r, _ := f.ghosts.Next()
	return f.record(&r)
}

func (f *feeder) event() *kgo.Record {
	if f.rng.IntN(150) == 0 {
		if r := f.odd(); r != nil {
			return r
		}
	}
	r, _ := f.events.Next()
	f.classes[r.Class]++
	rec := f.record(&r)
	if r.Class.Outcome == ledger.Applied {
		f.settled[rec.Partition] = true
	}
	return rec
}

func (f *feeder) record(r *generate.Record) *kgo.Record {
	rec := &kgo.Record{Topic: inputTopic, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if r.Key == nil {
		rec.Partition = int32(f.rng.IntN(partitions))
	} else {
		rec.Partition = pipeline.Murmur2.Partition(r.Key, partitions)
	}
	return rec
}

// odd makes a record whose time stamp or place is wrong, nil when it cannot know what becomes of it.
func (f *feeder) odd() *kgo.Record {
	account := fmt.Sprintf("ODD-%d", f.rng.IntN(20))
	rec := creditRecord(fmt.Sprintf("ODD-%d", f.rng.Int64()), account)
	rec.Partition = pipeline.Murmur2.Partition(rec.Key, partitions)
	reason := ledger.FutureTimestamp
	switch f.rng.IntN(3) {
	case 0:
		rec.Timestamp = time.Now().Add(100 * 365 * 24 * time.Hour)
	case 1:
		rec.Partition = (rec.Partition + 1) % partitions
		reason = ledger.WrongPartition
	case 2:
		if !f.settled[rec.Partition] {
			return nil
		}
		rec.Timestamp = time.UnixMilli(0)
		reason = ledger.OutsideDedupeWindow
	}
	f.classes[generate.Class{Outcome: ledger.DeadLettered, Reason: reason}]++
	return rec
}
