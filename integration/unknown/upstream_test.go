package unknown

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/pipeline"
)

// upstream feeds events: repeats, contradictions and nonsense among them; one of two in transactions, of which one in three aborts.
// What that held must never count.
type upstream struct {
	*site
	rng         *rand.Rand
	events      *generate.Generator
	transaction *kgo.Client // nil: without
	fed, ghosts int         // when it has ended
	ended       chan error
}

func (s *site) startUpstream(ctx context.Context, seed uint64, transactions bool) *upstream {
	s.t.Helper()
	g, err := generate.New(generate.Config{Events: 1 << 30, Accounts: 100, Duplicates: 0.1, Conflicts: 0.02, Malformed: 0.01, Refused: 0.03, Seed: seed})
	if err != nil {
		s.t.Fatal(err)
	}
	u := &upstream{site: s, rng: rand.New(rand.NewPCG(seed, 3)), events: g, ended: make(chan error, 1)}
	if transactions {
		u.transaction = kafkatest.Client(s.t, s.Seeds(), kgo.TransactionalID("upstream"), kgo.TransactionTimeout(30*time.Second))
	}
	go func() { u.ended <- u.run(ctx) }()
	return u
}

// run feeds until ctx ends; what was begun is finished.
func (u *upstream) run(ctx context.Context) error {
	for ctx.Err() == nil {
		records := u.next(1 + u.rng.IntN(30))
		var err error
		if u.transaction == nil {
			err = u.client.ProduceSync(context.WithoutCancel(ctx), records...).FirstErr()
		} else {
			err = u.transact(context.WithoutCancel(ctx), records)
		}
		if err != nil {
			return err
		}
		u.fed += len(records)
		pause(ctx, 60*time.Millisecond)
	}
	return nil
}

func (u *upstream) next(n int) (records []*kgo.Record) {
	for range n {
		e, _ := u.events.Next()
		r := &kgo.Record{Topic: input, Key: e.Key, Value: e.Value, Partition: u.rng.Int32N(u.partitions)} // one without a key can be anywhere
		if e.Key != nil {
			r.Partition = pipeline.Murmur2.Partition(e.Key, u.partitions)
		}
		for _, h := range e.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		records = append(records, r)
	}
	return records
}

// transact commits the records, and before them, in one case of two, aborts others.
func (u *upstream) transact(ctx context.Context, records []*kgo.Record) error {
	if u.rng.IntN(2) == 0 {
		var ghosts []*kgo.Record
		for range len(records) {
			u.ghosts++
			ghosts = append(ghosts, u.credit(fmt.Sprintf("GHOST-%d", u.ghosts), u.account(u.rng.Int32N(u.partitions)), 1_000_000))
		}
		if err := u.end(ctx, ghosts, kgo.TryAbort); err != nil {
			return err
		}
	}
	return u.end(ctx, records, kgo.TryCommit)
}

func (u *upstream) end(ctx context.Context, records []*kgo.Record, how kgo.TransactionEndTry) error {
	return errors.Join(u.transaction.BeginTransaction(), u.transaction.ProduceSync(ctx, records...).FirstErr(), u.transaction.EndTransaction(ctx, how))
}
