package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// sessionTimeout is what the others wait for when nobody fences: far more than the take-over may take.
const sessionTimeout = 60 * time.Second

// The instance is dead for certain: its tasks are taken over long before its session is over.
func TestFenceHandsTheTasksOfADeadInstanceOver(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	flags := []string{"--session-timeout-ms", fmt.Sprint(sessionTimeout.Milliseconds()), "--num-stream-threads", "1", "--heartbeat-interval-ms", "500"}
	dead := d.start(t, "pod-1", flags...)
	dead.awaitLog(t, "task restored")
	other := d.start(t, "pod-2", flags...)
	other.awaitLog(t, "task restored") // it has tasks of its own
	d.must(t, "feed", "--generate", "500", "--seed", "3")
	d.awaitLagZero(t)
	dead.Kill()
	killed := time.Now()
	d.must(t, "feed", "--generate", "500", "--seed", "4")
	d.run(t, "fence", "pod-1").says(t, 1, "instance pod-1 is a member of group ledger", "- pod-1-0 (client processor, host 127.0.0.1)", "add --force")
	fenced := time.Now()
	d.run(t, "fence", "pod-1", "--force").says(t, 0, "transaction  ledger-pod-1-0", "member       pod-1-0", "instance pod-1 of ledger is fenced")
	d.awaitLagZero(t)
	took := time.Since(fenced)
	t.Logf("taken over and caught up %v after fence, %v after kill -9; session.timeout.ms %v", took, time.Since(killed), sessionTimeout)
	if took > sessionTimeout/4 {
		t.Errorf("the take-over took %v", took)
	}
	d.run(t, "fence", "pod-9").says(t, 4, "known: pod-1, pod-2")
	d.run(t, "verify").says(t, 0, "OK")
}

// A live instance that is fenced by mistake comes back by itself, and nothing is lost or doubled.
func TestALiveInstanceThatIsFencedComesBack(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.start(t, "pod-1")
	d.must(t, "feed", "--generate", "300", "--seed", "3")
	d.awaitLagZero(t)
	d.run(t, "fence", "pod-1", "--force").says(t, 0, "fenced")
	d.must(t, "feed", "--generate", "300", "--seed", "4")
	d.awaitLagZero(t)
	d.run(t, "verify").says(t, 0, "OK")
}

// An upstream producer died with its transaction open: whose it is and since when, and that lag waits for it.
func TestAHangingUpstreamTransactionIsNamed(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.start(t, "pod-0")
	d.must(t, "feed", "--generate", "100", "--seed", "1")
	d.awaitLagZero(t)
	before := time.Now().Add(-time.Second).UTC()
	upstream := kafkatest.Client(t, d.Seeds(), kgo.TransactionalID("payments-gateway-7"), kgo.TransactionTimeout(10*time.Minute))
	if err := upstream.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := upstream.ProduceSync(t.Context(), &kgo.Record{Topic: credits, Partition: 2, Key: []byte("a"), Value: event("U-1", "a")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	d.must(t, "feed", "--generate", "100", "--seed", "2")
	kafkatest.Within(t, 20*time.Second, "only the partition behind the transaction lags", func(context.Context) error {
		r := d.quietly(t, "lag")
		if strings.Count(r.out, "behind") != 1 || !strings.Contains(r.out, " of payments-gateway-7 since 20") {
			return errors.New(r.String())
		}
		return nil
	})
	type txRow struct {
		ID         string `json:"transactional_id"`
		State      string
		Whose      string
		Since      time.Time
		Ends       time.Time
		Partitions []string
	}
	var upstreams []txRow
	for _, r := range rows[txRow](t, d, 0, "tx", "list") {
		if r.ID == "payments-gateway-7" {
			upstreams = append(upstreams, r)
		}
	}
	if len(upstreams) != 1 || upstreams[0].Whose != "another application" || upstreams[0].Since.Before(before) || upstreams[0].Ends.Sub(upstreams[0].Since) != 10*time.Minute || upstreams[0].Partitions[0] != "credit-events/2" {
		t.Errorf("%+v", upstreams)
	}
	d.run(t, "tx", "list", "--hanging").says(t, 0, "payments-gateway-7", "another application", "credit-events/2/")
	d.run(t, "tail", credits, "--to-end", "-o", "jsonl").says(t, 0, "an open transaction of payments-gateway-7 since 20")
	if err := upstream.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	d.awaitLagZero(t)
}

// A transaction that no coordinator knows holds the job up for ever; the command that ends it is named, and ends it.
func TestATransactionThatNoCoordinatorKnowsIsFound(t *testing.T) {
	d := newDesk(t, kafkatest.Options{Config: map[string]string{"transaction.partition.verification.enable": "false"}})
	start := d.hang(t, "legacy-app", credits, 1)
	r := d.run(t, "tx", "list", "--hanging")
	r.says(t, 2, "hanging", fmt.Sprintf("kafka-transactions.sh abort --topic credit-events --partition 1 --start-offset %d", start))
	d.run(t, "tx", "list").says(t, 0)
	d.run(t, "lag").says(t, 0, "not started", "a hanging transaction")
	adm := kadm.NewClient(d.client)
	set := kadm.TopicsSet{}
	set.Add(credits, 1)
	described, err := adm.DescribeProducers(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range described.SortedProducers() { // what kafka-transactions.sh abort does
		m := kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, CoordinatorEpoch: max(p.CoordinatorEpoch, 0), Topics: set}
		if _, err := adm.WriteTxnMarkers(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	d.run(t, "tx", "list", "--hanging").says(t, 0)
}
