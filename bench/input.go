package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	input      = "credit-events"
	partitions = 4
	recent     = 100_000 // a duplicate repeats one of that many events before it
)

// balance is what an account holds, in cents, after that many postings.
type balance struct{ cents, version int64 }

// workload is what was fed, and what must come of it.
type workload struct {
	unique   int
	balances map[string]balance
	ends     map[int32]int64 // by partition: where the input ends
}

// source makes the same credits again for the same seed.
type source struct {
	random   *rand.Rand
	accounts int
	share    float64 // of duplicates
	last     []*kgo.Record
	workload workload
}

func newSource(accounts int, duplicates float64) *source {
	return &source{
		random: rand.New(rand.NewPCG(1, 2)), accounts: accounts, share: duplicates,
		workload: workload{balances: map[string]balance{}, ends: map[int32]int64{}},
	}
}

func (s *source) next(at time.Time) *kgo.Record {
	if len(s.last) > 0 && s.random.Float64() < s.share {
		r := s.last[s.random.IntN(len(s.last))]
		return &kgo.Record{Topic: input, Key: r.Key, Value: r.Value}
	}
	account, cents := fmt.Sprintf("ACC-%07d", s.random.IntN(s.accounts)), int64(1+s.random.IntN(10_000_000))
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], s.random.Uint64())
	binary.BigEndian.PutUint64(id[8:], s.random.Uint64())
	value := fmt.Sprintf(`{"event_id":"%x-%x-%x-%x-%x","type":"credit","account_id":"%s","amount":"%d.%02d","currency":"INR","occurred_at":"%s"}`,
		id[:4], id[4:6], id[6:8], id[8:10], id[10:], account, cents/100, cents%100, at.UTC().Format(time.RFC3339))
	b := s.workload.balances[account]
	s.workload.balances[account] = balance{b.cents + cents, b.version + 1}
	s.workload.unique++
	r := &kgo.Record{Topic: input, Key: []byte(account), Value: []byte(value)}
	if len(s.last) < recent {
		s.last = append(s.last, r)
	} else {
		s.last[s.random.IntN(recent)] = r
	}
	return r
}

// feed writes that many events more, uncompressed, to the partitions that Kafka's own clients choose.
func (s *source) feed(ctx context.Context, seeds []string, events int) (*workload, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var failed atomic.Pointer[error]
	promise := func(r *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
			return
		}
		s.workload.ends[r.Partition] = r.Offset + 1 // promises come one after the other, in order
	}
	start := time.Now()
	for range events {
		cl.Produce(ctx, s.next(start), promise)
	}
	if err := cl.Flush(ctx); err != nil {
		return nil, err
	}
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return &s.workload, nil
}
