package campaign

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

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
			expect: "SIGTERM of a broker, and start"},
		{name: "rolling-restart", weight: 1, do: rolling,
			expect: "every broker in turn, each when the one before is in sync again"},
		{name: "leaders-move", weight: 1, do: leadersMove,
			expect: "every partition gets another preferred leader and moves to it"},
	}
}

// lose kills a broker and starts it again when others lead what it led.
func (r *round) lose(t *testing.T, b *kafkatest.Broker, o *outcome) {
	t.Helper()
	o.now()
	r.kafka.Lose(t, b)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
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

func (r *round) bounce(t *testing.T, b *kafkatest.Broker) {
	t.Helper()
	if err := b.Terminate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
}

func brokerRestart(t *testing.T, r *round, o *outcome) {
	b := r.broker()
	o.now()
	r.bounce(t, b)
	o.say("broker %d", b.ID)
}

func rolling(t *testing.T, r *round, o *outcome) {
	for _, b := range r.kafka.Brokers {
		r.bounce(t, b)
		r.kafka.Ready(t)
	}
	o.now()
}

// leadersMove gives every partition of the job another preferred leader first: else there may be nothing to move.
func leadersMove(t *testing.T, r *round, o *outcome) {
	m, err := r.adm.Metadata(t.Context(), input, topics.StateTopic(app, "post"), updatesTopic)
	if err != nil {
		t.Fatal(err)
	}
	var order kadm.AlterPartitionAssignmentsReq
	m.Topics.EachPartition(func(p kadm.PartitionDetail) {
		order.Assign(p.Topic, p.Partition, slices.Concat(p.Replicas[1:], p.Replicas[:1]))
	})
	answers, err := r.adm.AlterPartitionAssignments(t.Context(), order)
	if err = errors.Join(err, answers.Error()); err != nil {
		t.Fatal(err)
	}
	o.now()
	results, err := r.adm.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, nil)
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for _, of := range results {
		for _, p := range of {
			if p.Err == nil {
				moved++
			}
		}
	}
	if moved == 0 {
		o.missed()
	}
	o.say("%d partitions", moved)
}
