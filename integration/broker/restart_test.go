package broker

import (
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// Killed inside a transaction and started again with the same transactional id and the same group
// instance id, a member has its partitions back at once: that is the restart bound the engine
// publishes. The two ids are what buys it, see the test below.
//
// Guarantee: G8
func TestKilledStaticMemberWithTheSameIDsCommitsWithinHalfItsSession(t *testing.T) {
	const session = 10 * time.Second
	seeds := kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort})
	for _, die := range []string{"produced", "offsets"} {
		t.Run("killed after "+die, func(t *testing.T) {
			took := restart(t, seeds, "instance", session, die)
			t.Logf("first commit %v after the kill", took.Round(time.Millisecond))
			if took >= session/2 {
				t.Errorf("first commit %v after the kill, want less than %v", took, session/2)
			}
		})
	}
}

// Sabotage: no-instance-id
func TestKilledMemberWithoutInstanceIDWaitsForItsSession(t *testing.T) {
	const session = 3 * time.Second
	seeds := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort}).Seeds()
	took := restart(t, seeds, "", session, "produced")
	t.Logf("first commit %v after the kill", took.Round(time.Millisecond))
	if took < session/2 {
		t.Errorf("first commit %v after the kill: a static id is no longer needed for a quick restart", took)
	}
}

// restart lets a worker die in its sixth transaction and measures from its death to the first
// commit of its successor.
func restart(t *testing.T, seeds []string, instance string, session time.Duration, die string) time.Duration {
	t.Helper()
	b := newBench(t, seeds)
	for range 3 * lastCommit {
		b.feed(t)
	}
	first := b.work(t, instance, session, die)
	await(t, first.Done(), "the worker's end")
	killed := time.Now()
	n := 0
	for range first.commits {
		n++
	}
	if n != lastCommit {
		t.Fatalf("the worker died after %d commits, want %d", n, lastCommit)
	}
	second := b.work(t, instance, session, "")
	await(t, second.commits, "a commit of the successor")
	took := time.Since(killed)
	if next := b.offset(t); next <= lastCommit {
		t.Errorf("committed offset %d after the restart, want more than %d", next, lastCommit)
	}
	return took
}

func await[T any](t *testing.T, c <-chan T, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(40 * time.Second):
		t.Fatalf("%s: not within 40 s", what)
	}
}
