package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// An abort marker that somebody writes by hand into one partition of an open transaction, as tools against hanging ones do,
// tears it: its coordinator then commits the others. Readers see a part of it, and nothing but raw mode says why.

func TestAnUpstreamTransactionTornByAToolIsFoundWithBothMarkers(t *testing.T) {
	s := newSite(t)
	upstream := kafkatest.Client(t, s.kafka.Seeds(), kgo.TransactionalID("upstream"), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err := upstream.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := upstream.ProduceSync(t.Context(), events(t, 1, 50, time.Now())...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	first := s.abortByHand(t, input, 1)
	if err := upstream.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	job := s.instance(t, "pod-0")
	s.awaitEnd(t, job)
	job.Drain(t)
	if r := s.verify(t, exitOK); r.Inputs == 0 {
		t.Error("the other partition's part is not visible")
	}
	r := s.verify(t, exitViolated, "--raw")
	if !maps.Equal(r.Counts, map[string]int64{"torn": 1}) {
		t.Errorf("violations: %v", r.Counts)
	}
	r.isTorn(t, record{Topic: input, Partition: 0}, record{Topic: input, Partition: 1, Offset: first})
}

func TestAJobsTransactionTornByAToolIsFoundWithBothMarkers(t *testing.T) {
	s := newSite(t)
	door := s.kafka.Door(t, "pod-0")
	s.command = s.command.For(door.Seeds())
	job := s.instance(t, "pod-0", "--num-stream-threads", "1")
	s.credit(t, 1)
	s.awaitEnd(t, job)
	door.Hold(kmsg.EndTxn)
	ended := door.Arrived(kmsg.EndTxn)
	p := s.credit(t, 10)
	kafkatest.Within(t, 20*time.Second, "the job ends its transaction", func(context.Context) error {
		if n := door.Arrived(kmsg.EndTxn); n == ended {
			return fmt.Errorf("%d requests, as before", n)
		}
		return nil
	})
	_, end, err := kafkatest.Ends(t.Context(), s.client, updates, p)
	if err != nil {
		t.Fatal(err)
	}
	first := s.abortByHand(t, updates, p)
	door.Release(kmsg.EndTxn)
	s.awaitEnd(t, job)
	job.Drain(t)
	r := s.verify(t, exitViolated, "--raw")
	if r.Counts["torn"] != 1 || r.Counts["lost"] != end-first {
		t.Errorf("violations: %v, want one torn and %d lost", r.Counts, end-first)
	}
	r.isTorn(t, record{Topic: state, Partition: p, Offset: -1}, record{Topic: updates, Partition: p, Offset: first})
}

// credit feeds credits of one account, and returns its partition.
func (s *site) credit(t *testing.T, n int) (partition int32) {
	t.Helper()
	for i := range n {
		rec := &kgo.Record{Topic: input, Key: []byte("ACC-1"), Value: fmt.Appendf(nil,
			`{"event_id":"EVT-%d-%d","account_id":"ACC-1","amount":"1.00","currency":"EUR","occurred_at":"2026-01-01T00:00:00Z"}`, n, i)}
		if err := s.client.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
		partition = rec.Partition
	}
	return partition
}

// abortByHand writes an abort marker into one partition of a transaction that is open there, and returns its first offset.
func (s *site) abortByHand(t *testing.T, topic string, partition int32) (first int64) {
	t.Helper()
	set := kadm.TopicsSet{}
	set.Add(topic, partition)
	described, err := s.adm.DescribeProducers(t.Context(), set)
	if err == nil {
		err = described[topic].Partitions[partition].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range described[topic].Partitions[partition].ActiveProducers {
		if p.CurrentTxnStartOffset < 0 {
			continue
		}
		answers, err := s.adm.WriteTxnMarkers(t.Context(), kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch,
			CoordinatorEpoch: max(p.CoordinatorEpoch, 0), Topics: set})
		answers.EachPartition(func(a kadm.TxnMarkersPartitionResponse) { err = errors.Join(err, a.Err) })
		if err != nil {
			t.Fatalf("the broker refuses a marker: %v", err)
		}
		return p.CurrentTxnStartOffset
	}
	t.Fatalf("no transaction is open in %s/%d", topic, partition)
	return 0
}

// isTorn wants one torn transaction, with a record that is committed (of any offset below 0) and one that is aborted, each with the
// control record that decided so.
func (r report) isTorn(t *testing.T, committed, aborted record) {
	t.Helper()
	for _, v := range r.violations(t) {
		if v.Verdict != "torn" {
			continue
		}
		ends := map[string][]string{}
		is := func(want record) bool {
			return slices.ContainsFunc(v.Evidence, func(e record) bool {
				return e.Topic == want.Topic && e.Partition == want.Partition && e.Control == "" && (e.Offset == want.Offset || want.Offset < 0)
			})
		}
		for _, e := range v.Evidence {
			if e.Control != "" {
				ends[e.Control] = append(ends[e.Control], fmt.Sprintf("%s/%d", e.Topic, e.Partition))
			}
		}
		at := func(r record) []string { return []string{fmt.Sprintf("%s/%d", r.Topic, r.Partition)} }
		if !is(committed) || !is(aborted) || !maps.EqualFunc(ends, map[string][]string{"committed": at(committed), "aborted": at(aborted)}, slices.Equal) {
			t.Errorf("%s: %+v", v.Text, v.Evidence)
		}
		return
	}
	t.Errorf("nothing is torn: %s", r.Violations)
}
