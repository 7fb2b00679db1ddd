package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
)

// commit commits next offsets of the input, in the order of the partitions; -1 commits nothing.
func commit(t *testing.T, cl *kgo.Client, group string, next ...int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	for p, at := range next {
		if at >= 0 {
			offsets.AddOffset(credits, int32(p), at, -1)
		}
	}
	if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatal(err)
	}
}

func credit(partition int32, n int) []*kgo.Record {
	var out []*kgo.Record
	for range n {
		out = append(out, &kgo.Record{Topic: credits, Partition: partition, Key: []byte("a"), Value: []byte("{}")})
	}
	return out
}

func lagRows(t *testing.T, b *devbroker.Broker) ([]lagRow, string, exitCode) {
	t.Helper()
	out, errs, code := processor(t, b, "", "lag", "-o", "json")
	var rows []lagRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil && code == exitOK {
		t.Fatalf("%v in %s", err, out)
	}
	return rows, errs, code
}

func TestLagHasAWordForEveryCase(t *testing.T) {
	b, cl := testBroker(t, credits, 6, nil)
	for p := range int32(5) {
		produce(t, cl, credit(p, 10)...)
	}
	commit(t, cl, "ledger", 10, 4, -1, 3, 99, 0)
	if err := b.Cluster().DeleteRecords(credits, 3, 8); err != nil {
		t.Fatal(err)
	}
	rows, errs, code := lagRows(t, b)
	if code != exitOK || len(rows) != 6 {
		t.Fatalf("exit %d, %d rows: %s", code, len(rows), errs)
	}
	for i, want := range []struct {
		state lagState
		lag   string
		words string
	}{
		{lagRunning, "0", "0, set by another tool"}, {lagRunning, "6", "6, set by another tool"}, {lagNew, "10", "not started: 10"}, {lagLost, "2", "lost by retention: 5"},
		{lagAhead, "?", "ahead of the end: topic changed"}, {lagRunning, "0", "0, set by another tool"},
	} {
		r := rows[i]
		if r.State != want.state || number(r.Lag, "?") != want.lag || r.words() != want.words || r.Task != fmt.Sprintf("post/%d", i) {
			t.Errorf("partition %d: %+v: %q", i, r, r.words())
		}
	}
	out, _, _ := processor(t, b, "", "lag")
	for _, line := range []string{"post/2  credit-events/2  -          10   not started: 10", "post/4  credit-events/4  99         10   ahead of the end: topic changed"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
}

// An offset that the job did not commit stops its task at the next start: neither lag nor doctor may call that fine.
func TestAnOffsetThatIsNotTheJobsOwnIsSeen(t *testing.T) {
	b, _, client := history(t, 100)
	sees := func(code exitCode, words, said string) {
		t.Helper()
		rows, _, _ := lagRows(t, b)
		out, errs, got := processor(t, b, "", "doctor")
		if rows[1].words() != words || got != code || !strings.Contains(out, said) {
			t.Errorf("lag %q, doctor exits %d:\n%s%s", rows[1].words(), got, out, errs)
		}
	}
	sees(exitOK, "0", "every committed offset is the job's own, and its input is there")
	rows, _, _ := lagRows(t, b)
	at := *rows[1].Committed
	set := func(next int64, metadata string) {
		t.Helper()
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: credits, Partition: 1, At: next, LeaderEpoch: -1, Metadata: metadata})
		if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), "ledger", offsets); err != nil {
			t.Fatal(err)
		}
	}
	set(at, "")
	sees(exitCheckFailed, "0, set by another tool", "task post/1 stops there (I1, I2); stop the processors and run processor reset apply --to-marker")
	set(at, resetMark+"2026-11-30T00:00:00Z to earliest")
	sees(exitCheckFailed, "0, set by a reset that is not finished", "run the same processor reset apply again")
	set(at+1000, "")
	sees(exitCheckFailed, "ahead of the end: topic changed", "processor reset plan says what starting over costs")
}

func TestLagNamesWhoHoldsTheEnd(t *testing.T) {
	b, cl := testBroker(t, credits, 2, nil)
	produce(t, cl, credit(1, 3)...)
	transaction(t, b, "finished-later", credit(1, 1)...)(kgo.TryCommit)
	since := time.Now().Add(-time.Second)
	transaction(t, b, "upstream-7", credit(1, 2)...)
	transaction(t, b, "upstream-8", credit(1, 1)...)
	produce(t, cl, credit(1, 4)...)
	commit(t, cl, "ledger", 0, 3)
	rows, errs, code := lagRows(t, b)
	if code != exitOK || len(rows) != 2 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	r := rows[1]
	if r.HeldBy == nil || r.HeldBy.TransactionalID != "upstream-7" || r.HeldBy.FirstOffset != 5 || r.HeldBy.Since == nil || r.HeldBy.Since.Before(since) || *r.Stable != 5 || *r.End != 12 || *r.Lag != 9 {
		t.Errorf("%+v, held by %+v", r, r.HeldBy)
	}
	if rows[0].HeldBy != nil || rows[0].held() != "" {
		t.Errorf("%+v", rows[0])
	}
	if out, _, _ := processor(t, b, "", "lag"); !strings.Contains(out, "behind 7 of upstream-7 since 20") {
		t.Error(out)
	}
}

// A first commit that is still in a transaction is no commit, and no error.
func TestLagOfATaskWhoseFirstCommitIsOpen(t *testing.T) {
	b, cl := testBroker(t, credits, 1, nil)
	if err := b.Cluster().CreateTopic("ledger-post-state", 1, nil); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, credit(0, 3)...)
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(b.Addrs()...), kgo.TransactionalID("ledger-x-0"), kgo.ConsumerGroup("ledger"), kgo.ConsumeTopics(credits))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got := session.PollRecords(ctx, 10); got.NumRecords() == 0 {
		t.Fatal(got.Err())
	}
	if err := session.Begin(); err != nil {
		t.Fatal(err)
	}
	offered := make(chan struct{})
	b.Cluster().ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(offered)
		b.Cluster().SleepControl(func() { <-ctx.Done() })
		return nil, nil, false
	})
	go func() { _, _ = session.End(ctx, kgo.TryCommit) }() // its answer is held back until the end
	<-offered
	rows, errs, code := lagRows(t, b)
	if code != exitOK || rows[0].State != lagNew || *rows[0].Lag != 3 {
		t.Errorf("exit %d, %+v: %s", code, rows, errs)
	}
	cancel()
}

func TestLagNeverPrintsUnknownAsZero(t *testing.T) {
	b, cl := testBroker(t, credits, 3, nil)
	produce(t, cl, credit(0, 5)...)
	commit(t, cl, "ledger", 5, 0, 0)
	fault := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: credits, Partitions: []int32{1}, Err: kerr.UnknownServerError, Count: -1})
	rows, errs, code := lagRows(t, b)
	fault.Remove()
	if code != exitOK || rows[0].State != lagRunning || rows[1].State != lagUnknown || rows[1].Lag != nil || rows[1].End != nil || !strings.Contains(rows[1].words(), "unknown: UNKNOWN_SERVER_ERROR") {
		t.Errorf("exit %d, %+v: %s", code, rows, errs)
	}
	fault = b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnknownServerError, Count: -1})
	rows, errs, code = lagRows(t, b)
	fault.Remove()
	zero := func(r lagRow) bool { return r.Lag != nil || r.State != lagUnknown }
	if code == exitOK || slices.ContainsFunc(rows, zero) {
		t.Errorf("exit %d, %+v: %s", code, rows, errs)
	}
}

func TestLagWithoutTopicOrGroup(t *testing.T) {
	b := emptyBroker(t)
	if _, errs, code := lagRows(t, b); code != exitNotFound || !strings.Contains(errs, credits) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if err := b.Cluster().CreateTopic(credits, 1, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`application.id "ledger"`, "ledger-dead-letters", "is application.id right?", "processor topics apply"} {
		if _, errs, code := lagRows(t, b); code != exitNotFound || !strings.Contains(errs, want) {
			t.Errorf("the input alone is no job: exit %d, no %q in %s", code, want, errs)
		}
	}
	if err := b.Cluster().CreateTopic("ledger-post-state", 1, nil); err != nil {
		t.Fatal(err)
	}
	if rows, errs, code := lagRows(t, b); code != exitOK || rows[0].words() != "not started: 0" {
		t.Errorf("a job that has not run yet: exit %d, %+v: %s", code, rows, errs)
	}
}
