package devbroker_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/devbroker"
)

func start(t *testing.T, o devbroker.Options) (*devbroker.Broker, *kgo.Client, context.Context) {
	t.Helper()
	b, err := devbroker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return b, cl, ctx
}

func TestListensOnLoopbackOnly(t *testing.T) {
	b, _, _ := start(t, devbroker.Options{Brokers: 3})
	if len(b.Addrs()) != 3 || strings.Count(b.String(), ",") != 2 {
		t.Fatalf("got %v, want three addresses", b.Addrs())
	}
	for _, a := range b.Addrs() {
		host, _, err := net.SplitHostPort(a)
		if err != nil || !net.ParseIP(host).IsLoopback() {
			t.Errorf("%s is not on the loopback interface", a)
		}
	}
}

func TestUnknownTopicIsNotCreatedByProducing(t *testing.T) {
	_, cl, ctx := start(t, devbroker.Options{})
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "nobody-made-me", Value: []byte("x")}).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("got %v", err)
	}
}

func TestCleanerSleeps(t *testing.T) {
	_, cl, ctx := start(t, devbroker.Options{})
	brokers, err := kadm.NewClient(cl).DescribeBrokerConfigs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range brokers[0].Configs {
		if c.Key == "log.cleaner.backoff.ms" && c.MaybeValue() == "31536000000" {
			return
		}
	}
	t.Error("log.cleaner.backoff.ms is not set: compaction would run past open transactions")
}

func TestCloseTwiceIsHarmless(t *testing.T) {
	b, _, _ := start(t, devbroker.Options{})
	b.Close()
	b.Close()
	if len(b.Addrs()) != 1 {
		t.Errorf("a closed broker forgets its addresses: %v", b.Addrs())
	}
}

func TestStartNamesTheWayOutWhenThePortIsTaken(t *testing.T) {
	b, _, _ := start(t, devbroker.Options{})
	addr, err := net.ResolveTCPAddr("tcp", b.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := devbroker.Start(devbroker.Options{Ports: []int{addr.Port}}); err == nil || !strings.Contains(err.Error(), "other ports") {
		t.Errorf("got %v", err)
	}
}

func TestEvictRemovesStaticMembersThatAreGone(t *testing.T) {
	b, cl, ctx := start(t, devbroker.Options{})
	if _, err := kadm.NewClient(cl).CreateTopics(ctx, 1, 1, nil, "input"); err != nil {
		t.Fatal(err)
	}
	member, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumerGroup("group"), kgo.InstanceID("one"), kgo.ConsumeTopics("input"))
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	stable := func(members int) bool {
		groups, err := kadm.NewClient(cl).DescribeGroups(ctx, "group")
		return err == nil && groups["group"].State == "Stable" && len(groups["group"].Members) == members
	}
	for !stable(1) {
		if ctx.Err() != nil {
			t.Fatal("the member never joined")
		}
	}
	if gone, err := devbroker.Evict(ctx, cl, "group", map[string]bool{"one": true}); err != nil || len(gone) != 0 {
		t.Errorf("a live member: evicted %v, %v", gone, err)
	}
	member.Close() // a static member does not leave
	if gone, err := devbroker.Evict(ctx, cl, "group", nil); err != nil || len(gone) != 1 || gone[0] != "one" {
		t.Errorf("a dead member: evicted %v, %v", gone, err)
	}
	if gone, err := devbroker.Evict(ctx, cl, "group", nil); err != nil || len(gone) != 0 {
		t.Errorf("an empty group: evicted %v, %v", gone, err)
	}
}
