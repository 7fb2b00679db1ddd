package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// A transactional id that was idle for too long (a week, by default) is forgotten: the engine's
// answer is a new session, which gets a new producer id for the same name.
func TestExpiredTransactionalIDRefusesRecordsUntilItIsInitializedAgain(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort, Config: map[string]string{
		"transactional.id.expiration.ms":                             "1000",
		"transaction.remove.expired.transaction.cleanup.interval.ms": "500",
		"producer.id.expiration.ms":                                  "1000",
		"producer.id.expiration.check.interval.ms":                   "500",
	}})
	b := newBench(t, c.Seeds())
	write := func(cl *kgo.Client) error {
		return errors.Join(cl.BeginTransaction(),
			cl.ProduceSync(t.Context(), &kgo.Record{Topic: b.out, Value: []byte("v")}).FirstErr(),
			cl.EndTransaction(t.Context(), kgo.TryCommit))
	}
	idle := kafkatest.Client(t, b.seeds, kgo.TransactionalID(b.id))
	if err := write(idle); err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(b.admin)
	kafkatest.Within(t, 20*time.Second, "expiry", func(ctx context.Context) error {
		d, err := adm.DescribeTransactions(ctx, b.id)
		if err == nil && !errors.Is(d[b.id].Err, kerr.TransactionalIDNotFound) {
			err = fmt.Errorf("still known: %s", d[b.id].State)
		}
		return err
	})
	if err := write(idle); !errors.Is(err, kerr.InvalidProducerIDMapping) {
		t.Errorf("write with an expired id: %v", err)
	}
	if err := write(kafkatest.Client(t, b.seeds, kgo.TransactionalID(b.id))); err != nil {
		t.Errorf("write after a new start: %v", err)
	}
}
