package topics

import (
	"fmt"
	"strings"
)

// assignPartitions finds the partition count of every stage and of every topic that is missing. What exists decides, in this
// order: the stage's inputs, an input that another stage decided, the stage's state. A stage that nothing decides takes the
// wanted count of its inputs or, if it has only a repartition topic, the count of the largest stage that writes it. So a new topic
// always fits the old ones.
func (p *planner) assignPartitions() {
	for range p.stages { // a count can travel over as many stages as there are
		for _, stage := range p.stages {
			p.decide(stage, p.known(stage))
		}
	}
	for _, stage := range p.stages {
		if len(p.uses(stage, RoleInput)) > 0 {
			p.decide(stage, p.wanted(stage))
		}
	}
	for range p.stages { // records can travel over as many stages as there are, too
		for _, stage := range p.stages {
			p.decideByWriters(stage)
		}
	}
	for _, stage := range p.stages {
		p.decide(stage, p.wanted(stage)) // a circle that nothing feeds
	}
	p.assignOutputs()
}

// decide fixes a stage's count and hands it to what it reads, if that is missing, and its state.
func (p *planner) decide(stage string, n int32) {
	if n == 0 || p.counts[stage] != 0 {
		return
	}
	p.counts[stage] = n
	for _, t := range append(p.reads(stage), p.uses(stage, RoleState)...) {
		if t.missing && t.have.Partitions == 0 {
			t.have.Partitions = n
		}
	}
}

// known is the count that existing topics give a stage, 0 if none does.
func (p *planner) known(stage string) int32 {
	for _, t := range append(p.reads(stage), p.uses(stage, RoleState)...) {
		if t.have.Partitions > 0 {
			return t.have.Partitions
		}
	}
	return 0
}

// wanted is the largest count that an input of the stage asks for. A stage without inputs (wants that belong to no stage) has none.
func (p *planner) wanted(stage string) int32 {
	inputs := p.reads(stage)
	if len(inputs) == 0 {
		return 0
	}
	var n int32
	for _, t := range inputs {
		for _, w := range t.as(RoleInput) {
			n = max(n, w.Partitions)
		}
	}
	if n == 0 {
		n = p.rules.Partitions
	}
	return n
}

// assignOutputs gives missing outputs and dead letters as many partitions as the largest stage that writes them.
func (p *planner) assignOutputs() {
	for _, t := range p.topics {
		if !t.missing || t.have.Partitions > 0 {
			continue
		}
		t.have.Partitions = p.tasks(t, t.wants)
		for _, w := range t.wants {
			if w.Partitions > 0 && w.Role == RoleOutput {
				t.have.Partitions = max(w.Partitions, p.tasks(t, perTask(t.wants)))
			}
		}
		if t.have.Partitions == 0 {
			t.have.Partitions = p.rules.Partitions
		}
	}
}

func perTask(wants []Want) []Want {
	var out []Want
	for _, w := range wants {
		if w.PerTask {
			out = append(out, w)
		}
	}
	return out
}

// tasks is the largest task number plus one that writes the topic for these wants. Dead letters without a stage belong to all.
func (p *planner) tasks(t *topic, wants []Want) int32 {
	var n int32
	for _, w := range wants {
		for stage, count := range p.counts {
			if w.Stage == stage || w.Stage == "" && w.Role == RoleDeadLetters {
				n = max(n, count)
			}
		}
	}
	return n
}

func (p *planner) checkPartitions(t *topic) []finding {
	var out []finding
	for _, w := range t.wants {
		if f, ok := p.partitionsOf(t, w); !ok {
			out = append(out, f)
		}
	}
	return out
}

func (p *planner) partitionsOf(t *topic, w Want) (finding, bool) {
	have, stage := t.have.Partitions, p.counts[w.Stage]
	switch {
	case (w.Role == RoleInput || w.Role == RoleRepartition || w.Role == RoleState) && have != stage:
		return refuse("partitions", p.unequal(t, w), "a stage's inputs and state need equal counts, because task i owns partition i of each: "+
			"make a topic with the right count and copy the records, or take the topic into a stage of its own"), false
	case w.Role == RoleDeadLetters && have < p.tasks(t, []Want{w}):
		return refuse("partitions", fmt.Sprintf("%d partitions for %d tasks, task i writes to partition i", have, p.tasks(t, []Want{w})),
			fmt.Sprintf("raise it: kafka-topics.sh --alter --topic %s --partitions %d", t.name, p.tasks(t, []Want{w}))), false
	case w.Role == RoleOutput && w.PerTask && have != stage:
		return refuse("partitions", fmt.Sprintf("%d partitions, stage %s has %d tasks, task i writes to partition i", have, w.Stage, stage),
			"make a topic with the right count, or name another"), false
	}
	return finding{}, true
}

// unequal says against which topics a count differs.
func (p *planner) unequal(t *topic, w Want) string {
	var others []string
	for _, o := range append(p.reads(w.Stage), p.uses(w.Stage, RoleState)...) {
		if o != t {
			others = append(others, fmt.Sprintf("%s %d", o.name, o.have.Partitions))
		}
	}
	return fmt.Sprintf("%d partitions, stage %s has %d (%s)", t.have.Partitions, w.Stage, p.counts[w.Stage], strings.Join(others, ", "))
}
