package session

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// embedded starts a broker with topics and returns it with a client.
func embedded(t *testing.T, partitions int32, topics ...string) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return c, client
}

// answer makes the broker's OffsetFetch answers what edit makes of one that has an offset for partition 0 of "in".
func answer(c *kfake.Cluster, edit func(*kmsg.OffsetFetchRequest, *kmsg.OffsetFetchResponse)) {
	c.ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.OffsetFetchRequest)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group = req.Groups[0].Group
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = req.Groups[0].Topics[0].Topic, req.Groups[0].Topics[0].TopicID
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Offset = 5
		topic.Partitions = append(topic.Partitions, p)
		g.Topics = append(g.Topics, topic)
		resp.Groups = append(resp.Groups, g)
		edit(req, resp)
		return resp, nil, true
	})
}

// A group that is not there has read nothing; one that may not be read is an error that names the right; a coordinator that a new
// cluster does not have yet is waited for.
func TestTopicsThatAGroupHasRead(t *testing.T) {
	for code, want := range map[int16]string{0: "", kerr.GroupIDNotFound.Code: "", kerr.CoordinatorNotAvailable.Code: "", kerr.GroupAuthorizationFailed.Code: "READ on group g is missing"} {
		asked := 0
		c, _ := embedded(t, 1, "in")
		client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RequestRetries(1)) // by itself it would try for half a minute
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		c.ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			resp := r.(*kmsg.OffsetFetchRequest).ResponseKind().(*kmsg.OffsetFetchResponse)
			g := kmsg.NewOffsetFetchResponseGroup()
			g.Group, g.ErrorCode = "g", code
			if asked++; code == kerr.CoordinatorNotAvailable.Code && asked > 4 {
				g.ErrorCode = 0
			}
			resp.Groups = append(resp.Groups, g)
			return resp, nil, true
		})
		got, err := CommittedTopics(t.Context(), client, "g")
		if len(got) > 0 || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("code %d: %v, %v, want %q", code, got, err, want)
		}
	}
}

// A cluster that is new has no coordinator yet, and one that fails over has none for seconds: neither ends a start.
func TestTopicsThatAGroupHasReadAreAskedForUntilACoordinatorAnswers(t *testing.T) {
	c, client := embedded(t, 1, "in")
	asked := 0
	c.ControlKey(int16(kmsg.FindCoordinator), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if asked++; asked > 6 {
			return nil, nil, false
		}
		resp := r.(*kmsg.FindCoordinatorRequest).ResponseKind().(*kmsg.FindCoordinatorResponse)
		f := kmsg.NewFindCoordinatorResponseCoordinator()
		f.Key, f.ErrorCode = "g", kerr.CoordinatorNotAvailable.Code
		resp.Coordinators = append(resp.Coordinators, f)
		return resp, nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, err := CommittedTopics(ctx, client, "g"); err != nil || len(got) > 0 || asked < 7 {
		t.Errorf("got %v, %v after %d requests", got, err, asked)
	}
}

// "None" would start the task from the beginning and apply everything twice.
func TestOffsetThatTheAnswerLeavesOutIsAnErrorAndNotNone(t *testing.T) {
	c, client := embedded(t, 2, "in")
	answer(c, func(*kmsg.OffsetFetchRequest, *kmsg.OffsetFetchResponse) {})
	got, err := fetchCommittedOnce(t.Context(), client, "g", []TopicPartition{{"in", 0}, {"in", 1}})
	if err == nil || !strings.Contains(err.Error(), "left out in/1") {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestOffsetWithAnErrorIsAnErrorAndNotNone(t *testing.T) {
	c, client := embedded(t, 1, "in")
	answer(c, func(_ *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) {
		resp.Groups[0].Topics[0].Partitions[0].ErrorCode = kerr.UnstableOffsetCommit.Code
	})
	got, err := fetchCommittedOnce(t.Context(), client, "g", []TopicPartition{{"in", 0}})
	if !errors.Is(err, kerr.UnstableOffsetCommit) {
		t.Errorf("got %v, %v", got, err)
	}
}

// A partition whose first commit is pending is left out of Kafka's answer to a request for all, without an error; a request that
// names it is told that its offset is not stable yet.
func TestFirstCommitThatIsPendingIsWaitedFor(t *testing.T) {
	c, client := embedded(t, 1, "in")
	asked := 0
	c.ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.OffsetFetchRequest)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group = "g"
		for _, named := range req.Groups[0].Topics {
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic, topic.TopicID = named.Topic, named.TopicID
			p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			if p.Offset = 5; asked < 3 {
				p.Offset, p.ErrorCode = -1, kerr.UnstableOffsetCommit.Code
			}
			topic.Partitions = append(topic.Partitions, p)
			g.Topics = append(g.Topics, topic)
		}
		asked++
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	got, err := FetchCommitted(t.Context(), client, "g", []TopicPartition{{"in", 0}})
	if err != nil || got[TopicPartition{"in", 0}].Next != 5 {
		t.Errorf("committed %v, %v: want 5, which was pending at first: read as none, all of the input would be applied twice", got, err)
	}
}

// The offset of an open transaction may still be committed: it is waited for, and the request names its partitions.
func TestCommittedOffsetsAreReadStableAndByName(t *testing.T) {
	c, client := embedded(t, 1, "in")
	var stable bool
	var named int
	answer(c, func(req *kmsg.OffsetFetchRequest, _ *kmsg.OffsetFetchResponse) {
		stable, named = req.RequireStable, len(req.Groups[0].Topics[0].Partitions)
	})
	got, err := FetchCommitted(t.Context(), client, "g", []TopicPartition{{"in", 0}})
	if err != nil || got[TopicPartition{"in", 0}].Next != 5 || !stable || named != 1 {
		t.Errorf("got %v, %v; require stable %v, %d partitions named", got, err, stable, named)
	}
}

func TestEndStableAndStartOffsetsAreThree(t *testing.T) {
	c, client := embedded(t, 1, "log")
	tp := TopicPartition{"log", 0}
	for range 3 {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "log", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	openTransaction(t, c, "app-i-0", "log")
	var offsets kadm.Offsets
	offsets.AddOffset("log", 0, 2, -1)
	if _, err := kadm.NewClient(client).DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		read func(context.Context, *kgo.Client, TopicPartition) (int64, error)
		want int64
	}{{"end", EndOffset, 4}, {"stable", StableOffset, 3}, {"start", StartOffset, 2}} {
		if got, err := c.read(t.Context(), client, tp); err != nil || got != c.want {
			t.Errorf("%s: got %d, %v, want %d", c.name, got, err, c.want)
		}
	}
}

// A broker that has just started may not know a topic yet; one that does not know it after half a minute never will.
func TestMissingTopicIsBelievedAfterAWhile(t *testing.T) {
	var r retry
	if !r.again(t.Context(), kerr.UnknownTopicOrPartition) {
		t.Error("given up at once")
	}
	r.since = time.Now().Add(-missingPatience - time.Second)
	if r.again(t.Context(), kerr.UnknownTopicOrPartition) {
		t.Error("asked for ever")
	}
	if !r.again(t.Context(), kerr.CoordinatorNotAvailable) || !r.since.IsZero() {
		t.Error("another error must begin the wait anew")
	}
	if r.again(t.Context(), kerr.TopicAuthorizationFailed) {
		t.Error("a refusal does not pass")
	}
}

// kerr does not call it retriable, but it only means that the transaction before is being ended.
func TestConcurrentTransactionsPass(t *testing.T) {
	if !passes(kerr.ConcurrentTransactions) {
		t.Error("a fence would give up while the coordinator ends the transaction that it fences")
	}
}

// One broker of three is gone and what it led has no successor yet: an estimate is no reason to end.
func TestRecordsAreCountedWithoutTheBrokerThatIsGone(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	gone := c.LeaderFor("in", 0)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RequestRetries(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	others := int64(0)
	for p := range int32(3) {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Partition: p, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if c.LeaderFor("in", p) != gone {
			others++
		}
	}
	var everyone atomic.Bool
	c.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if everyone.Load() || c.CurrentNode() == gone {
			return nil, errors.New("it is gone"), true
		}
		return nil, nil, false
	})
	n, err := RecordsSince(t.Context(), client, time.Now().Add(-time.Hour), "in")
	if err != nil || n != others || others == 0 {
		t.Errorf("%d records, %v; want the %d of the brokers that answer", n, err, others)
	}
	everyone.Store(true)
	if n, err := RecordsSince(t.Context(), client, time.Now().Add(-time.Hour), "in"); err == nil {
		t.Errorf("%d records of brokers that are all gone", n)
	}
}
