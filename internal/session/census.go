package session

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

const (
	// censusPatience is how long a task may be nobody's in a group that stands still: longer than the owner that gives it up
	// needs for its commit, shorter than a session.
	censusPatience = 3 * time.Second
	censusLimit    = time.Minute // the longest wait before the group is asked to join again: nobody may be able to take the task
)

// census looks, once for each generation, whether every task is somebody's, and has this member join again when one is not.
//
// Under the cooperative protocol (KIP-429) a task that moves is nobody's between two rebalances, and the second one is asked for
// by the member that gave it up. If that member dies there and comes back as the static member that it was (KIP-345), the broker
// hands it what is stored, without a rebalance, and the task would be nobody's for good.
//
// All members look, and they ask one after another: who has asked begins a generation, and the others look again instead. So a
// task that nobody can take costs the group a rebalance in a minute, however many members it has.
func (s *Session) census(ctx context.Context) {
	for round := 0; ctx.Err() == nil; {
		sleep(ctx, censusPatience)
		if ctx.Err() != nil || !s.uncounted.Swap(false) {
			continue
		}
		c, err := s.count(ctx)
		if err != nil {
			s.uncounted.Store(true)
			continue
		}
		if c.orphans == 0 {
			round = 0
			continue
		}
		sleep(ctx, askAfter(round, c.rank))
		round++
		if s.uncounted.Swap(true) || ctx.Err() != nil { // another member has asked
			continue
		}
		if tell := s.cfg.Unplaced; tell != nil {
			tell(c.orphans)
		}
		s.gts.Client().ForceRebalance()
	}
}

// askAfter is how long a member waits before it asks for the rebalance, in its rank's turn. The wait doubles with each round
// that has left a task to nobody.
func askAfter(round, rank int) time.Duration {
	return min(censusPatience<<min(round, 8)-censusPatience, censusLimit) + time.Duration(rank)*censusPatience
}

// count is what a member found in the group.
type count struct {
	orphans int // partitions of its inputs that no member has
	rank    int // how many members ask before it
}

// count looks at the group. A group that is between two generations is an error: look again.
func (s *Session) count(ctx context.Context) (c count, err error) {
	ctx, cancel := context.WithTimeout(ctx, censusPatience)
	defer cancel()
	adm := kadm.NewClient(s.cfg.Admin)
	described, err := adm.DescribeGroups(ctx, s.cfg.App)
	if err != nil {
		return c, fmt.Errorf("describe group %q: %w", s.cfg.App, err)
	}
	g := described[s.cfg.App]
	if g.Err != nil {
		return c, fmt.Errorf("describe group %q: %w", s.cfg.App, g.Err)
	}
	if g.State != "Stable" {
		return c, fmt.Errorf("group %q is %s", s.cfg.App, g.State)
	}
	inputs, err := adm.ListTopics(ctx, s.cfg.Inputs...)
	if err != nil {
		return c, fmt.Errorf("metadata of %v: %w", s.cfg.Inputs, err)
	}
	return countIn(g, inputs, InstanceID(s.cfg.Instance, s.cfg.Worker)), nil
}

func countIn(g kadm.DescribedGroup, inputs kadm.TopicDetails, self string) (c count) {
	owned := g.AssignedPartitions()
	for _, topic := range inputs {
		for p := range topic.Partitions {
			if !owned.Lookup(topic.Topic, p) {
				c.orphans++
			}
		}
	}
	for _, m := range g.Members {
		if m.InstanceID != nil && *m.InstanceID < self {
			c.rank++
		}
	}
	return c
}
