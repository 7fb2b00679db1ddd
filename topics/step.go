package topics

import (
	"errors"
	"fmt"
)

// Action is what a step does.
type Action string

const (
	// Accept leaves the topic as it is.
	Accept Action = "accept"
	// Warn leaves the topic as it is, and something about it should be known.
	Warn Action = "warn"
	// Create makes the topic.
	Create Action = "create"
	// Refuse stops everything: the pipeline must not run on these topics.
	Refuse Action = "refuse"
)

// Level is the weight of a reason.
type Level string

const (
	// LevelNote is worth knowing and changes nothing.
	LevelNote Level = "note"
	// LevelWarn has a consequence that the operator may accept.
	LevelWarn Level = "warn"
	// LevelRefuse makes the step a refusal.
	LevelRefuse Level = "refuse"
)

// Reason is one thing found about a topic.
type Reason struct {
	Level Level `json:"level"`
	// Key is the topic config that the reason is about, or "partitions", "replication.factor", "name", "read".
	Key    string `json:"key"`
	Cause  string `json:"cause"`
	Remedy string `json:"remedy,omitempty"`
}

// Step is what is to be done about one topic, and why.
type Step struct {
	Topic  string   `json:"topic"`
	Action Action   `json:"action"`
	Roles  []Role   `json:"roles"`
	Stages []string `json:"stages,omitempty"`
	// Partitions is the count that the topic has or, for Create, will have.
	Partitions int32 `json:"partitions"`
	// Replication is what the topic has or will have: -1 = the broker's default, 0 = unknown.
	Replication int16 `json:"replication"`
	// Config is, for Create, what the topic is created with.
	Config  map[string]string `json:"config,omitempty"`
	Reasons []Reason          `json:"reasons,omitempty"`
}

// Steps is the outcome of a comparison, one step per topic, in the order of the wants.
type Steps []Step

// Pending returns the steps that change something.
func (s Steps) Pending() Steps { return s.with(Create) }

// Refused is nil when nothing is refused, else an error that joins every refusal with its cause and remedy.
func (s Steps) Refused() error {
	var all []error
	for _, step := range s.with(Refuse) {
		for _, r := range step.Reasons {
			if r.Level == LevelRefuse {
				all = append(all, fmt.Errorf("topic %s: %s: %s; %s", step.Topic, r.Key, r.Cause, r.Remedy))
			}
		}
	}
	return errors.Join(all...)
}

func (s Steps) with(a Action) Steps {
	var out Steps
	for _, step := range s {
		if step.Action == a {
			out = append(out, step)
		}
	}
	return out
}
