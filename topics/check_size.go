package topics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (p *planner) checkSize(t *topic) []finding {
	limit, ok := t.have.number(keyMaxMessage)
	if !ok {
		return nil
	}
	for _, w := range t.wants {
		need := p.inputLimit(w)
		switch {
		case w.Role == RoleState && limit < need:
			return []finding{warn(keyMaxMessage, fmt.Sprintf("%d bytes, an input takes %d: the engine writes all its topics with the smallest size, and one with a dedupe store packs fewer ids into a transaction", limit, need),
				setConfig(t, keyMaxMessage, fmt.Sprint(need)))}
		case w.Role == RoleDeadLetters && limit < need:
			return []finding{warn(keyMaxMessage, fmt.Sprintf("%d bytes, an input takes %d: the dead letter of a large record keeps its headers and drops its value", limit, need),
				setConfig(t, keyMaxMessage, fmt.Sprint(need+headerRoom)))}
		case (w.Role == RoleOutput || w.Role == RoleRepartition) && limit < need:
			return []finding{warn(keyMaxMessage, fmt.Sprintf("%d bytes, an input takes %d: a record whose output does not fit is not processed", limit, need),
				setConfig(t, keyMaxMessage, fmt.Sprint(need)))}
		}
	}
	return nil
}

// checkDurability finds what one lost disk or one bad election would lose. A min.insync.replicas above the replication factor
// counts as the replication factor, because that is how the broker counts it: silently.
func (p *planner) checkDurability(t *topic) []finding {
	var out []finding
	if unclean := t.have.Config[keyUnclean]; unclean == "true" {
		out = append(out, warn(keyUnclean, "a broker that missed committed records may become leader and drop them", setConfig(t, keyUnclean, "false")))
	}
	insync, known := t.have.number(keyMinInsync)
	replicas := int64(t.have.Replicas)
	switch {
	case replicas > 0 && replicas < 3:
		out = append(out, warn("replication.factor", fmt.Sprintf("%d: the loss of %s loses committed records or stops the topic", replicas, count(replicas, "broker")),
			"reassign it to 3 replicas with min.insync.replicas=2, or make it again on a cluster of three"))
	case known && insync < 2:
		out = append(out, warn(keyMinInsync, "1: a record is committed when a single disk has it", setConfig(t, keyMinInsync, "2")))
	}
	if known && replicas > 0 && insync > replicas {
		out = append(out, warn(keyMinInsync, fmt.Sprintf("%d with %s: the broker silently counts it as %d", insync, count(replicas, "replica"), replicas), "raise the replication factor"))
	}
	for i := range out {
		out[i].durability = true
	}
	return out
}

// checkWanted compares the settings that the user asked for by name.
func (p *planner) checkWanted(t *topic) []finding {
	var out []finding
	for _, w := range t.wants {
		for _, key := range slices.Sorted(maps.Keys(w.Config)) {
			if have, known := t.have.Config[key]; known && have != w.Config[key] {
				out = append(out, warn(key, fmt.Sprintf("is %s, wanted %s", have, w.Config[key]), setConfig(t, key, w.Config[key])))
			}
		}
	}
	return out
}

// checkUnknown names what the broker does not report. It is no difference: other brokers know fewer settings than Kafka.
func (p *planner) checkUnknown(t *topic) []finding {
	if t.missing {
		return nil
	}
	var unknown []string
	for _, key := range mattering(t) {
		if _, ok := t.have.Config[key]; !ok {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return []finding{{Reason: Reason{Level: LevelNote, Key: strings.Join(unknown, ", "), Cause: "not reported by the broker, so not checked"}}}
}

// mattering are the configs that some check reads for a topic of these roles.
func mattering(t *topic) []string {
	keys := []string{keyCleanup, keyMinInsync, keyUnclean, keyMaxMessage}
	if !t.is(RoleState) {
		keys = append(keys, keyRetention)
	}
	if t.is(RoleRepartition) {
		keys = append(keys, keyRetentionBytes, keyTimestampType)
	}
	if slices.ContainsFunc(t.as(RoleInput), func(w Want) bool { return w.Window > 0 || w.Timed }) {
		keys = append(keys, keySegment, keyTimestampType, keyTimestampAfter)
	}
	return keys
}

func count(n int64, noun string) string {
	if n == 1 {
		return "one " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
