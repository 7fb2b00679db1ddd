package topics_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/topics"
)

// rekey is a pipeline of two hops: one stage reads "in" and hands records to the other under a new key.
func rekey() []topics.Want {
	return []topics.Want{
		{Name: "in", Role: topics.RoleInput, Stage: "first", Window: 14 * day},
		{Name: "app-first-state", Role: topics.RoleState, Stage: "first"},
		{Name: "app-second-repartition", Role: topics.RoleRepartition, Stage: "second", Writers: []string{"first"}},
		{Name: "out", Role: topics.RoleOutput, Stage: "second"},
		{Name: "app-second-state", Role: topics.RoleState, Stage: "second"},
		{Name: "app-dead-letters", Role: topics.RoleDeadLetters, Stage: "first", PerTask: true},
	}
}

func TestRepartitionTopicKeepsWhatIsInFlight(t *testing.T) {
	haves := map[string]topics.Have{"in": withPartitions(good()["in"], 6)}
	haves["in"].Config["max.message.bytes"] = "9000000"
	steps := topics.Plan(rekey(), haves, topics.Rules{})
	if err := steps.Refused(); err != nil {
		t.Fatal(err)
	}
	s := step(t, steps, "app-second-repartition")
	want := map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "segment.bytes": "52428800",
		"message.timestamp.type": "CreateTime", "unclean.leader.election.enable": "false", "max.message.bytes": "9000000"}
	if s.Action != topics.Create || s.Partitions != 6 || !maps.Equal(s.Config, want) || !slices.Equal(s.Stages, []string{"second"}) {
		t.Errorf("%+v", s)
	}
	for _, topic := range []string{"app-second-state", "out"} {
		if s := step(t, steps, topic); s.Partitions != 6 || s.Config["max.message.bytes"] != "9000000" {
			t.Errorf("%s: %+v: want what the input behind it has", topic, s)
		}
	}
}

func TestRepartitionTopicHasTheCountOfItsStageElseOfItsLargestWriter(t *testing.T) {
	read := func(name, stage string) topics.Want {
		return topics.Want{Name: name, Role: topics.RoleInput, Stage: stage}
	}
	repartition := func(stage string, writers ...string) topics.Want {
		return topics.Want{Name: stage + "-repartition", Role: topics.RoleRepartition, Stage: stage, Writers: writers}
	}
	for name, c := range map[string]struct {
		wants []topics.Want
		haves map[string]int32
		want  int32
	}{
		"other input that exists":    {[]topics.Want{repartition("z", "a"), read("in", "a"), read("other", "z")}, map[string]int32{"in": 8, "other": 3}, 3},
		"other input to be made":     {[]topics.Want{repartition("z", "a"), read("in", "a"), {Name: "other", Role: topics.RoleInput, Stage: "z", Partitions: 5}}, map[string]int32{"in": 8}, 5},
		"largest writer":             {[]topics.Want{repartition("z", "a", "b"), read("in", "a"), read("more", "b")}, map[string]int32{"in": 2, "more": 9}, 9},
		"largest writer first":       {[]topics.Want{repartition("z", "b", "a"), read("in", "a"), read("more", "b")}, map[string]int32{"in": 2, "more": 9}, 9},
		"over two hops":              {[]topics.Want{repartition("z", "y"), repartition("y", "a"), read("in", "a")}, map[string]int32{"in": 7}, 7},
		"the topic is there":         {[]topics.Want{repartition("z", "a"), read("in", "a")}, map[string]int32{"in": 8, "z-repartition": 2}, 2},
		"writer to be made":          {[]topics.Want{repartition("z", "a"), read("in", "a")}, nil, topics.DefaultPartitions},
		"a stage that feeds itself":  {[]topics.Want{repartition("z", "z"), read("in", "z")}, map[string]int32{"in": 6}, 6},
		"a circle nothing feeds":     {[]topics.Want{repartition("z", "y"), repartition("y", "z")}, nil, topics.DefaultPartitions},
		"one of a circle is outside": {[]topics.Want{repartition("z", "y", "a"), repartition("y", "z"), read("in", "a")}, map[string]int32{"in": 6}, topics.DefaultPartitions},
	} {
		haves := map[string]topics.Have{}
		for topic, n := range c.haves {
			haves[topic] = withPartitions(have(topic, "retention.ms=-1", "cleanup.policy=delete"), n)
		}
		steps := topics.Plan(c.wants, haves, topics.Rules{})
		if err := steps.Refused(); err != nil || step(t, steps, "z-repartition").Partitions != c.want {
			t.Errorf("%s: %v, %+v, want %d partitions", name, err, step(t, steps, "z-repartition"), c.want)
		}
	}
}

func TestRepartitionTopicThatWouldLoseOrChangeRecordsIsRefused(t *testing.T) {
	fits := []string{"cleanup.policy=delete", "retention.ms=-1", "retention.bytes=-1", "max.message.bytes=1048588", "message.timestamp.before.max.ms=9223372036854775807"}
	for _, c := range []struct {
		set, key string
		action   topics.Action
	}{
		{"", "", topics.Accept},
		{"cleanup.policy=compact", "cleanup.policy", topics.Refuse},
		{"cleanup.policy=compact,delete", "cleanup.policy", topics.Refuse},
		{"retention.ms=604800000", "retention.ms", topics.Refuse},
		{"retention.ms=0", "retention.ms", topics.Refuse},
		{"retention.bytes=1000", "retention.bytes", topics.Refuse},
		{"message.timestamp.type=LogAppendTime", "message.timestamp.type", topics.Refuse},
		{"message.timestamp.before.max.ms=86400000", "message.timestamp.before.max.ms", topics.Refuse},
		{"max.message.bytes=1000", "max.message.bytes", topics.Warn},
	} {
		haves := good()
		haves["app-second-repartition"] = have("app-second-repartition", append(slices.Clone(fits), c.set)...)
		s := step(t, topics.Plan(rekey(), haves, topics.Rules{RedeliveryHorizon: day}), "app-second-repartition")
		if s.Action != c.action || c.key != "" && (len(s.Reasons) != 1 || s.Reasons[0].Key != c.key || s.Reasons[0].Remedy == "") {
			t.Errorf("%s: %s %v, want %s", c.set, s.Action, s.Reasons, c.action)
		}
	}
	haves := good()
	haves["app-second-repartition"] = withPartitions(have("app-second-repartition", fits...), 3)
	haves["app-second-state"] = have("app-second-state", "cleanup.policy=compact")
	err := topics.Plan(rekey(), haves, topics.Rules{RedeliveryHorizon: day}).Refused()
	if err == nil || !strings.Contains(err.Error(), "stage second has 3") {
		t.Errorf("another count than the state's: %v", err)
	}
}

// Keys of the other input and keys that are handed on meet in one task only if both topics have as many partitions.
func TestRepartitionTopicOfAnotherCountThanTheOtherInputIsRefused(t *testing.T) {
	wants := []topics.Want{{Name: "in", Role: topics.RoleInput, Stage: "a"}, {Name: "other", Role: topics.RoleInput, Stage: "z"},
		{Name: "hop", Role: topics.RoleRepartition, Stage: "z", Writers: []string{"a"}}}
	haves := map[string]topics.Have{}
	for name, n := range map[string]int32{"in": 6, "other": 6, "hop": 3} {
		haves[name] = withPartitions(have(name, "retention.ms=-1", "cleanup.policy=delete"), n)
	}
	if err := topics.Plan(wants, haves, topics.Rules{}).Refused(); err == nil || !strings.Contains(err.Error(), "stage z has 6") {
		t.Errorf("got %v", err)
	}
}

// A record that the input takes must fit into every topic on its way.
func TestSizeOfTheInputGoesOverAllHops(t *testing.T) {
	wants := append(rekey(), topics.Want{Name: "app-third-repartition", Role: topics.RoleRepartition, Stage: "third", Writers: []string{"second"}},
		topics.Want{Name: "app-third-state", Role: topics.RoleState, Stage: "third"})
	haves := map[string]topics.Have{"in": withPartitions(good()["in"], 6)}
	haves["in"].Config["max.message.bytes"] = "9000000"
	steps := topics.Plan(wants, haves, topics.Rules{})
	for _, topic := range []string{"app-second-repartition", "app-third-repartition", "app-third-state"} {
		if s := step(t, steps, topic); s.Partitions != 6 || s.Config["max.message.bytes"] != "9000000" {
			t.Errorf("%s: %+v: want what the input of the first stage has", topic, s)
		}
	}
}

func TestRepartitionTopicHasNoSecondUse(t *testing.T) {
	for _, second := range []topics.Want{
		{Name: "app-second-repartition", Role: topics.RoleOutput, Stage: "first"},
		{Name: "app-second-repartition", Role: topics.RoleInput, Stage: "first"},
		{Name: "app-second-repartition", Role: topics.RoleRepartition, Stage: "first"},
	} {
		s := step(t, topics.Plan(append(rekey(), second), good(), topics.Rules{RedeliveryHorizon: day}), "app-second-repartition")
		if s.Action != topics.Refuse || !slices.ContainsFunc(s.Reasons, func(r topics.Reason) bool { return r.Key == "name" }) {
			t.Errorf("%+v: %s %v", second, s.Action, s.Reasons)
		}
	}
}

// fill puts n records into each partition of a topic.
func fill(t *testing.T, cluster *kfake.Cluster, topic string, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range 2 * n {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: int32(i % 2)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrimDeletesWhatLiesBelowAndNothingElse(t *testing.T) {
	a, cluster, ctx := admin(t)
	if err := cluster.CreateTopic("hop", 2, nil); err != nil {
		t.Fatal(err)
	}
	fill(t, cluster, "hop", 10)
	if err := a.Trim(ctx, "hop", map[int32]int64{0: 7}); err != nil {
		t.Fatal(err)
	}
	for p, want := range []int64{7, 0} {
		if got := cluster.PartitionInfo("hop", int32(p)).LogStartOffset; got != want {
			t.Errorf("partition %d begins at %d, want %d", p, got, want)
		}
	}
	if err := a.Trim(ctx, "hop", map[int32]int64{0: 99, 1: 5}); err == nil || !strings.Contains(err.Error(), "hop/0 before offset 99") {
		t.Errorf("got %v, want an error that names the partition", err)
	}
	if got := cluster.PartitionInfo("hop", 1).LogStartOffset; got != 5 {
		t.Errorf("partition 1 begins at %d: the other's failure is not its own", got)
	}
	if err := a.Trim(ctx, "nowhere", map[int32]int64{0: 1}); err == nil || !strings.Contains(err.Error(), "trim topic nowhere") {
		t.Errorf("got %v", err)
	}
}
