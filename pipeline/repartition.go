package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// NewRepartition declares the topic through which stages hand records to stage to under a new key, so that all records of that
// key meet in one task: <application.id>-<stage>-repartition. Declare it once; each stage that writes it takes it to NewOutput,
// and stage to reads it with Handle, as any input. The engine owns the topic:
//
//   - A record is placed by the partitioner of the stage that reads it, whoever writes it, and keeps its timestamp. Another
//     partitioner is refused as long as there is state.
//   - A hop costs one commit: what a transaction sends is read when it has committed, with all that belongs to it.
//   - Nothing but the engine deletes from it, and only what the reading task has committed (repartition.purge.interval.ms). Its
//     reader starts at the first record whatever auto.offset.reset says: those before it were applied.
//   - A record that waits in it over a deploy is read by the new program's codecs: change them as record.Versioned does. One that
//     a newer version wrote stops the task, under any policy.
func NewRepartition[K, V any](to *Stage, key record.Codec[K], value record.Codec[V]) topics.Topic[K, V] {
	if to.repartition != "" {
		to.Refuse(errors.New("its repartition topic is declared twice: declare it once and give the topic to every stage that writes it"))
	}
	to.repartition = topics.Repartition(to.p.app, to.name)
	return topics.New(to.repartition, key, value)
}

// repartitioned returns the stage whose repartition topic this is, nil if it is none.
func (p *Pipeline) repartitioned(topic string) *Stage {
	for _, s := range p.stages {
		if s.repartition != "" && s.repartition == topic {
			return s
		}
	}
	return nil
}

// writers returns the names of the stages that write a topic.
func (p *Pipeline) writers(topic string) (names []string) {
	for _, s := range p.stages {
		if slices.Contains(s.outputs, topic) {
			names = append(names, s.name)
		}
	}
	return names
}

// validateRepartitions reports repartition topics through which nothing can flow, and those that a stage took from another.
func (p *Pipeline) validateRepartitions() (errs []error) {
	for _, s := range p.stages {
		if s.repartition != "" && !slices.Contains(s.Inputs(), s.repartition) {
			errs = append(errs, fmt.Errorf("topic %q is read by nobody: stage %q must take it with Handle", s.repartition, s.name))
		}
		if s.repartition != "" && len(p.writers(s.repartition)) == 0 {
			errs = append(errs, fmt.Errorf("topic %q is written by nobody: the stages that hand records to stage %q must take it with NewOutput", s.repartition, s.name))
		}
		for _, in := range s.inputs {
			if owner := p.repartitioned(in.topic); owner != nil && owner != s {
				errs = append(errs, fmt.Errorf("topic %q is the repartition topic of stage %q and cannot be read by stage %q: declare one of its own with NewRepartition", in.topic, owner.name, s.name))
			}
		}
	}
	return errs
}

// reached returns the stages that records of the stage's inputs can reach over repartition topics, the stage first.
func (s *Stage) reached() []*Stage {
	all := []*Stage{s}
	for i := 0; i < len(all); i++ {
		for _, out := range all[i].outputs {
			if next := s.p.repartitioned(out); next != nil && !slices.Contains(all, next) {
				all = append(all, next)
			}
		}
	}
	return all
}

// origins returns the inputs from which records come to the stage in the end: its own, and those of all stages that reach it.
func (s *Stage) origins() (names []string) {
	for _, from := range s.p.stages {
		if !slices.Contains(from.reached(), s) {
			continue
		}
		for _, in := range from.inputs {
			if in.topic != from.repartition && !slices.Contains(names, in.topic) {
				names = append(names, in.topic)
			}
		}
	}
	return names
}

// shortestWindow is the shortest dedupe window that an event of the stage's inputs meets on its way, 0 if it meets none.
func (s *Stage) shortestWindow() (shortest time.Duration) {
	for _, at := range s.reached() {
		if _, w := at.windows(); w > 0 && (shortest == 0 || w < shortest) {
			shortest = w
		}
	}
	return shortest
}

// isRepartition says of an input that it is the stage's repartition topic.
func (s *Stage) isRepartition(topic string) bool {
	return s.repartition != "" && s.repartition == topic
}
