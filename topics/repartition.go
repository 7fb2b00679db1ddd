package topics

import (
	"fmt"
	"slices"
	"strings"
)

// A repartition topic carries records from one stage of an application to another under a new key. The engine owns it: it holds
// nothing but what is in flight, because what the reading stage has committed is deleted, and nothing else may delete of it.

// repartitionDefaults keep every record until it is deleted by name, with the time of its input, in segments small enough that
// deleting frees the disk (Kafka Streams' own size).
func repartitionDefaults(config map[string]string) {
	config[keyCleanup] = "delete"
	config[keyRetention], config[keyRetentionBytes] = forever, forever
	config[keySegmentBytes] = "52428800"
	config[keyTimestampType] = "CreateTime"
	config[keyUnclean] = "false"
}

// checkRepartition refuses what would lose or change records in flight.
func (p *planner) checkRepartition(t *topic) []finding {
	if !t.is(RoleRepartition) {
		return nil
	}
	if policy, ok := t.have.Config[keyCleanup]; ok && policy != "delete" {
		return []finding{refuse(keyCleanup, policy+": a record in flight would be lost to a later one with its key", setConfig(t, keyCleanup, "delete"))}
	}
	for _, key := range []string{keyRetention, keyRetentionBytes} {
		if n, ok := t.have.number(key); ok && n >= 0 {
			return []finding{refuse(key, fmt.Sprintf("%d: records that the next stage has not processed yet would be deleted", n), setConfig(t, key, forever))}
		}
	}
	if kind, ok := t.have.Config[keyTimestampType]; ok && kind != "CreateTime" {
		return []finding{refuse(keyTimestampType, kind+": the next stage would see the time of writing instead of the record's", setConfig(t, keyTimestampType, "CreateTime"))}
	}
	return nil
}

// reads returns the topics whose partition i belongs to task i of the stage: inputs, then its repartition topic.
func (p *planner) reads(stage string) []*topic {
	return append(p.uses(stage, RoleInput), p.uses(stage, RoleRepartition)...)
}

// origins returns the inputs that a stage's records come from in the end: its own, and those of the stages that write its
// repartition topic.
func (p *planner) origins(stage string) []*topic {
	var out []*topic
	for _, s := range p.upstream(stage, nil) {
		for _, t := range p.uses(s, RoleInput) {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// upstream returns the stage and those that feed it over repartition topics.
func (p *planner) upstream(stage string, seen []string) []string {
	if slices.Contains(seen, stage) {
		return seen
	}
	seen = append(seen, stage)
	for _, writer := range p.writers(stage) {
		seen = p.upstream(writer, seen)
	}
	return seen
}

// writers returns the stages that write the stage's repartition topic.
func (p *planner) writers(stage string) []string {
	var out []string
	for _, t := range p.uses(stage, RoleRepartition) {
		for _, w := range t.as(RoleRepartition) {
			out = append(out, w.Writers...)
		}
	}
	return out
}

// decideByWriters gives a stage that reads nothing but its repartition topic as many partitions as the largest stage that
// writes it, once all of those are decided.
func (p *planner) decideByWriters(stage string) {
	var n int32
	for _, w := range p.writers(stage) {
		if p.counts[w] == 0 {
			return
		}
		n = max(n, p.counts[w])
	}
	p.decide(stage, n)
}

// secondUse names the other uses of a repartition topic, "" if there are none.
func secondUse(t *topic) string {
	var uses []string
	for _, w := range t.wants {
		if w.Role != RoleRepartition {
			uses = append(uses, string(w.Role))
		}
	}
	if len(t.as(RoleRepartition)) > 1 {
		uses = append(uses, string(RoleRepartition))
	}
	return strings.Join(uses, ", ")
}
