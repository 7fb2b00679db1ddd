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
	censusLimit    = time.Minute // between two calls to join again; nobody may be able to take the task
)

// census looks, once for each generation, whether every task is somebody's, and has this member join again when one is not.
//
// Under the cooperative protocol (KIP-429) a task that moves is nobody's between two rebalances, and the second one is asked for
// by the member that gave it up. If that member dies there and comes back as the static member that it was (KIP-345), the broker
// hands it what is stored, without a rebalance, and the task would be nobody's for good.
func (s *Session) census(ctx context.Context) {
	wait := censusPatience
	for ctx.Err() == nil {
		sleep(ctx, wait)
		if !s.uncounted.Swap(false) || ctx.Err() != nil {
			continue
		}
		orphans, err := s.orphans(ctx)
		if err != nil || orphans > 0 {
			s.uncounted.Store(true)
		}
		switch {
		case orphans > 0:
			s.gts.Client().ForceRebalance()
			wait = min(2*wait, censusLimit)
		case err == nil:
			wait = censusPatience
		}
	}
}

// orphans counts the partitions of this member's inputs that no member of the group has. A group that is between two
// generations is an error: look again.
func (s *Session) orphans(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, censusPatience)
	defer cancel()
	adm := kadm.NewClient(s.cfg.Admin)
	described, err := adm.DescribeGroups(ctx, s.cfg.App)
	if err != nil {
		return 0, fmt.Errorf("describe group %q: %w", s.cfg.App, err)
	}
	g := described[s.cfg.App]
	if g.Err != nil || g.State != "Stable" {
		return 0, fmt.Errorf("group %q is %s: %w", s.cfg.App, g.State, g.Err)
	}
	inputs, err := adm.ListTopics(ctx, s.cfg.Inputs...)
	if err != nil {
		return 0, fmt.Errorf("metadata of %v: %w", s.cfg.Inputs, err)
	}
	owned := g.AssignedPartitions()
	for _, topic := range inputs {
		for p := range topic.Partitions {
			if !owned.Lookup(topic.Topic, p) {
				n++
			}
		}
	}
	return n, nil
}
