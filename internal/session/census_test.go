package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asked collects which instances have asked for a rebalance, in order.
type asked struct {
	mu    sync.Mutex
	names []string
	more  chan struct{}
}

func (a *asked) by(instance string) func(int) {
	return func(int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.names = append(a.names, instance)
		select {
		case a.more <- struct{}{}:
		default:
		}
	}
}

func (a *asked) await(t *testing.T, n int) []string {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		a.mu.Lock()
		names := slices.Clone(a.names)
		a.mu.Unlock()
		if len(names) >= n {
			return names
		}
		select {
		case <-a.more:
		case <-deadline:
			t.Fatalf("asked for a rebalance: %q, want %d times", names, n)
		}
	}
}

// nobodys makes c describe the group as a stable one of these static members that has given no partition to anybody.
func nobodys(c *kfake.Cluster, members ...string) {
	c.ControlKey(int16(kmsg.DescribeGroups), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.State, g.ProtocolType, g.Protocol = "app", "Stable", "consumer", taskBalancer{}.ProtocolName()
		for _, name := range members {
			m := kmsg.NewDescribeGroupsResponseGroupMember()
			m.InstanceID, m.MemberID = kmsg.StringPtr(name), name
			g.Members = append(g.Members, m)
		}
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
}

func openMember(t *testing.T, c *kfake.Cluster, admin *kgo.Client, instance string, unplaced func(int)) {
	t.Helper()
	s, err := Open(t.Context(), Config{
		App: "app", Instance: instance, Inputs: []string{"in"}, Topology: Topology{StageOf: map[string]string{"in": "stage"}}, Admin: admin,
		Client:         []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)},
		SessionTimeout: 10 * time.Second, HeartbeatInterval: time.Second, RebalanceTimeout: 10 * time.Second, TransactionTimeout: 20 * time.Second,
		Assign: func(context.Context, []*Assignment) error { return nil }, MaxRecordBytes: 1_000_000, Partition: func(string, []byte, int) int { return 0 },
		Unplaced: unplaced,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Close(ctx)
	})
}

func TestMembersAskForARebalanceOneAfterAnother(t *testing.T) {
	t.Parallel()
	c, admin := embedded(t, 2, "in", "out", "state")
	nobodys(c, "a-0", "b-0")
	a := &asked{more: make(chan struct{}, 1)}
	openMember(t, c, admin, "a", a.by("a"))
	openMember(t, c, admin, "b", a.by("b"))
	if names := a.await(t, 2); !slices.Equal(names, []string{"a", "a"}) {
		t.Errorf("asked for a rebalance: %q, want the first member alone while its rebalances come about", names)
	}
}

func TestMemberAsksInItsTurnWhenTheFirstIsSilent(t *testing.T) {
	t.Parallel()
	c, admin := embedded(t, 1, "in", "out", "state")
	nobodys(c, "a-0", "b-0")
	b := &asked{more: make(chan struct{}, 1)}
	joins := make(chan struct{}, 8)
	c.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		joins <- struct{}{}
		return nil, nil, false
	})
	openMember(t, c, admin, "b", b.by("b"))
	b.await(t, 1)
	for range 2 { // the one of the start, and the one asked for
		select {
		case <-joins:
		case <-time.After(10 * time.Second):
			t.Fatal("the member has not joined again")
		}
	}
}

func TestWaitBeforeAskingDoublesAndEnds(t *testing.T) {
	for round, want := range []time.Duration{0, 3 * time.Second, 9 * time.Second, 21 * time.Second, 45 * time.Second, time.Minute, time.Minute} {
		if got := askAfter(round, 0); got != want {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
		if got := askAfter(round, 2) - want; got != 2*censusPatience {
			t.Errorf("round %d: the third member waits %v longer than the first, want %v", round, got, 2*censusPatience)
		}
	}
	if got := askAfter(1000, 0); got != censusLimit {
		t.Errorf("round 1000: %v, want %v", got, censusLimit)
	}
}

func TestGroupThatCannotBeCountedIsAnErrorWithItsCause(t *testing.T) {
	t.Parallel()
	c, admin := embedded(t, 1, "in")
	answer := kmsg.NewDescribeGroupsResponseGroup()
	c.ControlKey(int16(kmsg.DescribeGroups), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		resp.Groups = append(resp.Groups, answer)
		return resp, nil, true
	})
	s := &Session{cfg: Config{App: "app", Instance: "i", Inputs: []string{"in"}, Admin: admin}}
	answer.Group, answer.State = "app", "PreparingRebalance"
	if _, err := s.count(t.Context()); err == nil || err.Error() != `group "app" is PreparingRebalance` {
		t.Errorf("between two generations: %v", err)
	}
	answer.ErrorCode = kerr.GroupAuthorizationFailed.Code
	if _, err := s.count(t.Context()); err == nil || !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("without the right: %v", err)
	}
}
