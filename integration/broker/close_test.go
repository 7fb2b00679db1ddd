package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// After a poll that blocks rebalances Close waits for a permission that nobody is left to give.
func TestCloseHangsAfterABlockingPollAndCloseAllowingRebalanceDoesNot(t *testing.T) {
	seeds := kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort})
	t.Run("Close", func(t *testing.T) {
		s := polled(t, seeds)
		closed := inBackground(s.Close)
		if ends(closed, 3*time.Second) {
			t.Error("Close returned: the engine may use it again")
		}
		s.AllowRebalance()
		if !ends(closed, 20*time.Second) {
			t.Error("Close still hangs after AllowRebalance")
		}
	})
	t.Run("CloseAllowingRebalance", func(t *testing.T) {
		s := polled(t, seeds)
		if !ends(inBackground(s.CloseAllowingRebalance), 20*time.Second) {
			t.Error("CloseAllowingRebalance hangs")
		}
	})
}

func polled(t *testing.T, seeds []string) *kgo.GroupTransactSession {
	t.Helper()
	b := newBench(t, seeds)
	s, err := kgo.NewGroupTransactSession(b.options()...)
	if err != nil {
		t.Fatal(err)
	}
	pollOne(t, s)
	return s
}

func inBackground(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

func ends(done <-chan struct{}, limit time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// Closing is right for a restart and wrong for a scale-down: there each id must leave by name.
func TestClosedStaticMemberStaysInTheGroupUntilItLeavesByName(t *testing.T) {
	b := newBench(t, kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort}))
	s := b.open(t, kgo.InstanceID("i-0"))
	pollOne(t, s)
	s.CloseAllowingRebalance()
	adm := kadm.NewClient(b.admin)
	if n := members(t, adm, b.group); n != 1 {
		t.Fatalf("%d members after the close, want 1", n)
	}
	r, err := adm.LeaveGroup(t.Context(), kadm.LeaveGroup(b.group).InstanceIDs("i-0"))
	if err != nil || !r.Ok() {
		t.Fatalf("leave group: %v, %v", err, r.Error())
	}
	if n := members(t, adm, b.group); n != 0 {
		t.Errorf("%d members after leaving by name, want none", n)
	}
}

func members(t *testing.T, adm *kadm.Client, group string) int {
	t.Helper()
	g, err := adm.DescribeGroups(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	return len(g[group].Members)
}
