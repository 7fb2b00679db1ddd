package topics

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// finding is a reason before the rules weigh it.
type finding struct {
	Reason
	allow      string // the name by which a refusal can be accepted; "" = it can't
	durability bool   // a refusal in production
}

func refuse(key, cause, remedy string) finding {
	return finding{Reason: Reason{Level: LevelRefuse, Key: key, Cause: cause, Remedy: remedy}}
}

func warn(key, cause, remedy string) finding {
	return finding{Reason: Reason{Level: LevelWarn, Key: key, Cause: cause, Remedy: remedy}}
}

// byName lets a refusal be accepted by name.
func (f finding) byName(topic string) finding {
	f.allow = topic + ":" + f.Key
	return f
}

func (p *planner) check(t *topic) []finding {
	if t.have.Err != nil {
		if denied := (*DeniedError)(nil); errors.As(t.have.Err, &denied) {
			return []finding{refuse("read", t.rightFor(denied.Right)+" is missing: the broker does not say what it is", "have it granted; `acls` prints all that is needed")}
		}
		return []finding{refuse("read", "the broker did not say what it is: "+t.have.Err.Error(),
			"repair the cluster, then plan again")}
	}
	if err := CheckName(t.name); err != nil {
		return []finding{refuse("name", err.Error(), "rename it")}
	}
	var out []finding
	for _, check := range []func(*topic) []finding{
		p.checkRoles, p.checkPartitions, p.checkRepartition, p.checkCleanup, p.checkRetention, p.checkHorizon, p.checkTimestamps,
		p.checkSize, p.checkDurability, p.checkWanted, p.checkUnknown,
	} {
		out = append(out, check(t)...)
	}
	return slices.CompactFunc(out, func(a, b finding) bool { return a.Reason == b.Reason })
}

// rightFor names what is to be granted: DESCRIBE comes with READ or WRITE, of which each role needs at least one.
func (t *topic) rightFor(missing string) string {
	switch {
	case missing != "DESCRIBE":
		return missing
	case t.is(RoleInput), t.is(RoleRepartition):
		return "READ (DESCRIBE at least)"
	case t.is(RoleState):
		return "READ and WRITE (DESCRIBE at least)"
	}
	return "WRITE (DESCRIBE at least)"
}

// checkRoles refuses a topic that is the engine's own and something else as well.
func (p *planner) checkRoles(t *topic) []finding {
	if use := secondUse(t); t.is(RoleRepartition) && use != "" {
		return []finding{refuse("name", "the engine's own repartition topic is also: "+use, "rename the other topic, or the stage")}
	}
	state := t.as(RoleState)
	if len(state) == 0 && !t.is(RoleDeadLetters) {
		return nil
	}
	if len(state) > 1 || len(state) == 1 && len(t.wants) > 1 || t.is(RoleDeadLetters) && t.is(RoleInput) || t.is(RoleDeadLetters) && t.is(RoleOutput) {
		return []finding{refuse("name", "the engine's own topic has a second use in this pipeline", "rename the input or output, or the stage")}
	}
	return nil
}

func (p *planner) checkCleanup(t *topic) []finding {
	policy, ok := t.have.Config[keyCleanup]
	if !ok {
		return nil
	}
	compacts, deletes := strings.Contains(policy, "compact"), strings.Contains(policy, "delete")
	switch {
	case t.is(RoleState) && !compacts:
		return []finding{refuse(keyCleanup, policy+": retention would delete state that is in use",
			setConfig(t, keyCleanup, "compact")+" (state that was deleted is not back by that: reset the application)")}
	case t.is(RoleState) && deletes && t.have.bounded():
		return []finding{refuse(keyCleanup, policy+": keys that do not change would be deleted with their segments", setConfig(t, keyCleanup, "compact"))}
	case t.is(RoleDeadLetters) && compacts:
		return []finding{refuse(keyCleanup, policy+": only the last dead letter of each key would be kept, and one without a key refused", setConfig(t, keyCleanup, "delete"))}
	case t.is(RoleOutput) && compacts:
		return []finding{refuse(keyCleanup, policy+": only the last output of each key would be kept, readers and verify would miss the rest",
			setConfig(t, keyCleanup, "delete")+"; a compacted view is another topic").byName(t.name)}
	case compacts && slices.ContainsFunc(t.as(RoleInput), func(w Want) bool { return !w.Compacted }):
		return []finding{refuse(keyCleanup, policy+": an event is lost when a later one has its key, before it was processed or for a replay",
			setConfig(t, keyCleanup, "delete")).byName(t.name)}
	}
	return nil
}

// checkRetention warns when what was written is deleted while it is still wanted. Records inherit the time of their input.
func (p *planner) checkRetention(t *topic) []finding {
	keep, ok := t.have.number(keyRetention)
	if !ok || keep < 0 {
		return nil
	}
	if t.is(RoleDeadLetters) {
		return []finding{warn(keyRetention, "dead letters are deleted after "+t.have.duration(keyRetention), "redrive them earlier, or "+setConfig(t, keyRetention, forever))}
	}
	if !t.have.createTime() {
		return nil
	}
	for _, w := range t.as(RoleOutput) {
		for _, in := range p.inputs(w) {
			if !in.have.keepsAtMost(keep) {
				return []finding{warn(keyRetention, fmt.Sprintf("outputs have the time of their input, and %s keeps records longer than %s: the outputs of a replay are deleted at once",
					in.name, t.have.duration(keyRetention)), setConfig(t, keyRetention, forever))}
			}
		}
	}
	return nil
}

// checkHorizon refuses a dedupe window that is shorter than the time after which an event can still arrive again: the second
// arrival would be outside the window, a dead letter.
func (p *planner) checkHorizon(t *topic) []finding {
	var window time.Duration
	for _, w := range t.as(RoleInput) {
		if w.Window > 0 && (window == 0 || w.Window < window) {
			window = w.Window
		}
	}
	if window == 0 {
		return nil
	}
	horizon, known := p.rules.RedeliveryHorizon, true
	if horizon == 0 {
		horizon, known = t.have.horizon()
	}
	switch {
	case !known:
		return []finding{{Reason: Reason{Level: LevelNote, Key: keyRetention, Cause: "the redelivery horizon is unknown: the broker does not report retention.ms and segment.ms",
			Remedy: "declare redelivery.horizon, so that the dedupe window is checked"}}}
	case horizon < 0:
		return []finding{refuse(keyRetention, "the input keeps records for ever, so an event of any age can be read again, and no dedupe window is long enough",
			"declare redelivery.horizon: how long after its time an event can still arrive")}
	case window < horizon:
		return []finding{refuse(keyRetention, fmt.Sprintf("the dedupe window of %s is shorter than the redelivery horizon of %s (retention.ms + segment.ms unless declared)", days(window), days(horizon)),
			fmt.Sprintf("set dedupe.window to at least %s, or declare a shorter redelivery.horizon if events never arrive that late", days(horizon)))}
	}
	return nil
}

func (p *planner) checkTimestamps(t *topic) []finding {
	var out []finding
	if slices.ContainsFunc(t.as(RoleInput), func(w Want) bool { return w.Window > 0 || w.Timed }) {
		out = append(out, futureOf(t)...)
	}
	before, ok := t.have.number(keyTimestampBefore)
	if !ok || !t.have.createTime() {
		return out
	}
	for _, w := range append(t.as(RoleOutput), t.as(RoleRepartition)...) {
		for _, in := range p.inputs(w) {
			if !in.have.keepsAtMost(before) {
				return append(out, refuse(keyTimestampBefore, fmt.Sprintf("records older than %s are refused here and kept in %s: their outputs, which have their time, could not be written",
					days(clampMillis(before)), in.name), setConfig(t, keyTimestampBefore, "9223372036854775807")))
			}
		}
	}
	return out
}

// futureOf refuses an input that lets record times far ahead in: one such record moves stream time past everything remembered.
func futureOf(t *topic) []finding {
	after, ok := t.have.number(keyTimestampAfter)
	if !ok || after <= futureLimit.Milliseconds() || !t.have.createTime() {
		return nil
	}
	return []finding{refuse(keyTimestampAfter, fmt.Sprintf("the broker takes records stamped %s ahead, and one of them would make the stage forget what it remembers",
		days(clampMillis(after))), setConfig(t, keyTimestampAfter, millis(futureLimit))).byName(t.name)}
}

func setConfig(t *topic, key, value string) string {
	return fmt.Sprintf("set %s=%s (kafka-configs.sh --alter --topic %s --add-config %s=%s)", key, value, t.name, key, value)
}

// number is a config as an integer; false when the broker did not report it or it is none.
func (h Have) number(key string) (int64, bool) {
	n, err := strconv.ParseInt(h.Config[key], 10, 64)
	return n, err == nil
}
