package campaign

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

const (
	input      = "credit-events"
	journal    = "upstream-journal" // the number of each batch, in the batch's own transaction
	partitions = 6

	batchEvery  = 60 * time.Millisecond
	batchEvents = 60
	// attempt is what a transaction of the upstream may take before it is given up and looked up in the journal.
	attempt = 8 * time.Second
)

// An upstream writes batches in transactions while the faults happen. One in three it aborts first, with other contents under
// the ids to come. Whether a commit without an answer happened it reads from its journal, so that each batch is there once.
type upstream struct {
	seeds []string
	books *books
	rng   *rand.Rand
	extra chan parcel // what a fault wants written
	quiet atomic.Bool // no batches but extra ones

	cl      *kgo.Client
	batches int // written
	stop    context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex
	aborted int // events in aborted transactions
	resets  int // transactions whose end was not known
}

// A parcel is records that a fault wants in the input, and how to know that they are.
type parcel struct {
	records []*kgo.Record
	written chan struct{}
}

func startUpstream(t *testing.T, seeds []string, b *books, seed uint64) *upstream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	u := &upstream{seeds: seeds, books: b, rng: rand.New(rand.NewPCG(seed, 0xfeed)), extra: make(chan parcel), stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		u.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-u.done
	})
	return u
}

func (u *upstream) run(ctx context.Context) {
	defer u.drop()
	tick := time.NewTicker(batchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-u.extra:
			if u.write(ctx, p.records) {
				close(p.written)
			}
		case <-tick.C:
			if !u.quiet.Load() {
				u.write(ctx, u.books.batch(u.rng, batchEvents))
			}
		}
	}
}

// write returns once the batch is in the input, or ctx has ended.
func (u *upstream) write(ctx context.Context, records []*kgo.Record) bool {
	if u.rng.IntN(3) == 0 {
		u.abort(ctx, records)
	}
	for ctx.Err() == nil {
		if u.ready(ctx) != nil {
			return false // ctx is over: ready goes on until then
		}
		number := strconv.Itoa(u.batches + 1)
		err := u.transaction(ctx, append(clones(records), &kgo.Record{Topic: journal, Value: []byte(number)}), kgo.TryCommit)
		if err == nil || u.happened(ctx) {
			u.batches++
			return true
		}
	}
	return false
}

// happened ends what was left open and looks whether the batch that it was about is in the input.
func (u *upstream) happened(ctx context.Context) bool {
	u.lost()
	for u.ready(ctx) == nil {
		if last, err := u.lastJournalled(ctx); err == nil {
			return last == u.batches+1
		}
	}
	return false
}

// abort writes what nobody may ever see.
func (u *upstream) abort(ctx context.Context, records []*kgo.Record) {
	if u.ready(ctx) != nil {
		return
	}
	decoys := clones(records)
	for i, r := range decoys {
		if other := otherContent(r); other != nil {
			decoys[i] = other
		}
	}
	if u.transaction(ctx, decoys, kgo.TryAbort) != nil {
		u.lost()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.aborted += len(decoys)
}

// transaction ends as asked, or returns an error: then the end is not known.
func (u *upstream) transaction(ctx context.Context, records []*kgo.Record, end kgo.TransactionEndTry) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if err := u.cl.BeginTransaction(); err != nil {
		return err
	}
	if err := u.cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	return u.cl.EndTransaction(ctx, end)
}

// ready makes a client that has ended whatever its predecessor left open.
func (u *upstream) ready(ctx context.Context) error {
	for u.cl == nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(u.seeds...), kgo.TransactionalID("upstream"), kgo.TransactionTimeout(attempt),
			kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.MetadataMinAge(50*time.Millisecond), kgo.DialTimeout(2*time.Second), kgo.ProducerLinger(2*time.Millisecond), kgo.ProducerBatchMaxBytes(1_040_000))
		if err != nil {
			return err
		}
		one, cancel := context.WithTimeout(ctx, attempt)
		_, _, err = cl.ProducerID(one)
		cancel()
		if err != nil {
			cl.Close()
			continue
		}
		u.cl = cl
	}
	return nil
}

func (u *upstream) drop() {
	if u.cl != nil {
		u.cl.Close()
		u.cl = nil
	}
}

// lost drops a client whose transaction ended nobody knows how.
func (u *upstream) lost() {
	u.drop()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.resets++
}

// lastJournalled is the number of the last batch whose transaction was committed. The producer id has been taken before, so
// that none is undecided.
func (u *upstream) lastJournalled(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	stable, err := kadm.NewClient(u.cl).ListCommittedOffsets(ctx, journal)
	if err != nil {
		return 0, err
	}
	end, _ := stable.Lookup(journal, 0)
	if end.Err != nil || end.Offset == 0 {
		return 0, end.Err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(u.seeds...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{journal: {0: kgo.NewOffset().At(max(0, end.Offset-50))}}))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	return lastNumber(ctx, cl, end.Offset)
}

// lastNumber reads up to an end.
func lastNumber(ctx context.Context, cl *kgo.Client, end int64) (last int, err error) {
	for next := int64(0); next < end; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if r.Attrs.IsControl() {
				return
			}
			n, bad := strconv.Atoi(string(r.Value))
			last, err = n, errors.Join(err, bad)
		})
	}
	return last, err
}

// send has records written as a batch of their own, and returns once they are.
func (u *upstream) send(t *testing.T, records []*kgo.Record) {
	t.Helper()
	p := parcel{records, make(chan struct{})}
	limit := time.After(patience)
	for out, in := u.extra, (chan struct{})(nil); ; {
		select {
		case out <- p:
			out, in = nil, p.written
		case <-in:
			return
		case <-limit:
			t.Fatalf("the upstream has not written %d records within %v", len(records), patience)
		}
	}
}

// finish ends the stream; all that was begun is written.
func (u *upstream) finish(t *testing.T) {
	t.Helper()
	u.quiet.Store(true)
	u.send(t, []*kgo.Record{u.books.garbage(0)}) // behind the last batch
}

func (u *upstream) figures() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return fmt.Sprintf("%d batches, %d events aborted, %d times the end of a transaction was not known", u.batches, u.aborted, u.resets)
}

func (u *upstream) abortedEvents() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.aborted
}

// clones are records that a client may fill in: it writes partition and offset into what it is given.
func clones(records []*kgo.Record) []*kgo.Record {
	all := make([]*kgo.Record, len(records))
	for i, r := range records {
		all[i] = &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
	}
	return all
}

// settled waits until the processors have committed the whole input.
func (r *round) settled(t *testing.T) {
	t.Helper()
	cl := kafkatest.Client(t, r.kafka.Seeds())
	kafkatest.Within(t, 2*patience, "the whole input is committed", func(ctx context.Context) error {
		r.allRunning(t)
		return jobtest.Drained(ctx, cl, input, partitions)
	})
}
