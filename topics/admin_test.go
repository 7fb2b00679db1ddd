package topics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/topics"
)

func admin(t *testing.T) (*topics.Admin, *kfake.Cluster, context.Context) {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{Brokers: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return topics.NewAdmin(cl), b.Cluster(), ctx
}

func TestApplyCreatesOnceAndReadsBack(t *testing.T) {
	a, _, ctx := admin(t)
	for round := range 2 {
		steps, err := a.Apply(ctx, post(), topics.Rules{Partitions: 6, Replication: 3})
		if err != nil || len(steps.Pending()) > 0 {
			t.Fatalf("round %d: %v, pending %v", round, err, steps.Pending())
		}
		for _, s := range steps {
			if s.Action != topics.Accept || s.Partitions != 6 || s.Replication != 3 {
				t.Errorf("round %d: %+v", round, s)
			}
		}
	}
	haves, err := a.Describe(ctx, "in", "app-post-state", "nowhere")
	if err != nil || len(haves) != 2 {
		t.Fatalf("%v, %v", haves, err)
	}
	if got := haves["app-post-state"]; got.Config["cleanup.policy"] != "compact" || got.ID == [16]byte{} || got.Partitions != 6 || got.Replicas != 3 {
		t.Errorf("%+v", got)
	}
}

// Each broker learns of a new topic in its own time: one names it, the one that is asked for its configs does not have it yet.
func TestApplyWaitsForABrokerThatDoesNotHaveTheTopicYet(t *testing.T) {
	a, cluster, ctx := admin(t)
	behind := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: "in", Err: kerr.UnknownTopicOrPartition, Count: 2})
	steps, err := a.Apply(ctx, post(), topics.Rules{Partitions: 6, Replication: 3})
	if err != nil || len(steps.Pending()) > 0 {
		t.Fatalf("%v, pending %v", err, steps.Pending())
	}
	if behind.Hits() != 2 {
		t.Errorf("%d answers of a broker that is behind, want 2", behind.Hits())
	}
}

// A job that starts on another broker than the one that made the topics must find them.
func TestApplyWaitsUntilEveryBrokerHasTheTopic(t *testing.T) {
	a, cluster, ctx := admin(t)
	node := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Nodes: []int32{2}, Topic: "in", Err: kerr.UnknownTopicOrPartition, Count: 4})
	steps, err := a.Apply(ctx, post(), topics.Rules{Partitions: 6, Replication: 3})
	if err != nil || len(steps.Pending()) > 0 {
		t.Fatalf("%v, pending %v", err, steps.Pending())
	}
	if node.Hits() != 4 {
		t.Errorf("%d answers of the broker that is behind, want 4: it was not waited for", node.Hits())
	}
}

func TestDescribeOfNothingAsksNobody(t *testing.T) {
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if haves, err := topics.NewAdmin(cl).Describe(t.Context()); err != nil || len(haves) != 0 {
		t.Errorf("%v, %v", haves, err)
	}
}

func TestApplyCreatesNothingWhenOneTopicIsRefused(t *testing.T) {
	a, cluster, ctx := admin(t)
	if err := cluster.CreateTopic("app-post-state", 4, map[string]string{"cleanup.policy": "delete"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Apply(ctx, post(), topics.Rules{}); err == nil || !strings.Contains(err.Error(), "cleanup.policy") {
		t.Fatalf("got %v", err)
	}
	if cluster.TopicInfo("out") != nil || cluster.TopicInfo("in") != nil {
		t.Error("something was created")
	}
}

func TestApplyNamesEachTopicThatFailed(t *testing.T) {
	a, cluster, ctx := admin(t)
	_, err := a.Apply(ctx, post(), topics.Rules{Replication: 4})
	if !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Fatalf("got %v", err)
	}
	for _, name := range []string{"in", "out", "app-post-state", "app-dead-letters"} {
		if !strings.Contains(err.Error(), "create topic "+name+": ") || cluster.TopicInfo(name) != nil {
			t.Errorf("%s: not named, or created: %v", name, err)
		}
	}
	if !strings.Contains(err.Error(), "at most as many replicas as there are brokers") {
		t.Errorf("no remedy: %v", err)
	}
}

func TestApplyTakesATopicThatAnotherProcessMade(t *testing.T) {
	a, cluster, ctx := admin(t)
	answered := make(chan struct{})
	cluster.ControlKey(int16(kmsg.CreateTopics), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req := r.(*kmsg.CreateTopicsRequest)
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		resp.Topics = []kmsg.CreateTopicsResponseTopic{{Topic: req.Topics[0].Topic, ErrorCode: kerr.TopicAlreadyExists.Code}}
		close(answered)
		return resp, nil, true
	})
	made := make(chan error, 1)
	go func() { // the other process; its topic appears after the refusal
		<-answered
		made <- cluster.CreateTopic("in", 4, nil)
	}()
	steps, err := a.Apply(ctx, post()[:1], topics.Rules{})
	if err := errors.Join(err, <-made); err != nil || len(steps.Pending()) > 0 {
		t.Errorf("%v, %v", steps, err)
	}
}

func TestDescribeSeparatesDeniedFromAbsent(t *testing.T) {
	a, cluster, ctx := admin(t)
	for _, name := range []string{"in", "out"} {
		if err := cluster.CreateTopic(name, 4, nil); err != nil {
			t.Fatal(err)
		}
	}
	denied := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: "in", Err: kerr.TopicAuthorizationFailed, Count: -1})
	defer denied.Remove()
	haves, err := a.Describe(ctx, "in", "out", "nowhere")
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(haves["in"].Err, kerr.TopicAuthorizationFailed) || haves["out"].Err != nil || haves["out"].Config["cleanup.policy"] != "delete" {
		t.Errorf("%+v", haves)
	}
	if _, there := haves["nowhere"]; there {
		t.Error("a topic that does not exist is described")
	}
	if err := topics.Plan(post()[:2], haves, topics.Rules{}).Refused(); err == nil || !strings.Contains(err.Error(), "DESCRIBE_CONFIGS") {
		t.Errorf("got %v", err)
	}
}

func TestDescribeFailsWhenNobodyAnswers(t *testing.T) {
	a, cluster, _ := admin(t)
	cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if haves, err := a.Describe(ctx, "in"); err == nil || haves != nil {
		t.Errorf("%v, %v: a look-up that failed is never an empty answer", haves, err)
	}
}
