package topics

import (
	"maps"
	"slices"
)

// Plan compares what is wanted with what there is. It is pure: it asks nobody and changes nothing. haves holds the topics that
// exist, by name; a topic whose Have carries an error is refused, because unknown is not absent.
//
// A topic that is missing gets a Create step, and the topic as it would be created is held against the same checks as an
// existing one. A plan that refuses anything must not be applied in part.
func Plan(wants []Want, haves map[string]Have, rules Rules) Steps {
	p := newPlanner(wants, haves, rules)
	p.assignPartitions()
	steps := make(Steps, 0, len(p.topics))
	for _, t := range p.topics {
		if t.missing {
			t.have = p.creation(t)
		}
	}
	for _, t := range p.topics {
		steps = append(steps, p.step(t))
	}
	return steps
}

// topic is one topic with all its uses.
type topic struct {
	name    string
	wants   []Want
	have    Have // as it is, or as it would be created
	missing bool
}

type planner struct {
	rules  Rules
	topics []*topic // in the order of the wants
	byName map[string]*topic
	stages []string         // in the order of the wants
	counts map[string]int32 // partitions of each stage
}

func newPlanner(wants []Want, haves map[string]Have, rules Rules) *planner {
	p := &planner{rules: rules, byName: map[string]*topic{}, counts: map[string]int32{}}
	if p.rules.Partitions == 0 {
		p.rules.Partitions = DefaultPartitions
	}
	if p.rules.Replication == 0 {
		p.rules.Replication = -1
	}
	for _, w := range wants {
		p.topic(w.Name, haves).add(w)
		if !slices.Contains(p.stages, w.Stage) {
			p.stages = append(p.stages, w.Stage)
		}
	}
	return p
}

func (p *planner) topic(name string, haves map[string]Have) *topic {
	t := p.byName[name]
	if t == nil {
		have, ok := haves[name]
		t = &topic{name: name, have: have, missing: !ok}
		p.byName[name] = t
		p.topics = append(p.topics, t)
	}
	return t
}

func (t *topic) add(w Want) { t.wants = append(t.wants, w) }

// as returns the uses of the topic in one role.
func (t *topic) as(r Role) []Want {
	var out []Want
	for _, w := range t.wants {
		if w.Role == r {
			out = append(out, w)
		}
	}
	return out
}

func (t *topic) is(r Role) bool { return len(t.as(r)) > 0 }

// uses returns the topics that a stage uses in a role.
func (p *planner) uses(stage string, r Role) []*topic {
	var out []*topic
	for _, t := range p.topics {
		for _, w := range t.as(r) {
			if w.Stage == stage {
				out = append(out, t)
			}
		}
	}
	return out
}

func (p *planner) step(t *topic) Step {
	s := Step{Topic: t.name, Partitions: t.have.Partitions, Replication: int16(t.have.Replicas)}
	for _, w := range t.wants {
		if !slices.Contains(s.Roles, w.Role) {
			s.Roles = append(s.Roles, w.Role)
		}
		if w.Stage != "" && !slices.Contains(s.Stages, w.Stage) {
			s.Stages = append(s.Stages, w.Stage)
		}
	}
	if t.missing {
		s.Config, s.Replication = t.have.Config, p.rules.Replication
	}
	s.Reasons = p.weigh(p.check(t))
	s.Action = action(s.Reasons, t.missing)
	return s
}

func action(reasons []Reason, missing bool) Action {
	has := func(l Level) bool {
		return slices.ContainsFunc(reasons, func(r Reason) bool { return r.Level == l })
	}
	switch {
	case has(LevelRefuse):
		return Refuse
	case missing:
		return Create
	case has(LevelWarn):
		return Warn
	}
	return Accept
}

// weigh applies the rules to what the checks found: names that were allowed, and production.
func (p *planner) weigh(found []finding) []Reason {
	var out []Reason
	for _, f := range found {
		switch {
		case f.Level == LevelRefuse && f.allow != "" && slices.Contains(p.rules.Allow, f.allow):
			f.Level, f.Remedy = LevelWarn, "allowed by name"
		case f.Level == LevelRefuse && f.allow != "":
			f.Remedy += ", or accept it by name: topics.allow=" + f.allow
		case f.durability && p.rules.Production:
			f.Level = LevelRefuse
		}
		out = append(out, f.Reason)
	}
	return out
}

// creation is a missing topic as it would be made.
func (p *planner) creation(t *topic) Have {
	config := map[string]string{}
	for _, w := range t.wants {
		p.defaults(w, config)
	}
	for _, w := range t.wants {
		maps.Copy(config, w.Config)
	}
	replicas := max(p.rules.Replication, 0) // the broker's default is unknown until the topic is read back
	return Have{Name: t.name, Partitions: t.have.Partitions, Replicas: int(replicas), Config: config}
}
