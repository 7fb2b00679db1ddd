package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// A member that the group turned away in the middle of a transaction, after a freeze say, waits for
// AllowRebalance before it tells anybody, and sends no heartbeat meanwhile. End waits for a heartbeat.
// So a commit then takes as long as its deadline allows, unless the owner allows the rebalance while
// End runs: the commit then fails at once, and nothing of it is written.
func TestEndOfAnExpelledMemberHangsUnlessItAllowsTheRebalance(t *testing.T) {
	seeds := kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort})
	t.Run("left alone", func(t *testing.T) {
		b, s := expelled(t, seeds)
		const limit = 3 * time.Second
		begin := time.Now()
		ok, err := commit(t, s, limit)
		if took := time.Since(begin); took < limit || ok {
			t.Errorf("End: %v, %v after %v: it no longer hangs", ok, err, took)
		}
		b.uncommitted(t)
	})
	t.Run("rebalance allowed", func(t *testing.T) {
		b, s := expelled(t, seeds)
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			ok, err := s.End(ctx, kgo.TryCommit)
			if ok {
				err = errors.New("committed")
			}
			ended <- err
		}()
		s.AllowRebalance()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("End: %v", err)
			}
		case <-time.After(3 * time.Second):
			t.Error("End hangs although the rebalance is allowed")
		}
		b.uncommitted(t)
	})
}

// expelled returns a member with an open transaction that has just heard that it is none any more.
func expelled(t *testing.T, seeds []string) (bench, *kgo.GroupTransactSession) {
	t.Helper()
	b := newBench(t, seeds)
	blocked := make(chan struct{}, 1)
	s := b.open(t, kgo.InstanceID("i-0"), kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) { blocked <- struct{}{} }))
	b.begin(t, s)
	r, err := kadm.NewClient(b.admin).LeaveGroup(t.Context(), kadm.LeaveGroup(b.group).InstanceIDs("i-0"))
	if err != nil || !r.Ok() {
		t.Fatalf("leave group: %v, %v", err, r.Error())
	}
	await(t, blocked, "the client's word that it is blocked")
	return b, s
}

func (b bench) uncommitted(t *testing.T) {
	t.Helper()
	if err := b.fence(t, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	b.decided(t, 0)
	if next := b.offset(t); next != -1 {
		t.Errorf("committed offset %d, want none", next)
	}
}
