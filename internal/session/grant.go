package session

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
)

// grant is the right to a task, and the inputs that were given with it.
type grant struct {
	token  *Token
	inputs []string // topics, in order
}

// PiecemealError says that a member has all inputs of a task by now, but was given them one after the other: what is fetched of
// the first was begun without the others. The member leaves everything and joins anew, so that they come together.
type PiecemealError struct {
	Task    TaskID
	Earlier []string // inputs that were given before
}

func (e *PiecemealError) Error() string {
	return fmt.Sprintf("task %s: its inputs %q were given before the others: the member joins again, to be given all at once", e.Task, e.Earlier)
}

// assignments grants every task of an assignment under a fresh token. Ownership comes from here alone: a token that was still
// there missed its revoke. Partitions of another release's topics are nobody's.
func (s *Session) assignments(offsets map[string]map[int32]kgo.Offset) (tasks []*Assignment, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inputs := map[TaskID][]string{}
	for topic, partitions := range offsets {
		for p := range partitions {
			if id, ours := s.cfg.Topology.task(TopicPartition{topic, p}); ours {
				inputs[id] = append(inputs[id], topic)
			}
		}
	}
	for id, topics := range inputs {
		if missing := s.cfg.Topology.missing(id, topics); len(missing) > 0 && len(s.cfg.Topology.missing(id, s.assigned[id])) == 0 {
			return nil, &PiecemealError{id, missing}
		}
		tasks = append(tasks, s.grant(id, topics))
	}
	return tasks, nil
}

// grant gives a task to its owner. The caller holds mu.
func (s *Session) grant(id TaskID, topics []string) *Assignment {
	slices.Sort(topics)
	if old, held := s.grants[id]; held && !mutant.On("two-tokens-for-a-task") {
		old.token.Kill()
	}
	g := grant{NewToken(), topics}
	s.grants[id] = g
	if s.closed {
		g.token.Kill()
	}
	a := &Assignment{Task: id, Token: g.token, Missing: s.cfg.Topology.missing(id, topics)}
	for _, topic := range topics {
		a.Inputs = append(a.Inputs, AssignedInput{TopicPartition: TopicPartition{topic, id.Partition}})
	}
	return a
}

// Remainder grants what the group has left of a task whose token died because others of its inputs went elsewhere; nil when
// nothing is left, or when the task comes back whole. The assignment has Missing inputs: it is there to be shown, not to be run.
func (s *Session) Remainder(id TaskID) *Assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.assigned[id]
	if _, held := s.grants[id]; held || s.closed || len(left) == 0 || len(s.cfg.Topology.missing(id, left)) == 0 {
		return nil
	}
	return s.grant(id, slices.Clone(left))
}

// task returns the task that a partition is an input of; false for a topic of another release.
func (t Topology) task(tp TopicPartition) (TaskID, bool) {
	stage, ours := t.StageOf[tp.Topic]
	return TaskID{stage, tp.Partition}, ours
}

// missing returns the inputs of a task that are not among topics. A task that is owned in part must not run: two members would
// write its state, each with half of its input.
func (t Topology) missing(id TaskID, topics []string) (missing []string) {
	if mutant.On("split-task") {
		return nil
	}
	for topic, stage := range t.StageOf {
		if stage == id.Stage && !slices.Contains(topics, topic) {
			missing = append(missing, topic)
		}
	}
	slices.Sort(missing)
	return missing
}

// partitionsOf takes apart how the client names partitions.
func partitionsOf(topics map[string][]int32) map[TopicPartition]bool {
	tps := map[TopicPartition]bool{}
	for topic, partitions := range topics {
		for _, p := range partitions {
			tps[TopicPartition{topic, p}] = true
		}
	}
	return tps
}
