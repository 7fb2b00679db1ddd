package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

func txRows(t *testing.T, b *devbroker.Broker, want exitCode, args ...string) []txRow {
	t.Helper()
	out, errs, code := processor(t, b, "", append([]string{"tx", "list", "-o", "json"}, args...)...)
	var rows []txRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != want {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	return rows
}

// stateRecord is a record of the kind that only the job writes.
func stateRecord() *kgo.Record {
	return &kgo.Record{Topic: topics.StateTopic("ledger", "post"), Key: []byte("k"), Value: []byte("v")}
}

func TestTxListSaysWhoseAndSinceWhen(t *testing.T) {
	b, _ := startJob(t)
	transaction(t, b, "finished", credit(0, 1)...)(kgo.TryCommit)
	before := time.Now().Add(-time.Second)
	transaction(t, b, "upstream-7", credit(1, 2)...)
	transaction(t, b, "ledger-pod-1-3", append(credit(0, 1), stateRecord())...)
	transaction(t, b, "ledger-eu-pod-0", credit(0, 1)...)
	transaction(t, b, "ledger-redrive", credit(0, 1)...)
	rows := txRows(t, b, exitOK)
	if len(rows) != 4 {
		t.Fatalf("%+v", rows)
	}
	for i, want := range []struct{ id, whose, remedy string }{
		{"upstream-7", "another application", "ask its owner"}, {"ledger-pod-1-3", "this job: instance pod-1 worker 3, not in the group", "processor fence pod-1"},
		{"ledger-eu-pod-0", "another application, though the id begins like this job's", "ask its owner"}, {"ledger-redrive", "this job: dlq redrive", "run dlq redrive again: it takes over"},
	} {
		r := rows[i]
		if r.TransactionalID != want.id || r.Whose != want.whose || r.Remedy != want.remedy || r.State != "Ongoing" || r.Since == nil || r.Since.Before(before) || r.Ends == nil || !r.Ends.After(*r.Since) || r.Coordinator == nil {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if strings.Join(rows[0].Partitions, " ") != "credit-events/1" {
		t.Errorf("%+v", rows[0])
	}
	if took := rows[0].Ends.Sub(*rows[0].Since); took != 40*time.Second { // the client's transaction.timeout.ms
		t.Errorf("ends after %s", took)
	}
	all := txRows(t, b, exitOK, "--all")
	if len(all) != 5 || all[4].TransactionalID != "finished" || all[4].Remedy != "" || all[4].Since != nil {
		t.Errorf("%+v", all)
	}
	held := txRows(t, b, exitOK, "--hanging")
	if len(held) != 4 || strings.Join(held[0].Partitions, " ") != "credit-events/1/0" {
		t.Errorf("%+v", held)
	}
}

// A transaction that its coordinator has forgotten never ends: the command that ends it is named.
func TestTxListFindsWhatNoCoordinatorKnows(t *testing.T) {
	b, _ := startJob(t)
	transaction(t, b, "lost", credit(1, 2)...)
	b.Cluster().ControlKey(int16(kmsg.ListTransactions), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		return kmsg.NewPtrListTransactionsResponse(), nil, true
	})
	r := txRows(t, b, exitUsage, "--hanging")[0]
	if r.State != stateHanging || r.TransactionalID != "" || r.Since == nil || r.Remedy != "kafka-transactions.sh abort --topic credit-events --partition 1 --start-offset 0" {
		t.Errorf("%+v", r)
	}
}

// What the leader has open and the coordinator has ended hangs just the same: nobody ends it any more.
func TestTransactionThatItsCoordinatorHasEndedHangs(t *testing.T) {
	o := &owners{app: "ledger", ours: map[string]bool{}, members: map[string]bool{}}
	p := kadm.DescribedProducer{Topic: credits, Partition: 1, ProducerID: 7, CurrentTxnStartOffset: 3}
	known := []kadm.DescribedTransaction{{TxnID: "x", ProducerID: 7, State: "CompleteAbort"}}
	if r := hangingRows([]kadm.DescribedProducer{p}, known, o)[0]; r.State != stateHanging || r.TransactionalID != "x" || !strings.Contains(r.Whose, "its coordinator says CompleteAbort") || !strings.Contains(r.Remedy, "--start-offset 3") {
		t.Errorf("%+v", r)
	}
	known[0].State = "Ongoing"
	if r := hangingRows([]kadm.DescribedProducer{p}, known, o)[0]; r.State != "Ongoing" || strings.Contains(r.Remedy, "abort") {
		t.Errorf("%+v", r)
	}
}

// A job of several stages has topics between them, which nobody else writes: a transaction that touches one of them is its own.
func TestTransactionInAnyTopicOfTheJobAloneIsItsOwn(t *testing.T) {
	job := pipeline.New("shop")
	first, second := job.Stage("first"), job.Stage("second")
	hop := pipeline.NewRepartition(second, record.String, record.Bytes)
	pipeline.NewOutput(first, hop)
	nothing := func(*pipeline.Ctx, pipeline.Record[string, []byte]) error { return nil }
	pipeline.Handle(first, topics.New(credits, record.String, record.Bytes), nothing)
	pipeline.Handle(second, hop, nothing)
	o := newOwners(job, nil)
	for topic, foreign := range map[string]bool{topics.StateTopic("shop", "first"): false, topics.DeadLetters("shop"): false, hop.Name: false, credits: true} {
		txn := kadm.DescribedTransaction{TxnID: "shop-pod-0", Topics: kadm.TopicsSet{topic: {0: {}}}}
		if got := o.foreign(txn); got != foreign {
			t.Errorf("%s: foreign %v", topic, got)
		}
	}
}

func TestWorkersNameIsTakenApart(t *testing.T) {
	for name, want := range map[string]string{"pod-1-0": "pod-1 0 true", "a-12": "a 12 true", "a-01": "a 1 false", "a-": "a 0 false", "-1": " 0 false", "a": " 0 false", "a-b": "a 0 false"} {
		instance, worker, ok := splitWorker(name)
		if got := fmt.Sprintln(instance, worker, ok); got != want+"\n" {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

// staticMember joins the job's group under a fixed name and stays.
func staticMember(t *testing.T, b *devbroker.Broker, instance string) *kgo.Client {
	t.Helper()
	cl := testClient(t, b, kgo.ConsumerGroup("ledger"), kgo.InstanceID(instance), kgo.ConsumeTopics(credits), kgo.ClientID("teller"))
	ctx := t.Context()
	eventually(t, "the member has joined", func() bool {
		got, err := kadm.NewClient(testClient(t, b)).DescribeGroups(ctx, "ledger")
		return err == nil && got["ledger"].State == "Stable" && slices.ContainsFunc(got["ledger"].Members, func(m kadm.DescribedGroupMember) bool {
			return m.InstanceID != nil && *m.InstanceID == instance
		})
	})
	return cl
}

func TestFenceEndsTheTransactionsOfOneInstance(t *testing.T) {
	b, _ := startJob(t)
	transaction(t, b, "ledger-pod-1-0", append(credit(0, 1), stateRecord())...)
	transaction(t, b, "ledger-pod-10-0", append(credit(1, 1), stateRecord())...)
	transaction(t, b, "ledger-eu-pod-1-0", credit(2, 1)...)
	staticMember(t, b, "pod-1-0")
	_, errs, code := processor(t, b, "", "fence", "pod-1")
	if code != exitFailed || !strings.Contains(errs, "- pod-1-0 (client teller, host 127.0.0.1") || !strings.Contains(errs, "add --force") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	out, errs, code := processor(t, b, "", "fence", "pod-1", "--force", "-o", "json")
	var rows []fenced
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != exitOK || len(rows) != 2 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	if rows[0].ID != "ledger-pod-1-0" || !strings.Contains(rows[0].Found, "ongoing since 20") || rows[0].Done != "fenced" || rows[1].ID != "pod-1-0" || rows[1].Done != "removed" {
		t.Errorf("%+v", rows)
	}
	var left []string
	for _, r := range txRows(t, b, exitOK) {
		left = append(left, r.TransactionalID)
	}
	if strings.Join(left, " ") != "ledger-pod-10-0 ledger-eu-pod-1-0" {
		t.Errorf("open: %q", left)
	}
	if _, errs, code := processor(t, b, "", "fence", "pod-7"); code != exitNotFound || !strings.Contains(errs, "known: pod-1, pod-10") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// One instance is fenced, and no other whose name begins alike; a live one's transaction has no such remedy in tx list.
func TestFenceRemovesTheMembersOfOneInstance(t *testing.T) {
	b, _ := startJob(t)
	staticMember(t, b, "pod-1-0")
	staticMember(t, b, "pod-10-0")
	transaction(t, b, "ledger-pod-10-0", append(credit(1, 1), stateRecord())...)
	if rows := txRows(t, b, exitOK); len(rows) != 1 || rows[0].Whose != "this job: instance pod-10 worker 0, a member of the group" || rows[0].Remedy != "" {
		t.Errorf("%+v", rows)
	}
	if out, errs, code := processor(t, b, "", "fence", "pod-1", "--force"); code != exitOK || strings.Contains(out, "pod-10") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	members, err := groupMembers(t.Context(), testClient(t, b), "ledger")
	if err != nil || len(members) != 1 || members[0].Instance != "pod-10-0" {
		t.Errorf("%+v, %v", members, err)
	}
	if rows := txRows(t, b, exitOK); len(rows) != 1 {
		t.Errorf("%+v", rows)
	}
}

// A fencing that was refused is no fencing.
func TestFenceThatIsRefusedFails(t *testing.T) {
	b, _ := startJob(t)
	transaction(t, b, "ledger-pod-1-0", append(credit(0, 1), stateRecord())...)
	b.Cluster().ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return resp, nil, true
	})
	out, errs, code := processor(t, b, "", "fence", "pod-1", "-o", "json")
	var rows []fenced
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != exitFailed || len(rows) != 1 || !strings.HasPrefix(rows[0].Done, "failed: ") || strings.Contains(errs, "is fenced") {
		t.Errorf("exit %d, %v: %s%s", code, err, out, errs)
	}
}
