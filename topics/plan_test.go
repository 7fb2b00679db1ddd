package topics_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/topics"
)

const day = 24 * time.Hour

// post is what one ledger-like stage wants.
func post() []topics.Want {
	return []topics.Want{
		{Name: "in", Role: topics.RoleInput, Stage: "post", Window: 14 * day},
		{Name: "out", Role: topics.RoleOutput, Stage: "post", PerTask: true},
		{Name: "app-post-state", Role: topics.RoleState, Stage: "post"},
		{Name: "app-dead-letters", Role: topics.RoleDeadLetters, Stage: "post"},
	}
}

// good is a three-broker Kafka on which post has nothing to complain about.
func good() map[string]topics.Have {
	return map[string]topics.Have{
		"in":               have("in", "cleanup.policy=delete", "retention.ms=604800000", "segment.ms=604800000", "message.timestamp.after.max.ms=3600000", "max.message.bytes=1048588"),
		"out":              have("out", "cleanup.policy=delete", "retention.ms=-1", "max.message.bytes=1048588", "message.timestamp.before.max.ms=9223372036854775807"),
		"app-post-state":   have("app-post-state", "cleanup.policy=compact", "retention.ms=604800000", "max.message.bytes=1048588"),
		"app-dead-letters": have("app-dead-letters", "cleanup.policy=delete", "retention.ms=-1", "max.message.bytes=1064972"),
	}
}

func have(name string, config ...string) topics.Have {
	h := topics.Have{Name: name, Partitions: 4, Replicas: 3, Config: map[string]string{
		"min.insync.replicas": "2", "unclean.leader.election.enable": "false", "message.timestamp.type": "CreateTime",
	}}
	for _, kv := range config {
		k, v, _ := strings.Cut(kv, "=")
		h.Config[k] = v
	}
	return h
}

func step(t *testing.T, steps topics.Steps, topic string) topics.Step {
	t.Helper()
	i := slices.IndexFunc(steps, func(s topics.Step) bool { return s.Topic == topic })
	if i < 0 {
		t.Fatalf("no step for %s in %v", topic, steps)
	}
	return steps[i]
}

func TestPlanAcceptsWhatFits(t *testing.T) {
	for _, s := range topics.Plan(post(), good(), topics.Rules{Production: true}) {
		if s.Action != topics.Accept || len(s.Reasons) > 0 {
			t.Errorf("%s: %s %v", s.Topic, s.Action, s.Reasons)
		}
	}
}

// Each case spoils one thing; action and key are those of the one reason that must appear.
func TestPlanFindsEachDefect(t *testing.T) {
	for name, c := range map[string]struct {
		topic  string
		set    []string
		rules  topics.Rules
		change func(*topics.Have)
		action topics.Action
		key    string
	}{
		"state not compacted":              {topic: "app-post-state", set: []string{"cleanup.policy=delete"}, action: topics.Refuse, key: "cleanup.policy"},
		"state compacted and deleted":      {topic: "app-post-state", set: []string{"cleanup.policy=compact,delete"}, action: topics.Refuse, key: "cleanup.policy"},
		"state deleted by size":            {topic: "app-post-state", set: []string{"cleanup.policy=compact,delete", "retention.ms=-1", "retention.bytes=1000000"}, action: topics.Refuse, key: "cleanup.policy"},
		"state smaller than input":         {topic: "app-post-state", set: []string{"max.message.bytes=1000000"}, action: topics.Warn, key: "max.message.bytes"},
		"state with another count":         {topic: "app-post-state", change: func(h *topics.Have) { h.Partitions = 5 }, action: topics.Refuse, key: "partitions"},
		"input compacted":                  {topic: "in", set: []string{"cleanup.policy=compact"}, rules: topics.Rules{RedeliveryHorizon: day}, action: topics.Refuse, key: "cleanup.policy"},
		"input compacted, allowed":         {topic: "in", set: []string{"cleanup.policy=compact"}, rules: topics.Rules{RedeliveryHorizon: day, Allow: []string{"in:cleanup.policy"}}, action: topics.Warn, key: "cleanup.policy"},
		"input kept for ever":              {topic: "in", set: []string{"retention.ms=-1"}, action: topics.Refuse, key: "retention.ms"},
		"input kept too long":              {topic: "in", set: []string{"retention.ms=604800001"}, action: topics.Refuse, key: "retention.ms"},
		"declared horizon too long":        {topic: "in", rules: topics.Rules{RedeliveryHorizon: 14*day + 1}, action: topics.Refuse, key: "retention.ms"},
		"segment time of Long.MAX":         {topic: "in", set: []string{"segment.ms=9223372036854775807"}, action: topics.Refuse, key: "retention.ms"},
		"input takes the year 2100":        {topic: "in", set: []string{"message.timestamp.after.max.ms=9223372036854775807"}, action: topics.Refuse, key: "message.timestamp.after.max.ms"},
		"allowed to take the year 2100":    {topic: "in", set: []string{"message.timestamp.after.max.ms=9223372036854775807"}, rules: topics.Rules{Allow: []string{"in:message.timestamp.after.max.ms"}}, action: topics.Warn, key: "message.timestamp.after.max.ms"},
		"output compacted":                 {topic: "out", set: []string{"cleanup.policy=compact"}, action: topics.Refuse, key: "cleanup.policy"},
		"output kept shorter than input":   {topic: "out", set: []string{"retention.ms=86400000"}, action: topics.Warn, key: "retention.ms"},
		"output smaller than input":        {topic: "out", set: []string{"max.message.bytes=1000000"}, action: topics.Warn, key: "max.message.bytes"},
		"output refuses old records":       {topic: "out", set: []string{"message.timestamp.before.max.ms=86400000"}, action: topics.Refuse, key: "message.timestamp.before.max.ms"},
		"output with another count":        {topic: "out", change: func(h *topics.Have) { h.Partitions = 8 }, action: topics.Refuse, key: "partitions"},
		"dead letters compacted":           {topic: "app-dead-letters", set: []string{"cleanup.policy=compact,delete"}, action: topics.Refuse, key: "cleanup.policy"},
		"dead letters deleted":             {topic: "app-dead-letters", set: []string{"retention.ms=604800000"}, action: topics.Warn, key: "retention.ms"},
		"dead letters smaller than input":  {topic: "app-dead-letters", set: []string{"max.message.bytes=1000000"}, action: topics.Warn, key: "max.message.bytes"},
		"dead letters with too few":        {topic: "app-dead-letters", change: func(h *topics.Have) { h.Partitions = 3 }, action: topics.Refuse, key: "partitions"},
		"dead letters with more":           {topic: "app-dead-letters", change: func(h *topics.Have) { h.Partitions = 9 }, action: topics.Accept},
		"one replica":                      {topic: "out", change: func(h *topics.Have) { h.Replicas = 1 }, action: topics.Warn, key: "replication.factor"},
		"two replicas in production":       {topic: "out", change: func(h *topics.Have) { h.Replicas = 2 }, rules: topics.Rules{Production: true}, action: topics.Refuse, key: "replication.factor"},
		"one in sync":                      {topic: "in", set: []string{"min.insync.replicas=1"}, action: topics.Warn, key: "min.insync.replicas"},
		"one in sync in production":        {topic: "in", set: []string{"min.insync.replicas=1"}, rules: topics.Rules{Production: true}, action: topics.Refuse, key: "min.insync.replicas"},
		"more in sync than replicas":       {topic: "in", set: []string{"min.insync.replicas=4"}, action: topics.Warn, key: "min.insync.replicas"},
		"unclean election":                 {topic: "app-post-state", set: []string{"unclean.leader.election.enable=true"}, action: topics.Warn, key: "unclean.leader.election.enable"},
		"unclean election in production":   {topic: "app-post-state", set: []string{"unclean.leader.election.enable=true"}, rules: topics.Rules{Production: true}, action: topics.Refuse, key: "unclean.leader.election.enable"},
		"not readable":                     {topic: "in", change: func(h *topics.Have) { h.Err = errors.New("denied") }, action: topics.Refuse, key: "read"},
		"log append time ahead":            {topic: "in", set: []string{"message.timestamp.type=LogAppendTime", "message.timestamp.after.max.ms=9223372036854775807"}, action: topics.Accept},
		"state kept for ever by both":      {topic: "app-post-state", set: []string{"cleanup.policy=compact,delete", "retention.ms=-1"}, action: topics.Accept},
		"input kept for ever but declared": {topic: "in", set: []string{"retention.ms=-1"}, rules: topics.Rules{RedeliveryHorizon: day}, action: topics.Accept},
	} {
		t.Run(name, func(t *testing.T) {
			haves := good()
			h := haves[c.topic]
			for _, kv := range c.set {
				k, v, _ := strings.Cut(kv, "=")
				h.Config[k] = v
			}
			if c.change != nil {
				c.change(&h)
			}
			haves[c.topic] = h
			s := step(t, topics.Plan(post(), haves, c.rules), c.topic)
			if s.Action != c.action {
				t.Errorf("got %s, want %s: %v", s.Action, c.action, s.Reasons)
			}
			if c.key != "" && !slices.ContainsFunc(s.Reasons, func(r topics.Reason) bool {
				return r.Key == c.key && string(r.Level) == string(c.action) && r.Cause != "" && r.Remedy != ""
			}) {
				t.Errorf("no reason %s with cause and remedy: %v", c.key, s.Reasons)
			}
		})
	}
}

func TestPlanCreatesWhatIsMissing(t *testing.T) {
	steps := topics.Plan(post(), nil, topics.Rules{Partitions: 6})
	if err := steps.Refused(); err != nil || len(steps.Pending()) != 4 {
		t.Fatalf("%v, %d pending", err, len(steps.Pending()))
	}
	for topic, want := range map[string]map[string]string{
		"in":               {"cleanup.policy": "delete", "retention.ms": "604800000", "segment.ms": "604800000", "message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": "3600000"},
		"out":              {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "unclean.leader.election.enable": "false"},
		"app-post-state":   {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"},
		"app-dead-letters": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "unclean.leader.election.enable": "false"},
	} {
		s := step(t, steps, topic)
		if s.Partitions != 6 || s.Replication != -1 || !maps.Equal(s.Config, want) {
			t.Errorf("%s: %d partitions, replication %d, %v", topic, s.Partitions, s.Replication, s.Config)
		}
	}
}

func TestPlanGivesNewTopicsTheSizeOfTheInput(t *testing.T) {
	haves := map[string]topics.Have{"in": good()["in"]}
	h := haves["in"]
	h.Config["max.message.bytes"] = "9000000"
	steps := topics.Plan(post(), haves, topics.Rules{Replication: 3})
	for topic, want := range map[string]string{"out": "9000000", "app-dead-letters": "9016384", "app-post-state": "9000000"} {
		s := step(t, steps, topic)
		if s.Config["max.message.bytes"] != want || s.Config["min.insync.replicas"] != "2" || s.Action != topics.Create {
			t.Errorf("%s: %s %v %v", topic, s.Action, s.Config, s.Reasons)
		}
	}
}

func TestPlanTakesTheCountFromWhatExists(t *testing.T) {
	join := []topics.Want{
		{Name: "a", Role: topics.RoleInput, Stage: "one"}, {Name: "b", Role: topics.RoleInput, Stage: "one"},
		{Name: "b", Role: topics.RoleInput, Stage: "two"}, {Name: "c", Role: topics.RoleInput, Stage: "two"},
		{Name: "two-state", Role: topics.RoleState, Stage: "two"},
		{Name: "dead", Role: topics.RoleDeadLetters},
	}
	for name, existing := range map[string]string{"through another stage": "c", "from the state": "two-state", "directly": "a"} {
		haves := map[string]topics.Have{existing: have(existing, "cleanup.policy=compact", "max.message.bytes=9000000")}
		haves[existing] = withPartitions(haves[existing], 7)
		for _, s := range topics.Plan(join, haves, topics.Rules{Allow: []string{"a:cleanup.policy", "c:cleanup.policy"}}) {
			if s.Partitions != 7 || s.Action == topics.Refuse {
				t.Errorf("%s: %s has %d partitions, %s %v", name, s.Topic, s.Partitions, s.Action, s.Reasons)
			}
		}
	}
}

func withPartitions(h topics.Have, n int32) topics.Have { h.Partitions = n; return h }

func TestPlanNamesTheInputsThatDiffer(t *testing.T) {
	wants := []topics.Want{{Name: "a", Role: topics.RoleInput, Stage: "s"}, {Name: "b", Role: topics.RoleInput, Stage: "s"}}
	haves := map[string]topics.Have{"a": have("a"), "b": withPartitions(have("b"), 6)}
	err := topics.Plan(wants, haves, topics.Rules{}).Refused()
	if err == nil || !strings.Contains(err.Error(), "topic b: partitions: 6 partitions, stage s has 4 (a 4)") {
		t.Errorf("got %v", err)
	}
}

func TestPlanChecksWhatItWouldCreate(t *testing.T) {
	wants := post()
	wants[0].Window = 13 * day
	if err := topics.Plan(wants, nil, topics.Rules{}).Refused(); err == nil || !strings.Contains(err.Error(), "redelivery.horizon") {
		t.Errorf("got %v, want a refusal before anything is created", err)
	}
	wants[0].Config = map[string]string{"retention.ms": "86400000", "segment.ms": "86400000"}
	if err := topics.Plan(wants, nil, topics.Rules{}).Refused(); err != nil {
		t.Error(err)
	}
}

func TestPlanWarnsOfAnotherValueThanWanted(t *testing.T) {
	wants := post()
	wants[1].Config = map[string]string{"compression.type": "zstd", "retention.ms": "-1"}
	haves := good()
	haves["out"].Config["compression.type"] = "producer"
	s := step(t, topics.Plan(wants, haves, topics.Rules{}), "out")
	if s.Action != topics.Warn || len(s.Reasons) != 1 || s.Reasons[0].Key != "compression.type" {
		t.Errorf("%s %v", s.Action, s.Reasons)
	}
}

func TestPlanRefusesASecondUseOfTheEnginesTopics(t *testing.T) {
	for _, second := range []topics.Want{
		{Name: "app-post-state", Role: topics.RoleOutput, Stage: "post"},
		{Name: "app-dead-letters", Role: topics.RoleInput, Stage: "post"},
		{Name: "app-post-state", Role: topics.RoleState, Stage: "other"},
	} {
		if err := topics.Plan(append(post(), second), good(), topics.Rules{}).Refused(); err == nil || !strings.Contains(err.Error(), "second use") {
			t.Errorf("%+v: got %v", second, err)
		}
	}
}

func TestPlanNeverTakesUnknownForDifferent(t *testing.T) {
	haves := good()
	for name, h := range haves {
		h.Config = nil
		haves[name] = h
	}
	for _, s := range topics.Plan(post(), haves, topics.Rules{Production: true}) {
		if s.Action != topics.Accept || len(s.Reasons) == 0 {
			t.Errorf("%s: %s %v, want accepted with a note of what was not checked", s.Topic, s.Action, s.Reasons)
		}
	}
}

func TestPlanRefusesBadNamesBeforeTheBrokerSeesThem(t *testing.T) {
	steps := topics.Plan([]topics.Want{{Name: "a b", Role: topics.RoleOutput, Stage: "s"}}, nil, topics.Rules{})
	if steps[0].Action != topics.Refuse || steps[0].Reasons[0].Key != "name" {
		t.Errorf("%+v", steps)
	}
}
