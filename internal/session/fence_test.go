package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// open starts a transaction with a record in a topic and leaves it open.
func openTransaction(t *testing.T, c *kfake.Cluster, id, topic string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return client
}

// janitorOf is a janitor of the application "ledger", whose only member is alive-0, and what it fences.
func janitorOf(t *testing.T, c *kfake.Cluster, own ...string) (Janitor, *[]string) {
	t.Helper()
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	member, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumerGroup("ledger"), kgo.InstanceID("alive-0"), kgo.ConsumeTopics("ledger-updates"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	awaitMember(t, admin, "ledger")
	fenced := &[]string{}
	return Janitor{Client: admin, App: "ledger", Own: own, Timeout: 10 * time.Second, Fenced: func(id string) { *fenced = append(*fenced, id) }}, fenced
}

func TestJanitorFencesItsOwnDeadAndNobodyElse(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ledger-post-state", "ledger-eu-post-state", "ledger-updates"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	j, fenced := janitorOf(t, c, "ledger-post-state")
	openTransaction(t, c, "ledger-dead-0", "ledger-post-state")
	openTransaction(t, c, "ledger-alive-0", "ledger-post-state")
	openTransaction(t, c, "ledger-eu-host-0", "ledger-eu-post-state") // another application, whose name begins with ours
	openTransaction(t, c, "ledger-connector", "ledger-updates")       // no processor at all
	if err := j.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(*fenced) != 1 || (*fenced)[0] != "ledger-dead-0" {
		t.Errorf("fenced %q, want the dead instance alone", *fenced)
	}
}

// A transaction that has reached an output alone holds its readers up, and does not show whose it is.
func TestReleaseEndsTheTransactionOfADeadWorkerThatIsNamed(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ledger-updates"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	j, fenced := janitorOf(t, c)
	openTransaction(t, c, "ledger-dead-0", "ledger-updates")
	openTransaction(t, c, "ledger-alive-0", "ledger-updates")
	ended := openTransaction(t, c, "ledger-ended-0", "ledger-updates")
	if err := ended.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"ledger-unknown-0", "ledger-alive-0", "ledger-ended-0", "ledger-dead-0"} {
		if err := j.Release(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if len(*fenced) != 1 || (*fenced)[0] != "ledger-dead-0" {
		t.Errorf("fenced %q, want the dead worker alone", *fenced)
	}
}

// What the coordinator does not tell is no proof that nothing is open: the readers' wait is then told, too.
func TestReleaseTellsWhatItCouldNotLookAt(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "ledger-updates"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	j, fenced := janitorOf(t, c)
	openTransaction(t, c, "ledger-dead-0", "ledger-updates")
	c.ControlKey(int16(kmsg.DescribeTransactions), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := r.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		state := kmsg.NewDescribeTransactionsResponseTransactionState()
		state.TransactionalID, state.ErrorCode = "ledger-dead-0", kerr.TransactionalIDAuthorizationFailed.Code
		resp.TransactionStates = append(resp.TransactionStates, state)
		return resp, nil, true
	})
	if err := j.Release(t.Context(), "ledger-dead-0"); err == nil || !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) || len(*fenced) > 0 {
		t.Errorf("%v, fenced %q", err, *fenced)
	}
}

func awaitMember(t *testing.T, admin *kgo.Client, group string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		groups, err := kadm.NewClient(admin).DescribeGroups(ctx, group)
		if err == nil && len(groups[group].Members) > 0 && groups[group].State == "Stable" {
			return
		}
		if !sleep(ctx, 20*time.Millisecond) {
			t.Fatalf("no member: %+v, %v", groups, err)
		}
	}
}

func TestFenceEndsAnOpenTransactionAndItsProducer(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	producer := openTransaction(t, c, "app-i-0", "out")
	tp := TopicPartition{"out", 0}
	if holders, err := Holders(t.Context(), admin, tp); err != nil || len(holders) != 1 || holders[0].TransactionalID != "app-i-0" {
		t.Errorf("holders %+v, %v", holders, err)
	}
	if err := Fence(t.Context(), admin, "app-i-0", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	stable, err := StableOffset(t.Context(), admin, tp)
	if end, err2 := EndOffset(t.Context(), admin, tp); err != nil || err2 != nil || stable != end {
		t.Errorf("stable offset %d below the end %d: the transaction is still open (%v, %v)", stable, end, err, err2)
	}
	if err := producer.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("the fenced producer committed")
	}
}

// Two deaths at once: an instance, and a broker that does not coordinate its transaction.
func TestJanitorFencesWhileABrokerIsGone(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "app-post-state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	member, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumerGroup("app"), kgo.InstanceID("alive-0"), kgo.ConsumeTopics("app-post-state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	awaitMember(t, admin, "app")
	openTransaction(t, c, "app-dead-0", "app-post-state")
	busy := map[int32]bool{c.CoordinatorFor("app-dead-0"): true, c.CoordinatorFor("app"): true}
	c.ControlKey(int16(kmsg.ListTransactions), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !busy[c.CurrentNode()] {
			return nil, errors.New("it is gone"), true
		}
		return nil, nil, false
	})
	var fenced []string
	j := Janitor{Client: admin, App: "app", Own: []string{"app-post-state"}, Timeout: 10 * time.Second, Fenced: func(id string) { fenced = append(fenced, id) }}
	if err := j.Sweep(t.Context()); err != nil || len(fenced) != 1 {
		t.Errorf("fenced %q, %v; want the dead instance", fenced, err)
	}
	if holders, err := Holders(t.Context(), admin, TopicPartition{"app-post-state", 0}); err != nil {
		t.Errorf("holders %+v, %v", holders, err)
	}
}
