package campaign

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

func contentKinds() []kind {
	return []kind{
		{name: "poison", weight: 1, do: poison,
			expect: "sixty records that are no events: dead letters"},
		{name: "oversized", weight: 1, do: oversized,
			expect: "records at the input's size limit: dead letters, with or without their value"},
		{name: "two-hours-ahead", weight: 1, do: ahead,
			expect: "records stamped two hours from now: dead letters"},
		{name: "repeats", weight: 1, do: repeats,
			expect: "three hundred events of before, as they were: skipped"},
		{name: "other-contents", weight: 1, do: others,
			expect: "three hundred events of before with other contents: dead letters"},
		{name: "open-commits", weight: 1, do: openCommits,
			expect: "another producer's transaction stands open in the input, then commits: readers wait, then see it; the input is committed beyond it"},
		{name: "open-aborts", weight: 1, do: openAborts,
			expect: "the same, then aborts: nobody sees it; the input is committed beyond it"},
		{name: "open-hangs", weight: 1, do: openHangs,
			expect: "the same, and its producer is gone: the broker ends it after its time-out, and the input is committed beyond it"},
	}
}

func (r *round) write(t *testing.T, o *outcome, records []*kgo.Record) {
	t.Helper()
	o.now()
	r.up.send(t, records)
}

func poison(t *testing.T, r *round, o *outcome) {
	var records []*kgo.Record
	for range 60 {
		records = append(records, r.books.garbage(r.rng.IntN(200)))
	}
	r.write(t, o, records)
}

// largest leaves room for what a batch of one record adds to it.
const largest = 1_000_000

func oversized(t *testing.T, r *round, o *outcome) {
	r.write(t, o, []*kgo.Record{r.books.garbage(largest), r.books.garbage(largest - r.rng.IntN(1000))})
}

func ahead(t *testing.T, r *round, o *outcome) {
	var records []*kgo.Record
	for range 30 {
		records = append(records, r.books.late(r.rng))
	}
	r.write(t, o, records)
}

func repeats(t *testing.T, r *round, o *outcome) { r.write(t, o, r.books.repeats(r.rng, 300, false)) }

func others(t *testing.T, r *round, o *outcome) { r.write(t, o, r.books.repeats(r.rng, 300, true)) }

const openTimeout = 4 * time.Second

// open leaves a transaction with one record in each partition of the input. The fault is not over before the job is beyond them.
func (r *round) open(t *testing.T, records []*kgo.Record, o *outcome) *kgo.Client {
	t.Helper()
	cl := kafkatest.Client(t, r.kafka.Seeds(), kgo.TransactionalID(kafkatest.Name(t, "other")), kgo.TransactionTimeout(openTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for p, k := range records {
		k.Partition = int32(p)
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	o.must(func(ctx context.Context) error {
		for _, k := range records {
			next, err := kafkatest.StableOffset(ctx, r.client, app, input, k.Partition)
			if err != nil {
				return err
			}
			if next <= k.Offset {
				return fmt.Errorf("%s/%d: committed %d, and the record of the transaction is at %d", input, k.Partition, next, k.Offset)
			}
		}
		return nil
	})
	return cl
}

func (r *round) end(t *testing.T, cl *kgo.Client, how kgo.TransactionEndTry, o *outcome) {
	t.Helper()
	r.pause(500*time.Millisecond, openTimeout/2)
	if err := cl.EndTransaction(t.Context(), how); err != nil {
		t.Fatal(err)
	}
	o.now()
}

func openCommits(t *testing.T, r *round, o *outcome) {
	var records []*kgo.Record
	for range partitions {
		records = append(records, r.books.garbage(20))
	}
	r.end(t, r.open(t, records, o), kgo.TryCommit, o)
}

// unseen are repeats of before with other contents: dead letters, should anybody see them.
func (r *round) unseen() []*kgo.Record {
	var records []*kgo.Record
	for range partitions {
		records = append(records, &kgo.Record{Topic: input, Key: []byte("nobody"), Value: []byte("never seen")})
	}
	return records
}

func openAborts(t *testing.T, r *round, o *outcome) {
	r.end(t, r.open(t, r.unseen(), o), kgo.TryAbort, o)
}

func openHangs(t *testing.T, r *round, o *outcome) {
	r.open(t, r.unseen(), o).CloseAllowingRebalance()
	o.now()
}
