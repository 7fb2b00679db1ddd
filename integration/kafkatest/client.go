package kafkatest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Client returns a client of seeds that writes each record to the partition it names and ends with
// the test.
func Client(t testing.TB, seeds []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// Name makes a name that no other test or run uses, so that tests can share a cluster.
func Name(t testing.TB, what string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%s-%s-%x", what, safe[:min(len(safe), 60)], time.Now().UnixNano())
}

// CreateTopic creates a topic with the broker's replication and waits for its leaders. config is
// key, value, key, value…
func CreateTopic(t testing.TB, cl *kgo.Client, topic string, partitions int32, config ...string) {
	t.Helper()
	settings := map[string]*string{}
	for i := 0; i+1 < len(config); i += 2 {
		settings[config[i]] = &config[i+1]
	}
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), partitions, -1, settings, topic); err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
	Within(t, 10*time.Second, "leaders of "+topic, func(ctx context.Context) error {
		m, err := adm.Metadata(ctx, topic)
		if err != nil {
			return err
		}
		if m.Topics[topic].Err != nil {
			return m.Topics[topic].Err
		}
		for _, p := range m.Topics[topic].Partitions {
			if p.Err != nil || p.Leader < 0 {
				return fmt.Errorf("%s/%d: leader %d: %w", topic, p.Partition, p.Leader, p.Err)
			}
		}
		return nil
	})
}

// Ends are the two ends of a partition: what a committed reader may see, and what is there.
func Ends(ctx context.Context, cl *kgo.Client, topic string, partition int32) (lastStable, highWatermark int64, err error) {
	adm := kadm.NewClient(cl)
	stable, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	high, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	s, ok := stable.Lookup(topic, partition)
	h, ok2 := high.Lookup(topic, partition)
	if !ok || !ok2 {
		return 0, 0, fmt.Errorf("%s/%d: no answer", topic, partition)
	}
	if s.Err != nil {
		return 0, 0, s.Err
	}
	return s.Offset, h.Offset, h.Err
}

// StableOffset asks for one partition's committed offset by name, and for a stable one: a commit
// that is still pending is an error (UNSTABLE_OFFSET_COMMIT). No offset is -1.
func StableOffset(ctx context.Context, cl *kgo.Client, group, topic string, partition int32) (int64, error) {
	id, err := TopicID(ctx, cl, topic)
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: id, Partitions: []int32{partition}}}
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, err
	}
	return onlyOffset(resp)
}

// TopicID is the id that newer requests use instead of the name.
func TopicID(ctx context.Context, cl *kgo.Client, topic string) ([16]byte, error) {
	m, err := kadm.NewClient(cl).Metadata(ctx, topic)
	if err != nil {
		return [16]byte{}, err
	}
	return m.Topics[topic].ID, m.Topics[topic].Err
}

func onlyOffset(resp *kmsg.OffsetFetchResponse) (int64, error) {
	if len(resp.Groups) != 1 {
		return 0, fmt.Errorf("offset fetch: %d groups in the answer", len(resp.Groups))
	}
	g := resp.Groups[0]
	if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
		return 0, err
	}
	if len(g.Topics) != 1 || len(g.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("offset fetch: %d topics in the answer", len(g.Topics))
	}
	p := g.Topics[0].Partitions[0]
	return p.Offset, kerr.ErrorForCode(p.ErrorCode)
}

// Committed reads a whole partition as a committed reader, up to its last stable offset.
func Committed(t testing.TB, seeds []string, topic string, partition int32) []*kgo.Record {
	t.Helper()
	cl := Client(t, seeds, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	end, _, err := Ends(ctx, cl, topic, partition)
	var got []*kgo.Record
	for next := int64(0); err == nil && next < end; {
		fetches := cl.PollFetches(ctx)
		err = fetches.Err()
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				got = append(got, r)
			}
		})
	}
	if err != nil {
		t.Fatalf("read %s/%d: %v", topic, partition, err)
	}
	return got
}
