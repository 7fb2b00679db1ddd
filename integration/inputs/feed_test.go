package inputs

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
)

const (
	partitions  = 6
	keys        = 60
	ghostNumber = int64(1) << 40 // records of aborted transactions have numbers from here on
)

// feeder is the upstream: a transactional producer of both topics, of whose transactions one in three aborts.
type feeder struct {
	t      *testing.T
	client *kgo.Client
	rng    *rand.Rand
	fed    map[string]map[string]int64 // by kind and key: the number of the last record that is there to stay
}

func newFeeder(t *testing.T, seeds []string) *feeder {
	return &feeder{
		t: t, client: kafkatest.Client(t, seeds, kgo.TransactionalID("upstream")), rng: rand.New(rand.NewPCG(1, 2)),
		fed: map[string]map[string]int64{"price": {}, "order": {}},
	}
}

// feed sends n records in transactions of up to 100.
func (f *feeder) feed(n int) {
	f.t.Helper()
	for n > 0 {
		some := min(n, 1+f.rng.IntN(100))
		commit := f.rng.IntN(3) > 0
		f.transaction(some, commit)
		if commit {
			n -= some
		}
	}
}

func (f *feeder) transaction(n int, commit bool) {
	f.t.Helper()
	if err := f.client.BeginTransaction(); err != nil {
		f.t.Fatal(err)
	}
	var records []*kgo.Record
	for range n {
		kind, key := "order", fmt.Sprintf("key-%d", f.rng.IntN(keys))
		if f.rng.IntN(3) == 0 {
			kind = "price"
		}
		number := ghostNumber
		if commit {
			f.fed[kind][key]++
			number = f.fed[kind][key]
		}
		records = append(records, made(kind, key, number))
	}
	if err := f.client.ProduceSync(f.t.Context(), records...).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.client.EndTransaction(f.t.Context(), kgo.TransactionEndTry(commit)); err != nil {
		f.t.Fatal(err)
	}
}

func made(kind, key string, number int64) *kgo.Record {
	topic := ordersTopic
	if kind == "price" {
		topic = pricesTopic
	}
	value, _ := record.Int64.Append(nil, number)
	return &kgo.Record{Topic: topic, Key: []byte(key), Value: value, Partition: pipeline.Murmur2.Partition([]byte(key), partitions), Timestamp: time.Now()}
}
