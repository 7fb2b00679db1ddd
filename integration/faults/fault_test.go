package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const recovery = 40 * time.Second // after which a fault counts as not survived

// A run is one job, its three processors, and what is seen of them.
type run struct {
	kafka     *kafkatest.Cluster
	adm       *kadm.Client
	command   command
	instances []*instance
	commits   *commits
	feed      *feed

	intoOpen, leftOpen int // kills: an open transaction was seen just before; just after
}

// say prints one line per fault.
func (r *run) say(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("%5d events fed  %s", r.feed.sent.Load(), fmt.Sprintf(format, args...))
}

// healthy fails the test when a processor ended by itself, or the feed ended before the faults.
func (r *run) healthy(t *testing.T) {
	t.Helper()
	for _, i := range r.instances {
		i.running(t)
	}
	if !r.feed.running() {
		t.Fatal("the feed ended before the last fault: the faults met an idle job")
	}
}

// kill sends SIGKILL into an open transaction, starts the same instance again and measures from the
// kill to its next commit.
func (r *run) kill(t *testing.T, victim *instance) {
	t.Helper()
	r.healthy(t)
	r.commits.await(t, r.commits.count(), recovery, victim.name+" commits before the kill", func(k commit) bool { return k.by(victim.name) })
	open := r.awaitOpen(t, victim)
	killed := time.Now()
	victim.proc.Kill()
	left, err := openTransactions(t.Context(), r.adm, victim.name)
	if err != nil {
		t.Fatal(err)
	}
	next := r.awaitNew(t, victim, "after the kill", func() { victim.start(t) })
	took := next.at.Sub(killed)
	if len(open) > 0 {
		r.intoOpen++
	}
	if len(left) > 0 {
		r.leftOpen++
	}
	r.say(t, "SIGKILL %s  open just before %d, left open %d  next commit after %v", victim.name, len(open), len(left), took.Round(time.Millisecond))
	if took >= sessionTimeout/2 {
		t.Errorf("%s committed again %v after its kill, want less than half the session timeout (%v)", victim.name, took, sessionTimeout/2)
	}
}

// awaitNew revives a silent processor and waits for a commit of what it wrote since.
func (r *run) awaitNew(t *testing.T, silent *instance, when string, revive func()) commit {
	t.Helper()
	before, err := written(t.Context(), r.adm)
	if err != nil {
		t.Fatal(err)
	}
	since := r.commits.count()
	revive()
	return r.commits.await(t, since, recovery, silent.name+" commits "+when, func(k commit) bool {
		return k.by(silent.name) && k.offset >= before[k.partition]
	})
}

// awaitOpen waits a moment for an open transaction of the victim; without one the kill goes ahead.
func (r *run) awaitOpen(t *testing.T, victim *instance) (open []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_ = kafkatest.Poll(ctx, func(ctx context.Context) (err error) {
		open, err = openTransactions(ctx, r.adm, victim.name)
		if err == nil && len(open) == 0 {
			err = errors.New("no open transaction")
		}
		return err
	})
	return open
}

// freeze stops a processor for longer than its session: others take its tasks over, and it must not
// commit for them when it wakes up.
func (r *run) freeze(t *testing.T, victim *instance) {
	t.Helper()
	r.healthy(t)
	since := r.commits.count()
	r.commits.await(t, since, recovery, victim.name+" commits before it stops", func(k commit) bool { return k.by(victim.name) })
	open := r.awaitOpen(t, victim)
	stopped := time.Now()
	victim.proc.Pause()
	lost := r.commits.partitionsOf(since, victim.name)
	taken := r.commits.await(t, r.commits.count(), recovery, "others commit for "+victim.name, func(k commit) bool {
		return lost[k.partition] && !k.by(victim.name)
	})
	<-time.After(time.Until(stopped.Add(sessionTimeout + 3*time.Second)))
	var woken time.Time
	back := r.awaitNew(t, victim, "after it woke up", func() {
		woken = time.Now()
		victim.proc.Resume()
	})
	r.say(t, "SIGSTOP %s for %v  open just before %d  taken over after %v  next commit %v after SIGCONT", victim.name,
		woken.Sub(stopped).Round(time.Second), len(open), taken.at.Sub(stopped).Round(time.Millisecond), back.at.Sub(woken).Round(time.Millisecond))
}

// loseBroker sends SIGKILL to the only broker and starts it again.
func (r *run) loseBroker(t *testing.T) {
	t.Helper()
	r.healthy(t)
	open, err := openTransactions(t.Context(), r.adm, "")
	if err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	r.kafka.Brokers[0].Kill()
	if err := r.kafka.Brokers[0].Start(); err != nil {
		t.Fatal(err)
	}
	since := r.commits.count() // all that the dead broker answered has been read by now
	r.kafka.Ready(t)
	ready := time.Since(killed)
	took := []string{}
	for _, i := range r.instances {
		k := r.commits.await(t, since, recovery, i.name+" commits after the loss of the broker", func(k commit) bool { return k.by(i.name) })
		took = append(took, fmt.Sprintf("%s %v", i.name, k.at.Sub(killed).Round(time.Millisecond)))
	}
	r.say(t, "SIGKILL broker  open just before %d  ready after %v  next commit after %s", len(open), ready.Round(time.Millisecond), strings.Join(took, ", "))
}

// scaleUp starts more instances and waits until each of them commits.
func (r *run) scaleUp(t *testing.T, names ...string) {
	t.Helper()
	begin, since := time.Now(), r.commits.count()
	for _, name := range names {
		i := r.command.newInstance(t, name)
		i.start(t)
		r.instances = append(r.instances, i)
	}
	var took []string
	for _, name := range names {
		k := r.commits.await(t, since, recovery, name+" commits", func(k commit) bool { return k.by(name) })
		took = append(took, fmt.Sprintf("%s %v", name, k.at.Sub(begin).Round(time.Millisecond)))
	}
	r.say(t, "scale to %d  first commit after %s", len(r.instances), strings.Join(took, ", "))
}

// scaleDown drains all but the first instance and waits until that one commits for all partitions.
func (r *run) scaleDown(t *testing.T) {
	t.Helper()
	r.healthy(t)
	begin := time.Now()
	for _, i := range r.instances[1:] {
		i.drain(t)
	}
	r.instances = r.instances[:1]
	drained, since := time.Since(begin), r.commits.count()
	kafkatest.Within(t, recovery, "one instance commits for all partitions", func(context.Context) error {
		if n := len(r.commits.partitionsOf(since, r.instances[0].name)); n < partitions {
			return fmt.Errorf("for %d of %d", n, partitions)
		}
		return nil
	})
	r.say(t, "scale to 1  drained in %v  all partitions committed after %v", drained.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
}
