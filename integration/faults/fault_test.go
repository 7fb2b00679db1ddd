package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

const (
	recovery = 40 * time.Second // after which a fault counts as not survived
	// takeOver is the session timeout and what it takes to see and fence the dead owner's transaction;
	// without that fence it would be the transaction timeout, 20 s.
	takeOver = jobtest.SessionTimeout + jobtest.SessionTimeout/2
	// between is how many commits lie between two faults, at least: about a second's worth, and some
	// for each partition.
	between = 60
)

// A run is one job, its three processors, and what is seen of them.
type run struct {
	kafka     *kafkatest.Cluster
	client    *kgo.Client
	adm       *kadm.Client
	command   jobtest.Command
	instances []*jobtest.Instance
	commits   *jobtest.Commits
	feed      *jobtest.Feed

	last               int // commits when the last fault was over
	intoOpen, leftOpen int // kills: an open transaction was seen just before; just after
}

// over prints the line of one fault.
func (r *run) over(t *testing.T, format string, args ...any) {
	t.Helper()
	r.last = r.commits.Count()
	t.Logf("%5d events fed  %s", r.feed.Sent(), fmt.Sprintf(format, args...))
}

// advance waits until the job has got on since the last fault. It fails the test when a processor
// ended by itself, or the feed ended before the faults.
func (r *run) advance(t *testing.T) {
	t.Helper()
	kafkatest.Within(t, recovery, "commits after the last fault", func(context.Context) error {
		n, ps := r.commits.Since(r.last, "")
		if n < between || len(ps) < partitions {
			return fmt.Errorf("%d commits, in %d of %d partitions", n, len(ps), partitions)
		}
		return nil
	})
	for _, i := range r.instances {
		i.Running(t)
	}
	if !r.feed.Running() {
		t.Fatal("the feed ended before the last fault: the faults met an idle job")
	}
}

// kill sends SIGKILL into an open transaction, starts the same instance again and measures from the
// kill to its next commit.
func (r *run) kill(t *testing.T, victim *jobtest.Instance) {
	t.Helper()
	r.advance(t)
	r.commits.Await(t, r.commits.Count(), recovery, victim.Name+" commits before the kill", func(k jobtest.Commit) bool { return k.By(victim.Name) })
	open := r.awaitOpen(t, victim)
	killed := time.Now()
	victim.Proc.Kill()
	left, err := jobtest.OpenTransactions(t.Context(), r.adm, victim.Name)
	if err != nil {
		t.Fatal(err)
	}
	next := r.awaitNew(t, victim, "after the kill", func() { victim.Start(t) })
	took := next.At.Sub(killed)
	if len(open) > 0 {
		r.intoOpen++
	}
	if len(left) > 0 {
		r.leftOpen++
	}
	r.over(t, "SIGKILL %s  open just before %d, left open %d  next commit after %v", victim.Name, len(open), len(left), took.Round(time.Millisecond))
	if took >= jobtest.SessionTimeout/2 {
		t.Errorf("%s committed again %v after its kill, want less than half the session timeout (%v)", victim.Name, took, jobtest.SessionTimeout/2)
	}
}

// awaitNew revives a silent processor and waits for a commit of what it wrote since.
func (r *run) awaitNew(t *testing.T, silent *jobtest.Instance, when string, revive func()) jobtest.Commit {
	t.Helper()
	before, err := jobtest.Written(t.Context(), r.adm)
	if err != nil {
		t.Fatal(err)
	}
	since := r.commits.Count()
	revive()
	return r.commits.Await(t, since, recovery, silent.Name+" commits "+when, func(k jobtest.Commit) bool {
		return k.By(silent.Name) && k.Offset >= before[k.Partition]
	})
}

// awaitOpen waits a moment for an open transaction of the victim; without one the kill goes ahead.
func (r *run) awaitOpen(t *testing.T, victim *jobtest.Instance) (open []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_ = kafkatest.Poll(ctx, func(ctx context.Context) (err error) {
		open, err = jobtest.OpenTransactions(ctx, r.adm, victim.Name)
		if err == nil && len(open) == 0 {
			err = errors.New("no open transaction")
		}
		return err
	})
	return open
}

// freeze stops a processor for longer than its session: others take its tasks over, and it must not
// commit for them when it wakes up.
func (r *run) freeze(t *testing.T, victim *jobtest.Instance) {
	t.Helper()
	r.advance(t)
	since := r.commits.Count()
	r.commits.Await(t, since, recovery, victim.Name+" commits before it stops", func(k jobtest.Commit) bool { return k.By(victim.Name) })
	open := r.awaitOpen(t, victim)
	stopped := time.Now()
	victim.Proc.Pause()
	_, lost := r.commits.Since(since, victim.Name)
	taken := r.commits.Await(t, r.commits.Count(), recovery, "others commit for "+victim.Name, func(k jobtest.Commit) bool {
		return lost[k.Partition] && !k.By(victim.Name)
	})
	<-time.After(time.Until(stopped.Add(jobtest.SessionTimeout + 3*time.Second)))
	var woken time.Time
	back := r.awaitNew(t, victim, "after it woke up", func() {
		woken = time.Now()
		victim.Proc.Resume()
	})
	r.over(t, "SIGSTOP %s for %v  open just before %d  taken over after %v  next commit %v after SIGCONT", victim.Name,
		woken.Sub(stopped).Round(time.Second), len(open), taken.At.Sub(stopped).Round(time.Millisecond), back.At.Sub(woken).Round(time.Millisecond))
	if took := taken.At.Sub(stopped); took >= takeOver {
		t.Errorf("others committed for %s %v after it stopped, want less than %v: nobody fenced its open transaction", victim.Name, took.Round(time.Millisecond), takeOver)
	}
	if took := back.At.Sub(woken); took >= jobtest.SessionTimeout/2 {
		t.Errorf("%s committed again %v after it woke up, want less than half the session timeout (%v): the end of its old transaction held it up", victim.Name, took.Round(time.Millisecond), jobtest.SessionTimeout/2)
	}
}

// loseBroker sends SIGKILL to the only broker, with transactions open, and starts it again.
//
// The processors stand still for the moment of the kill, so that no transaction is between its
// decision and its markers: an only broker that is killed there forgets markers (Kafka 4.4.0), and
// what is committed then, and to which offset, differs by partition. No client survives that; see
// TestOnlyBrokerKilledWhileItOwesMarkersNeverWritesThem in package broker.
func (r *run) loseBroker(t *testing.T) {
	t.Helper()
	r.advance(t)
	for _, i := range r.instances {
		i.Proc.Pause()
	}
	r.awaitMarkers(t)
	open, err := jobtest.OpenTransactions(t.Context(), r.adm, "")
	if err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	r.kafka.Brokers[0].Kill()
	for _, i := range r.instances {
		i.Proc.Resume()
	}
	if err := r.kafka.Brokers[0].Start(); err != nil {
		t.Fatal(err)
	}
	since := r.commits.Count() // all that the dead broker answered has been read by now
	r.kafka.Ready(t)
	ready := time.Since(killed)
	took := []string{}
	for _, i := range r.instances {
		k := r.commits.Await(t, since, recovery, i.Name+" commits after the loss of the broker", func(k jobtest.Commit) bool { return k.By(i.Name) })
		took = append(took, fmt.Sprintf("%s %v", i.Name, k.At.Sub(killed).Round(time.Millisecond)))
		if late := k.At.Sub(killed) - ready; late >= jobtest.SessionTimeout/2 {
			t.Errorf("%s committed again %v after the broker was ready, want less than half the session timeout (%v)", i.Name, late.Round(time.Millisecond), jobtest.SessionTimeout/2)
		}
	}
	r.over(t, "SIGKILL broker  open just before %d  ready after %v  next commit after %s", len(open), ready.Round(time.Millisecond), strings.Join(took, ", "))
}

// awaitMarkers waits until no marker is owed, for some looks in a row: a last request may still be
// on its way from a process that stands still.
func (r *run) awaitMarkers(t *testing.T) {
	t.Helper()
	clean := 0
	kafkatest.Within(t, recovery, "all markers are written", func(ctx context.Context) error {
		owed, err := jobtest.OwedMarkers(ctx, r.adm)
		if err != nil {
			return err
		}
		if clean++; len(owed) > 0 {
			clean = 0
		}
		if clean < 5 {
			return fmt.Errorf("owed: %v", owed)
		}
		return nil
	})
}

// scaleUp starts more instances and waits until each of them commits.
func (r *run) scaleUp(t *testing.T, names ...string) {
	t.Helper()
	begin, since := time.Now(), r.commits.Count()
	for _, name := range names {
		i := r.command.NewInstance(t, name)
		i.Start(t)
		r.instances = append(r.instances, i)
	}
	var took []string
	for _, name := range names {
		k := r.commits.Await(t, since, recovery, name+" commits", func(k jobtest.Commit) bool { return k.By(name) })
		took = append(took, fmt.Sprintf("%s %v", name, k.At.Sub(begin).Round(time.Millisecond)))
	}
	r.over(t, "scale to %d  first commit after %s", len(r.instances), strings.Join(took, ", "))
}

// scaleDown drains all but the first instance and waits until that one commits for all partitions.
func (r *run) scaleDown(t *testing.T) {
	t.Helper()
	r.advance(t)
	begin := time.Now()
	for _, i := range r.instances[1:] {
		i.Drain(t)
	}
	r.instances = r.instances[:1]
	drained, since := time.Since(begin), r.commits.Count()
	kafkatest.Within(t, recovery, "one instance commits for all partitions", func(context.Context) error {
		if _, ps := r.commits.Since(since, r.instances[0].Name); len(ps) < partitions {
			return fmt.Errorf("for %d of %d", len(ps), partitions)
		}
		return nil
	})
	r.over(t, "scale to 1  drained in %v  all partitions committed after %v", drained.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
}
