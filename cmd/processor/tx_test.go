package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
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
	if all := txRows(t, b, exitOK, "--all"); len(all) != 5 {
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

// staticMember joins the job's group under a fixed name and stays.
func staticMember(t *testing.T, b *devbroker.Broker, instance string) *kgo.Client {
	t.Helper()
	cl := testClient(t, b, kgo.ConsumerGroup("ledger"), kgo.InstanceID(instance), kgo.ConsumeTopics(credits), kgo.ClientID("teller"))
	ctx := t.Context()
	eventually(t, "the member has joined", func() bool {
		got, err := kadm.NewClient(testClient(t, b)).DescribeGroups(ctx, "ledger")
		return err == nil && len(got["ledger"].Members) > 0 && got["ledger"].State == "Stable"
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
