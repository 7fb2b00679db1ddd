package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxSkew is how far clocks may be apart before it is worth a word: records that are stamped more than an hour ahead are refused by
// brokers and become dead letters here, and nothing finer depends on clocks.
const maxSkew = 10 * time.Second

// errNoClock says that the cluster did not tell the time.
var errNoClock = errors.New("the answer holds no time")

// checkClock compares this machine's clock with the active controller's, the only one that Kafka tells without a write.
func checkClock(ctx context.Context, _ Config, client *kgo.Client) []finding {
	f := finding{Check: "clock", On: "controller", Result: isOK}
	began := time.Now()
	there, err := controllerTime(ctx, client)
	ended := time.Now()
	switch {
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		f.Said = "not compared: it takes DESCRIBE on the cluster, which the job does not need"
	case err != nil:
		f.Said = "not compared: " + err.Error()
	default:
		f.compare(there, began, ended)
	}
	return []finding{f}
}

// compare judges a clock that was read at some moment between two of ours.
func (f *finding) compare(there, began, ended time.Time) {
	half := ended.Sub(began) / 2
	ahead := there.Sub(began.Add(half))
	f.Said = fmt.Sprintf("its clock is this machine's, give or take %s", max(ahead.Abs(), half).Round(time.Millisecond))
	if ahead.Abs() <= half+maxSkew {
		return
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	f.Result, f.Said = isWarn, fmt.Sprintf("its clock is %s %s this machine's", ahead.Abs().Round(time.Second), way)
	f.Remedy = "synchronise both (ntp, chrony): what is stamped more than 1 h ahead of this clock becomes a dead letter future_timestamp, and a broker refuses what is as far ahead of its own"
}

// controllerTime asks for the state of the metadata quorum: its leader, the active controller, says when each replica last fetched, by
// its own wall clock (KIP-836, LastFetchTimestamp).
func controllerTime(ctx context.Context, client *kgo.Client) (time.Time, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return time.Time{}, err
	}
	return quorumTime(resp)
}

// quorumTime is the newest time in the answer: of itself the leader says now, and of those that follow it a moment ago.
func quorumTime(resp *kmsg.DescribeQuorumResponse) (time.Time, error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return time.Time{}, err
	}
	newest := int64(-1)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return time.Time{}, err
			}
			for _, r := range slices.Concat(p.CurrentVoters, p.Observers) {
				newest = max(newest, r.LastFetchTimestamp)
			}
		}
	}
	if newest < 0 {
		return time.Time{}, errNoClock
	}
	return time.UnixMilli(newest), nil
}
