package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/topics"
)

func brokerKinds() []kind {
	return []kind{
		{name: "broker-kill", weight: 1, do: brokerKill,
			expect: "SIGKILL of a broker, started again when it is replaced"},
		{name: "state-leader-kill", weight: 1, do: leaderKill,
			expect: "SIGKILL of the broker that leads a partition of the state topic"},
		{name: "group-coordinator-kill", weight: 1, do: groupCoordinatorKill,
			expect: "SIGKILL of the group's coordinator"},
		{name: "transaction-coordinator-kill", weight: 1, do: transactionCoordinatorKill,
			expect: "SIGKILL of the coordinator of a worker's transactions"},
		{name: "broker-stop", weight: 1, do: brokerStop,
			expect: "SIGSTOP of a broker for up to 4 s, then SIGCONT"},
		{name: "broker-restart", weight: 1, do: brokerRestart,
			expect: "SIGTERM of a broker, started again when it is replaced"},
		{name: "rolling-restart", weight: 1, do: rolling,
			expect: "every broker in turn, each when the one before is in sync again"},
		{name: "leaders-move", weight: 1, quick: true, do: leadersMove,
			expect: "every partition of the input, the state and the updates gets another preferred leader, and all of them move to it"},
	}
}

// replace ends a broker and starts it again when others lead what it led.
func (r *round) replace(t *testing.T, b *kafkatest.Broker, end func(testing.TB, *kafkatest.Broker)) {
	t.Helper()
	end(t, b)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
}

func (r *round) lose(t *testing.T, b *kafkatest.Broker, o *outcome) {
	t.Helper()
	o.now()
	r.replace(t, b, r.kafka.Lose)
	o.say("broker %d", b.ID)
}

func brokerKill(t *testing.T, r *round, o *outcome) { r.lose(t, r.broker(), o) }

func leaderKill(t *testing.T, r *round, o *outcome) {
	r.lose(t, r.kafka.Leader(t, topics.StateTopic(app, "post"), int32(r.rng.IntN(partitions))), o)
}

func groupCoordinatorKill(t *testing.T, r *round, o *outcome) {
	r.lose(t, r.kafka.GroupCoordinator(t, app), o)
}

func transactionCoordinatorKill(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	id := app + "-" + r.worker(v)
	b := r.kafka.TransactionCoordinator(t, id)
	r.awaitOpenOf(t, o, func(open string) bool { return open == id })
	r.lose(t, b, o)
	o.say(", of %s", id)
}

func brokerStop(t *testing.T, r *round, o *outcome) {
	b := r.broker()
	b.Pause()
	r.pause(time.Second, 4*time.Second)
	o.now()
	b.Resume()
	o.say("broker %d", b.ID)
}

func brokerRestart(t *testing.T, r *round, o *outcome) {
	b := r.broker()
	o.now()
	r.replace(t, b, r.kafka.Retire)
	o.say("broker %d", b.ID)
}

func rolling(t *testing.T, r *round, o *outcome) {
	for _, b := range r.kafka.Brokers {
		r.replace(t, b, r.kafka.Retire)
		r.kafka.Ready(t)
	}
	o.now()
}

// leadersMove gives every partition of the job a preferred leader that does not lead it: else there may be nothing to move.
func leadersMove(t *testing.T, r *round, o *outcome) {
	m, err := r.adm.Metadata(t.Context(), input, topics.StateTopic(app, "post"), jobtest.Updates)
	if err != nil {
		t.Fatal(err)
	}
	var order kadm.AlterPartitionAssignmentsReq
	wanted := map[string]map[int32]int32{}
	var elect kadm.TopicsSet // all: the coordinators move as well
	m.Topics.EachPartition(func(p kadm.PartitionDetail) {
		replicas := slices.Concat(p.Replicas[1:], p.Replicas[:1])
		if replicas[0] == p.Leader {
			replicas = slices.Concat(replicas[1:], replicas[:1])
		}
		order.Assign(p.Topic, p.Partition, replicas)
		if wanted[p.Topic] == nil {
			wanted[p.Topic] = map[int32]int32{}
		}
		wanted[p.Topic][p.Partition] = replicas[0]
		if o.first {
			elect.Add(p.Topic, p.Partition)
		}
	})
	answers, err := r.adm.AlterPartitionAssignments(t.Context(), order)
	if err = errors.Join(err, answers.Error()); err != nil {
		t.Fatal(err)
	}
	o.now()
	kafkatest.Within(t, patience, "every partition has moved", func(ctx context.Context) error {
		if _, err := r.adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, elect); err != nil {
			return err
		}
		return r.led(ctx, wanted)
	})
	o.say("%d partitions", 3*partitions)
}

// led says which partition another broker leads than is wanted.
func (r *round) led(ctx context.Context, wanted map[string]map[int32]int32) error {
	m, err := r.adm.Metadata(ctx, slices.Collect(maps.Keys(wanted))...)
	if err != nil {
		return err
	}
	known := 0
	m.Topics.EachPartition(func(p kadm.PartitionDetail) {
		known++
		if want := wanted[p.Topic][p.Partition]; p.Leader != want {
			err = fmt.Errorf("%s/%d is led by broker %d, want %d", p.Topic, p.Partition, p.Leader, want)
		}
	})
	if known != 3*partitions && err == nil {
		err = fmt.Errorf("%d partitions are known, want %d", known, 3*partitions)
	}
	return err
}
