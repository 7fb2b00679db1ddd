package session

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
)

// onBlocked runs when a rebalance waits for the owner: it must commit and allow it at once, because the next owner's restore
// waits for our open records.
func (s *Session) onBlocked(context.Context, *kgo.Client) {
	s.blocked.Store(true)
	s.Wake()
}

// onLost marks the tokens of revoked or lost partitions dead. It does no I/O, takes no lock that End needs and never blocks.
// The transact session swallows further calls until End, so nothing relies on being told.
func (s *Session) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	s.mu.Lock()
	for tp := range partitionsOf(lost) {
		if id, ours := s.cfg.Topology.task(tp); ours {
			s.revoke(id, tp.Topic)
		}
		delete(s.waiting, tp)
	}
	s.mu.Unlock()
	s.joining.Store(true) // a generation ends with this call, also when it takes nothing away
	if len(lost) > 0 {
		s.revoked.Store(true)
	}
	s.Wake()
}

// revoke ends the right to a task when one of the inputs that it was granted with goes. The caller holds mu.
func (s *Session) revoke(id TaskID, topic string) {
	if g, held := s.grants[id]; held && slices.Contains(g.inputs, topic) && !mutant.On("keep-lost-tasks") {
		g.token.Kill()
		delete(s.grants, id)
	}
}

// onExpelled runs when the group turned the member away. The transact session is marked by it even when nothing was owned.
func (s *Session) onExpelled(ctx context.Context, client *kgo.Client, lost map[string][]int32) {
	s.revoked.Store(true)
	s.onLost(ctx, client, lost)
}

func (s *Session) onJoining() { s.joining.Store(true) }

// onSynced remembers what the group gave to this member. Within a transaction a partition that is to go is still ours: under
// the cooperative protocol nobody has it before we joined again.
func (s *Session) onSynced(assigned map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned, s.unseen = map[TaskID][]string{}, true
	given := partitionsOf(assigned)
	for tp := range given {
		if id, ours := s.cfg.Topology.task(tp); ours {
			s.assigned[id] = append(s.assigned[id], tp.Topic)
		}
	}
	for tp := range s.waiting {
		if !given[tp] {
			delete(s.waiting, tp)
		}
	}
	s.joining.Store(false)
	s.uncounted.Store(true)
	select {
	case s.joined <- struct{}{}:
	default:
	}
}

// dropUnassigned kills the tokens of what the group has given away. It catches the revokes that were swallowed: a task that
// never got a record would else commit its start offset over the new owner's.
func (s *Session) dropUnassigned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unseen || mutant.On("swallowed-revoke-unseen") {
		return
	}
	s.unseen = false
	for id, g := range s.grants {
		for _, topic := range g.inputs {
			if !slices.Contains(s.assigned[id], topic) {
				s.revoke(id, topic)
			}
		}
	}
}

// onAssigned starts the watchdog: an owner that died between its offset commit and the end of its transaction keeps the
// offsets unstable, and the client then retries OffsetFetch without ever reaching adjust.
func (s *Session) onAssigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // a join that was under way when the session closed
		return
	}
	for tp := range partitionsOf(added) {
		s.waiting[tp] = true
	}
	if len(s.waiting) > 0 && !s.watching {
		s.watching = true
		go s.watchdog()
	}
}

const watchdogPatience = 2 * time.Second

// watchdog sweeps until nothing waits at the gate any more. A failed sweep is no error: the wait goes on, visibly.
func (s *Session) watchdog() {
	ctx := context.Background()
	for {
		sleep(ctx, watchdogPatience)
		s.mu.Lock()
		if len(s.waiting) == 0 {
			s.watching = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if mutant.On("watchdog-sleeps") {
			continue
		}
		_ = s.cfg.Janitor.Sweep(ctx) // what could not be fenced is tried again, as long as offsets are waited for
	}
}

// adjust is the restore gate's place: offsets are stable here, ctx ends when a revoke begins, heartbeats go on.
func (s *Session) adjust(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	select {
	case <-s.opened:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	tasks, err := s.assignments(offsets)
	if err != nil || len(tasks) == 0 {
		return offsets, err
	}
	if err := s.gate(ctx, tasks); err != nil {
		for _, a := range tasks { // cut short by a revoke: whoever stays gets a fresh token in the next round
			if !mutant.On("cut-gate-leaves-tokens") {
				a.Token.Kill()
			}
		}
		return nil, err
	}
	for _, a := range tasks {
		if !a.Pause {
			s.Resume(a.Partitions()...)
		}
		for _, in := range a.Inputs {
			if !mutant.On("client-start") {
				offsets[in.Topic][in.Partition] = kgo.NewOffset().At(in.Start)
			}
		}
	}
	return offsets, nil
}

func (s *Session) gate(ctx context.Context, tasks []*Assignment) error {
	var tps []TopicPartition
	for _, a := range tasks {
		tps = append(tps, a.Partitions()...)
	}
	committed, err := FetchCommitted(ctx, s.cfg.Admin, s.cfg.App, tps)
	if err != nil && !mutant.On("gate-opens-without-offsets") {
		return err
	}
	s.passed(tps)
	for _, a := range tasks {
		for i := range a.Inputs {
			a.Inputs[i].Committed = committed[a.Inputs[i].TopicPartition]
		}
	}
	s.Pause(tps...) // before the gate, so that a Resume by the owner, however early, is never undone
	return s.cfg.Assign(ctx, tasks)
}

// passed notes that the offsets of partitions are stable.
func (s *Session) passed(tps []TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tp := range tps {
		delete(s.waiting, tp)
	}
}
