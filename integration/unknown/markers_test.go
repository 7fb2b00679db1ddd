package unknown

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/internal/verify"
)

// late is a partition whose state comes later than its offsets: the markers to the broker that leads it are held.
type late struct {
	*site
	partition int32
	leader    *kafkatest.Broker
	account   string
	fed       int64 // records in the partition
	round     int
}

func (l *late) task() string { return fmt.Sprintf("post/%d", l.partition) }

func (l *late) settings(who, mutant string) settings {
	return settings{Name: fmt.Sprintf("%s-%d", who, l.round), Mutant: mutant, Leaves: true, Session: 6 * time.Second, Timeout: 20 * time.Second, Interval: 100 * time.Millisecond}
}

func (l *late) event(n int) string { return fmt.Sprintf("EVT-%d-%d", l.round, n) }

// await waits until all that was fed is committed in the group.
func (l *late) await(t *testing.T) {
	t.Helper()
	l.awaitCommit(t, l.partition, l.fed, 40*time.Second)
}

// give feeds events at once, so that they are of one transaction. The number of an event is its amount.
func (l *late) give(events ...int) {
	l.t.Helper()
	var records []*kgo.Record
	for _, n := range events {
		records = append(records, l.credit(l.event(n), l.account, n))
	}
	l.feed(records...)
	l.fed += int64(len(events))
}

// takeOver lets one owner commit a transaction whose marker does not reach its state partition, and leave; a new owner, with or
// without a mutant, is given the task, the next event of the account, and the last but one again.
func (l *late) takeOver(t *testing.T, mutant string) *member {
	t.Helper()
	l.round++
	old := l.member(l.settings("old", ""))
	old.start(t)
	l.give(1)
	l.await(t)
	for p := range l.partitions {
		l.awaitCommit(t, p, 0, 20*time.Second) // the start of the others: they must not meet the held markers
	}
	l.awaitMarkers(t, 20*time.Second)
	l.leader.Between.Hold(kmsg.WriteTxnMarkers)
	l.give(2, 4)
	l.await(t)
	stable, end, err := kafkatest.Ends(t.Context(), l.client, stateTopic, l.partition)
	if err != nil || stable >= end {
		t.Fatalf("the state is stable up to %d of %d while its marker is held, %v: nothing is tried here", stable, end, err)
	}
	old.leave(t, 0)
	l.give(3, 2)
	next := l.member(l.settings("new", mutant))
	next.start(t)
	next.await(t, 40*time.Second, "the task", 0, func(h happening) bool { return h.What == "assigned" && h.Task == l.task() })
	return next
}

func (l *late) release() { l.leader.Between.Release(kmsg.WriteTxnMarkers) }

// A transaction's offsets can be read before its state can: its markers go to each broker by themselves. Who takes a task over at
// that moment must not start from the state that it finds. On three brokers, with the markers to the leader of the state partition
// held: the engine waits; restored to the last stable offset, the proof (I1) stops it; without that proof too, money is wrong.
//
// Guarantee: G5
func TestANewOwnerWaitsForTheStateThatBelongsToTheOffsets(t *testing.T) {
	s := newSite(t, kafkatest.Options{Brokers: 3, Proxied: true}, 6)
	l := &late{site: s}
	l.partition, l.leader = s.ledElsewhere(t)
	l.account = s.account(l.partition)
	t.Cleanup(l.release)
	t.Run("the engine waits", l.engineWaits)
	t.Run("restore-to-last-stable-offset is stopped by I1", l.proofStops)
	t.Run("last-stable-offset-believed corrupts money", l.moneyIsWrong)
}

// held is how long the marker stays away once the new owner has the task: a restore takes a few milliseconds.
const held = 2 * time.Second

func (l *late) engineWaits(t *testing.T) {
	next := l.takeOver(t, "")
	time.AfterFunc(held, l.release)
	restored := next.await(t, 40*time.Second, "the restored task", 0, func(h happening) bool { return h.What == "restored" && h.Task == l.task() })
	if restored.Took < held*3/4 || restored.Next != l.fed-2 {
		t.Errorf("restored after %v, to go on at offset %d; want more than %v and %d", restored.Took, restored.Next, held*3/4, l.fed-2)
	}
	l.await(t)
	l.awaitMarkers(t, 20*time.Second)
	l.holds(t)
	next.leave(t, 0)
	t.Logf("restored after %v, by proof: %v", restored.Took.Round(time.Millisecond), restored.ByProof)
}

func (l *late) proofStops(t *testing.T) {
	next := l.takeOver(t, "restore-to-last-stable-offset")
	stopped := next.await(t, 40*time.Second, "the violation", 0, is("violated"))
	if !strings.HasPrefix(stopped.Cause, "I1: ") || stopped.Task != l.task() {
		t.Errorf("%s: %s, want I1 of %s", stopped.Task, stopped.Cause, l.task())
	}
	l.release()
	next.leave(t, 1)
	healer := l.member(l.settings("healer", ""))
	healer.start(t)
	l.await(t)
	l.awaitMarkers(t, 20*time.Second)
	l.holds(t)
	healer.leave(t, 0)
	t.Logf("caught: %s", stopped.Cause)
}

func (l *late) moneyIsWrong(t *testing.T) {
	next := l.takeOver(t, "last-stable-offset-believed")
	next.await(t, 40*time.Second, "a commit on old state", 0, func(h happening) bool { return h.What == "committed" && h.Inputs > 0 })
	l.release()
	l.await(t)
	l.awaitMarkers(t, 20*time.Second)
	next.leave(t, 0)
	r := l.verdict(t)
	if r.Counts[verify.Chain] == 0 || r.Counts[verify.Money] == 0 {
		t.Errorf("verify finds %v, want chain and money among them", r.Counts)
	}
	t.Logf("caught: %v\n%v", r.Counts, r.Violations)
}
