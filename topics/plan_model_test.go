package topics_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tallystick/tallystick/topics"
)

// drawWants makes up to three stages over a few shared names, each with state.
func drawWants(t *rapid.T) []topics.Want {
	var wants []topics.Want
	for i := range rapid.IntRange(1, 3).Draw(t, "stages") {
		stage := fmt.Sprintf("s%d", i)
		for _, in := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2, rapid.ID).Draw(t, "inputs") {
			wants = append(wants, topics.Want{Name: in, Role: topics.RoleInput, Stage: stage,
				Window: rapid.SampledFrom([]time.Duration{0, 7 * day, 14 * day, 30 * day}).Draw(t, "window"), Compacted: rapid.Bool().Draw(t, "table")})
		}
		for _, out := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "a"}), 0, 2, rapid.ID).Draw(t, "outputs") {
			wants = append(wants, topics.Want{Name: out, Role: topics.RoleOutput, Stage: stage, PerTask: rapid.Bool().Draw(t, "per task")})
		}
		if rapid.IntRange(0, 2).Draw(t, "fed by others") == 0 {
			writers := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"s0", "s1", "s2"}), 1, 2, rapid.ID).Draw(t, "writers")
			wants = append(wants, topics.Want{Name: stage + "-repartition", Role: topics.RoleRepartition, Stage: stage, Writers: writers})
		}
		wants = append(wants, topics.Want{Name: stage + "-state", Role: topics.RoleState, Stage: stage}, topics.Want{Name: "dead", Role: topics.RoleDeadLetters, Stage: stage})
	}
	return wants
}

func drawHaves(t *rapid.T, wants []topics.Want) map[string]topics.Have {
	haves := map[string]topics.Have{}
	for _, w := range wants {
		if _, done := haves[w.Name]; done || rapid.Bool().Draw(t, "missing") {
			continue
		}
		haves[w.Name] = topics.Have{Name: w.Name, Partitions: rapid.SampledFrom([]int32{4, 4, 4, 6}).Draw(t, "partitions"),
			Replicas: rapid.IntRange(0, 3).Draw(t, "replicas"), Config: drawConfig(t)}
	}
	return haves
}

// settings are values on both sides of each rule, the harmless one first.
var settings = []struct {
	key    string
	values []string
}{
	{"cleanup.policy", []string{"delete", "compact", "compact,delete"}},
	{"retention.ms", []string{"604800000", "-1", "86400000", "9223372036854775807", "nonsense"}},
	{"retention.bytes", []string{"-1", "1000"}},
	{"segment.ms", []string{"604800000", "86400000", "9223372036854775807"}},
	{"max.message.bytes", []string{"1048588", "1000", "9000000"}},
	{"min.insync.replicas", []string{"2", "1", "5"}},
	{"unclean.leader.election.enable", []string{"false", "true"}},
	{"message.timestamp.type", []string{"CreateTime", "LogAppendTime"}},
	{"message.timestamp.after.max.ms", []string{"3600000", "9223372036854775807"}},
	{"message.timestamp.before.max.ms", []string{"9223372036854775807", "86400000"}},
}

// drawConfig is harmless in half of the draws, so that whole plans pass often enough.
func drawConfig(t *rapid.T) map[string]string {
	config, harmless := map[string]string{}, rapid.Bool().Draw(t, "harmless")
	for _, s := range settings {
		if rapid.Bool().Draw(t, "unknown "+s.key) {
			continue
		}
		config[s.key] = s.values[0]
		if !harmless {
			config[s.key] = rapid.SampledFrom(s.values).Draw(t, s.key)
		}
	}
	return config
}

func drawRules(t *rapid.T) topics.Rules {
	return topics.Rules{Production: rapid.Bool().Draw(t, "production"), RedeliveryHorizon: rapid.SampledFrom([]time.Duration{0, day}).Draw(t, "horizon"),
		Partitions: rapid.Int32Range(0, 5).Draw(t, "count")}
}

var weight = map[topics.Action]int{topics.Accept: 0, topics.Warn: 1, topics.Create: 1, topics.Refuse: 2}

func TestPlanChangesNeitherWantsNorHaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wants := drawWants(t)
		haves, rules := drawHaves(t, wants), drawRules(t)
		before := copyHaves(haves)
		first := topics.Plan(wants, haves, rules)
		if !reflect.DeepEqual(before, haves) {
			t.Fatal("the haves were changed")
		}
		if second := topics.Plan(wants, haves, rules); !reflect.DeepEqual(first, second) {
			t.Fatalf("not a function of its arguments:\n%+v\n%+v", first, second)
		}
	})
}

func TestPlanIsSettledAfterItsCreations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wants := drawWants(t)
		haves, rules := drawHaves(t, wants), drawRules(t)
		rules.RedeliveryHorizon = day // else most draws are refused
		steps := topics.Plan(wants, haves, rules)
		if steps.Refused() != nil {
			return
		}
		for _, s := range steps.Pending() {
			haves[s.Topic] = topics.Have{Name: s.Topic, Partitions: s.Partitions, Config: s.Config}
		}
		after := topics.Plan(wants, haves, rules)
		if err := after.Refused(); err != nil || len(after.Pending()) > 0 {
			t.Fatalf("after the creations: %v, pending %v", err, after.Pending())
		}
		for _, w := range wants {
			checkCounts(t, w, wants, haves)
		}
	})
}

// checkCounts restates the rules about partition counts in the simplest way: pair by pair.
func checkCounts(t *rapid.T, w topics.Want, wants []topics.Want, haves map[string]topics.Have) {
	for _, o := range wants {
		if o.Stage != w.Stage || o.Role != topics.RoleInput && o.Role != topics.RoleRepartition {
			continue
		}
		tasks, have := haves[o.Name].Partitions, haves[w.Name].Partitions
		equal := w.Role == topics.RoleInput || w.Role == topics.RoleRepartition || w.Role == topics.RoleState || w.Role == topics.RoleOutput && w.PerTask
		if equal && have != tasks || w.Role == topics.RoleDeadLetters && have < tasks {
			t.Fatalf("%s (%s) has %d partitions for %d tasks of stage %s", w.Name, w.Role, have, tasks, w.Stage)
		}
	}
}

func TestPlanIsNeverStricterWhenTheBrokerReportsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wants := drawWants(t)
		haves, rules := drawHaves(t, wants), drawRules(t)
		if len(haves) == 0 {
			return
		}
		before := topics.Plan(wants, haves, rules)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(haves))).Draw(t, "topic")
		for _, key := range slices.Sorted(maps.Keys(haves[name].Config)) {
			less := copyHaves(haves)
			delete(less[name].Config, key)
			for i, s := range topics.Plan(wants, less, rules) {
				if weight[s.Action] > weight[before[i].Action] {
					t.Fatalf("without %s of %s, %s goes from %s to %s: %v", key, name, s.Topic, before[i].Action, s.Action, s.Reasons)
				}
			}
		}
	})
}

func copyHaves(haves map[string]topics.Have) map[string]topics.Have {
	out := map[string]topics.Have{}
	for name, h := range haves {
		h.Config = maps.Clone(h.Config)
		out[name] = h
	}
	return out
}
