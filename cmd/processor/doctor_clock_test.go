package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A clock that was read between two moments is as good as their distance; beyond that it is told how far it is off.
func TestDoctorComparesClocksWithinTheRoundTrip(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		there, took time.Duration
		result      verdictWord
		said        string
	}{
		{5 * time.Millisecond, 10 * time.Millisecond, isOK, "give or take 5ms"},
		{3 * time.Second, 10 * time.Millisecond, isOK, "give or take 2.995s"},
		{14 * time.Second, 10 * time.Second, isOK, "give or take 9s"},
		{2*time.Hour + 5*time.Millisecond, 10 * time.Millisecond, isWarn, "its clock is 2h0m0s ahead of this machine's"},
		{-time.Minute + 5*time.Millisecond, 10 * time.Millisecond, isWarn, "its clock is 1m0s behind this machine's"},
	} {
		f := finding{Result: isOK}
		if f.compare(began.Add(c.there), began, began.Add(c.took)); f.Result != c.result || !strings.Contains(f.Said, c.said) || (f.Result == isWarn) != (f.Remedy != "") {
			t.Errorf("%v: %+v", c, f)
		}
	}
}

// The time is the newest that the quorum's leader tells; an answer without one, or a refusal, is no time.
func TestDoctorReadsTheControllersClock(t *testing.T) {
	replica := func(id int32, at int64) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
		return kmsg.DescribeQuorumResponseTopicPartitionReplicaState{ReplicaID: id, LastFetchTimestamp: at}
	}
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	resp := &kmsg.DescribeQuorumResponse{Topics: []kmsg.DescribeQuorumResponseTopic{{Partitions: []kmsg.DescribeQuorumResponseTopicPartition{p}}}}
	told := &resp.Topics[0].Partitions[0]
	if _, err := quorumTime(resp); !errors.Is(err, errNoClock) {
		t.Errorf("nobody fetched: %v", err)
	}
	told.CurrentVoters = append(told.CurrentVoters, replica(1, -1), replica(2, 7_000))
	told.Observers = append(told.Observers, replica(3, 9_000), replica(4, 8_000))
	if at, err := quorumTime(resp); err != nil || at.UnixMilli() != 9_000 {
		t.Errorf("%v, %v", at, err)
	}
	told.ErrorCode = kerr.NotLeaderForPartition.Code
	if _, err := quorumTime(resp); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("%v", err)
	}
	resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
	if _, err := quorumTime(resp); !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Errorf("%v", err)
	}
}
