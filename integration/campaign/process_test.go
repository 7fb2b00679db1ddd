package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/campaign/results"
	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

// A frozen instance stands still while other faults go on.
type frozen struct {
	who     *instance
	since   time.Time
	members map[string]string // of the group, before
	line    *results.Fault    // written when it is awake again; nil while the stop itself is made
	first   *outcome          // of the fault just before the stop
}

func processKinds() []kind {
	return []kind{
		{name: "kill", weight: 2, quick: true, do: kill,
			expect: "SIGKILL into an open transaction; the same instance, started at once, ends that transaction and goes on in its own place"},
		{name: "kill-twice", weight: 1, do: killTwice,
			expect: "SIGKILL, start, and SIGKILL again while it joins or restores; the same instance goes on in its own place"},
		{name: "kill-all", weight: 1, do: killAll,
			expect: "SIGKILL of all processors at the same moment; each goes on in its own place"},
		{name: "kill-take-over", weight: 1, do: killTakeOver,
			expect: "SIGKILL without a restart: the others take over after the session and end the open transaction of who committed last there, before its time-out; one says so in its log"},
		{name: "kill-fence", weight: 1, do: killFence,
			expect: "SIGKILL, and the operator's `processor fence --force`: the members are gone at once and the others take over"},
		{name: "stop-short", weight: 2, do: stopShort,
			expect: "SIGSTOP for less than the session: the members keep their places"},
		{name: "stop-session", weight: 1, do: stopSession,
			expect: "SIGSTOP for longer than session and transaction time-outs, then SIGCONT: others take over, the zombie commits nothing until it has joined again, and then commits"},
		{name: "stop-60s", weight: 1, do: stopLong,
			expect: "SIGSTOP for 60 s while other faults go on, then SIGCONT: the same"},
		{name: "restart", weight: 1, do: restart,
			expect: "SIGTERM and start: exit code 0; of the three, one keeps its places in the group, and two give theirs away"},
		{name: "scale-1-4-1", weight: 1, do: scale,
			expect: "three to four to one to three processors, in order"},
		{name: "rebalance-storm", weight: 1, do: storm,
			expect: "a fourth processor joins, leaves in order or dies, four times in a row"},
		{name: "twin", weight: 1, do: twin,
			expect: "a second process under the same name, half of the time with a state folder of its own, so that they meet in Kafka: one of the two ends with an error that says so and the other goes on, or both end so and a start helps"},
		{name: "state-folder-lost", weight: 1, do: stateLost,
			expect: "SIGKILL, the state folder is emptied, start; the same instance goes on in its own place"},
	}
}

// openPatience is for a victim that was started just before.
const openPatience = 3 * time.Second

// awaitOpen waits a moment for an open transaction of the victim. Without one the fault goes ahead, and has missed what it was to
// break into.
func (r *round) awaitOpen(t *testing.T, victim *instance, o *outcome) {
	t.Helper()
	r.awaitOpenOf(t, o, func(id string) bool { return jobtest.Commit{Writer: id}.By(victim.Name) })
}

func (r *round) awaitOpenOf(t *testing.T, o *outcome, wanted func(id string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), openPatience)
	defer cancel()
	err := kafkatest.Poll(ctx, func(ctx context.Context) error {
		l, err := r.adm.ListTransactions(ctx, nil, []string{"Ongoing"})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(l.TransactionalIDs(), wanted) {
			return nil
		}
		return errors.New("no open transaction")
	})
	if err != nil {
		o.missed()
	}
}

func kill(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	held := r.held(t)
	r.awaitOpen(t, v, o)
	o.now()
	v.kill()
	r.comesBack(o, held, o.from, v)
	v.start(t)
	o.say("%s", v.Name)
}

func killTwice(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	held := r.held(t)
	r.awaitOpen(t, v, o)
	away := time.Now()
	v.kill()
	v.start(t)
	r.pause(20*time.Millisecond, 1200*time.Millisecond)
	o.now()
	v.kill()
	r.comesBack(o, held, away, v)
	v.start(t)
	o.say("%s", v.Name)
}

func killAll(t *testing.T, r *round, o *outcome) {
	all := r.running()
	held := r.held(t)
	r.awaitOpen(t, all[0], o)
	o.now()
	for _, v := range all {
		v.kill()
	}
	r.comesBack(o, held, o.from, all...)
	for _, v := range all {
		v.start(t)
	}
}

func killTakeOver(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	r.awaitOpen(t, v, o)
	said := r.said(t)
	o.now()
	v.kill()
	open := r.leftOpen(t, v)
	last := r.commits.last()
	maps.DeleteFunc(open, func(id string, _ time.Time) bool { return !last[id] }) // nothing else proves whose it is
	if len(open) == 0 {
		o.missed()
	}
	o.must(func(context.Context) error { return r.ended(t, o, open, said) })
	o.say("%s", v.Name)
}

func killFence(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	r.awaitOpen(t, v, o)
	o.now()
	v.kill()
	r.command.MustRun(t, patience, "fence", v.Name, "--force")
	if left := r.memberIDs(t, v.Name); len(left) > 0 {
		t.Errorf("members %v after the fence of %s, want none: the others wait for the session", left, v.Name)
	}
	o.say("%s", v.Name)
}

func stopShort(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	r.awaitOpen(t, v, o)
	before := r.memberIDs(t, v.Name)
	v.Proc.Pause()
	r.pause(500*time.Millisecond, sessionTimeout/2)
	o.now()
	v.Proc.Resume()
	if expelled := without(before, r.memberIDs(t, v.Name)); len(expelled) > 0 && !o.combined {
		t.Errorf("members %v were expelled within half a session", expelled)
	}
	o.say("%s", v.Name)
}

// stopSession measures the take-over, and then wants the zombie back.
func stopSession(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	before := r.memberIDs(t, v.Name)
	r.awaitOpen(t, v, o)
	o.now()
	v.Proc.Pause()
	r.awaitRecovery(t, o.from)
	<-time.After(time.Until(o.from.Add(transactionTimeout + time.Second)))
	r.wake(t, v, before, o)
	o.say("%s, stopped for %.1f s", v.Name, time.Since(o.from).Seconds())
}

const longStop = 60 * time.Second

// stopLong begins a long stop and measures the take-over; thaw ends it while later faults are made.
func stopLong(t *testing.T, r *round, o *outcome) {
	r.thawNow(t)
	var v *instance
	for _, n := range r.rng.Perm(3) { // it is not made again: it has to meet something the first time
		v, o.verdict = r.all[n], results.Survived
		if r.awaitOpen(t, v, o); o.verdict != results.Missed {
			break
		}
	}
	before := r.memberIDs(t, v.Name)
	o.now()
	v.Proc.Pause()
	r.frozen = &frozen{who: v, since: o.from, members: before}
	o.say("%s", v.Name)
}

func (r *round) stopped(i *instance) bool { return r.frozen != nil && r.frozen.who == i }

// thaw wakes who has stood still for long enough, and then writes the line of the stop.
func (r *round) thaw(t *testing.T, now bool) {
	t.Helper()
	z := r.frozen
	if z == nil || z.line == nil || !now && time.Since(z.since) < longStop {
		return
	}
	verdict := z.line.Verdict
	z.line.Verdict = results.Failed
	t.Run(fmt.Sprintf("%04d-%s-thaw", z.line.Number, z.line.Kind), func(t *testing.T) {
		<-time.After(time.Until(z.since.Add(longStop)))
		woken := time.Now()
		defer func() { z.line.Cost += time.Since(woken) }()
		r.frozen = nil
		o := &outcome{verdict: results.Survived}
		r.wake(t, z.who, z.members, o)
		o.led(t)
		z.first.led(t)
		z.line.Verdict = verdict
	})
	r.over(*z.line)
}

// thawNow is thaw for a fault that wants everybody awake.
func (r *round) thawNow(t *testing.T) {
	t.Helper()
	if r.thaw(t, true); t.Failed() {
		t.FailNow()
	}
}

// thawLast ends a long stop at the end of a round. In a round that has failed nobody knows what it would have come to.
func (r *round) thawLast(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		r.thaw(t, true)
	} else if z := r.frozen; z != nil && z.line != nil {
		z.line.Verdict, z.line.Detail = results.Missed, z.line.Detail+", never woken: the round had failed"
		r.over(*z.line)
	}
}

func restart(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	before := r.memberIDs(t, v.Name)
	joined := time.Since(v.from) > 2*sessionTimeout // all of these members are its own by then
	o.now()
	v.drain(t)
	if joined && o.alone() {
		r.leaves(t, v, before, o.from)
	}
	gone := time.Now()
	v.start(t)
	o.must(func(context.Context) error { return r.commits.again(v.Name, gone) })
	o.say("%s", v.Name)
}

func scale(t *testing.T, r *round, o *outcome) {
	for _, i := range r.all {
		if !i.up() {
			i.start(t)
		}
	}
	r.awaitMembers(t, "p4")
	for _, i := range r.running()[1:] {
		i.drain(t)
	}
	o.now()
	r.awaitRecovery(t, o.from)
	for _, i := range r.all[:3] {
		if !i.up() {
			i.start(t)
		}
	}
}

func storm(t *testing.T, r *round, o *outcome) {
	fourth := r.all[3]
	for range 4 {
		if !fourth.up() {
			fourth.start(t)
		}
		r.pause(50*time.Millisecond, 900*time.Millisecond)
		if r.rng.IntN(2) == 0 {
			fourth.kill()
		} else {
			fourth.drain(t)
		}
	}
	o.now()
}

// twin starts a second process of a live name. Whichever ends must say why; the name goes on. In the state folder of the first
// it meets the lock of that; with a folder of its own it meets the other in Kafka, where each fences the other.
func twin(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	second, want, elsewhere := v.Instance, "is in use by process", r.rng.IntN(2) == 0
	if elsewhere {
		dir, err := os.MkdirTemp(filepath.Dir(v.Dir), v.Name+"-twin-")
		if err != nil {
			t.Fatal(err)
		}
		second = newInstance(t, r.command, v.Name, v.door, "--state-dir", dir).Instance
	}
	apart := elsewhere || v.elsewhere
	if apart {
		want = "another live process uses the same instance"
	}
	before := len(v.Logged(t))
	other, err := second.Launch()
	if err != nil {
		t.Fatal(err)
	}
	ended := other
	select {
	case <-v.Proc.Done():
		ended, v.Proc, v.from, v.elsewhere = v.Proc, other, time.Now(), elsewhere
	case <-other.Done():
	case <-time.After(patience):
		other.Kill()
		t.Fatalf("two processes of %s live side by side for %v", v.Name, patience)
	}
	if said := v.Logged(t)[before:]; ended.ExitCode() != 1 || !strings.Contains(said, want) {
		t.Fatalf("%s: exit code %d of a twin, want 1 and %q in\n%s", v.Name, ended.ExitCode(), want, said)
	}
	o.now()
	o.say("%s, %s", v.Name, map[bool]string{true: "in Kafka", false: "in one folder"}[apart])
	if apart {
		r.settle(t, v, want, o)
	}
	o.must(func(context.Context) error { return r.commits.again(v.Name, o.from) })
}

// settle waits until the twin that is left goes on. One worker of each may lose at the same moment: then both end, both say why, and
// it takes somebody to start one.
func (r *round) settle(t *testing.T, v *instance, want string, o *outcome) {
	t.Helper()
	kafkatest.Within(t, patience, v.Name+" goes on alone", func(context.Context) error {
		select {
		case <-v.Proc.Done():
			return nil
		default:
		}
		_, err := r.commits.recovered(o.from)
		return err
	})
	select {
	case <-v.Proc.Done():
		if code := v.Proc.ExitCode(); code != 1 || !strings.Contains(v.Tail(), want) {
			t.Fatalf("%s: exit code %d of the other twin, want 1 and %q in\n%s", v.Name, code, want, v.Tail())
		}
		o.now()
		o.verdict = results.Helped
		o.say(", both ended")
		v.start(t)
	default:
	}
}

func stateLost(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	held := r.held(t)
	r.awaitOpen(t, v, o)
	o.now()
	v.kill()
	if err := os.RemoveAll(v.Dir); err != nil {
		t.Fatal(err)
	}
	r.comesBack(o, held, o.from, v)
	v.start(t)
	o.say("%s", v.Name)
}
