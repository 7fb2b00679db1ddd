package campaign

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

// A frozen instance stands still while other faults go on.
type frozen struct {
	who   *instance
	since time.Time
}

func processKinds() []kind {
	return []kind{
		{name: "kill", weight: 2, quick: true, do: kill,
			expect: "SIGKILL into an open transaction; the same instance, started at once, ends that transaction and goes on in its own place"},
		{name: "kill-twice", weight: 1, do: killTwice,
			expect: "SIGKILL, start, and SIGKILL again while it joins or restores"},
		{name: "kill-all", weight: 1, do: killAll,
			expect: "SIGKILL of all processors at the same moment"},
		{name: "kill-take-over", weight: 1, do: killTakeOver,
			expect: "SIGKILL without a restart: the others take over after the session and end the open transaction themselves"},
		{name: "kill-fence", weight: 1, do: killFence,
			expect: "SIGKILL, and the operator's `processor fence --force`: the members are gone at once and the others take over"},
		{name: "stop-short", weight: 2, do: stopShort,
			expect: "SIGSTOP for less than the session: the members keep their places"},
		{name: "stop-session", weight: 1, do: stopSession,
			expect: "SIGSTOP for longer than session and transaction time-outs, then SIGCONT: others take over, the zombie commits nothing and joins again"},
		{name: "stop-60s", weight: 1, do: stopLong,
			expect: "SIGSTOP for 60 s while other faults go on, then SIGCONT"},
		{name: "restart", weight: 1, do: restart,
			expect: "SIGTERM and start: exit code 0, and the place is kept or given away"},
		{name: "scale-1-4-1", weight: 1, do: scale,
			expect: "three to four to one to three processors, in order"},
		{name: "rebalance-storm", weight: 1, do: storm,
			expect: "a fourth processor joins, leaves in order or dies, four times in a row"},
		{name: "twin", weight: 1, do: twin,
			expect: "a second process under the same name: one of the two ends with an error that says so"},
		{name: "state-folder-lost", weight: 1, do: stateLost,
			expect: "SIGKILL, the state folder is emptied, start"},
	}
}

// awaitOpen waits a moment for an open transaction of the victim. Without one the fault goes ahead, and has missed what it was to
// break into.
func (r *round) awaitOpen(t *testing.T, victim *instance, o *outcome) {
	t.Helper()
	r.awaitOpenOf(t, o, func(id string) bool { return jobtest.Commit{Writer: id}.By(victim.Name) })
}

func (r *round) awaitOpenOf(t *testing.T, o *outcome, wanted func(id string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
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
	r.awaitOpen(t, v, o)
	o.now()
	v.kill()
	v.start(t)
	o.say("%s", v.Name)
}

func killTwice(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	r.awaitOpen(t, v, o)
	v.kill()
	v.start(t)
	r.pause(20*time.Millisecond, 1200*time.Millisecond)
	o.now()
	v.kill()
	v.start(t)
	o.say("%s", v.Name)
}

func killAll(t *testing.T, r *round, o *outcome) {
	all := r.running()
	r.awaitOpen(t, all[0], o)
	o.now()
	for _, v := range all {
		v.kill()
	}
	for _, v := range all {
		v.start(t)
	}
}

func killTakeOver(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	r.awaitOpen(t, v, o)
	o.now()
	v.kill()
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
	r.awaitOpen(t, v, o)
	o.now()
	v.Proc.Pause()
	r.awaitRecovery(t, o.from)
	wait := time.Until(o.from.Add(transactionTimeout + time.Second))
	<-time.After(wait)
	v.Proc.Resume()
	r.commits.awaitBy(t, v.Name, time.Now())
	o.say("%s, stopped for %.1f s", v.Name, time.Since(o.from).Seconds())
}

const longStop = 60 * time.Second

// stopLong begins a long stop and measures the take-over; thaw ends it while later faults are made.
func stopLong(t *testing.T, r *round, o *outcome) {
	r.thaw(t, true)
	v := r.all[r.rng.IntN(3)]
	if !v.up() {
		v.start(t)
		r.commits.awaitBy(t, v.Name, time.Now())
	}
	r.awaitOpen(t, v, o)
	o.now()
	v.Proc.Pause()
	r.frozen = &frozen{v, o.from}
	o.say("%s", v.Name)
}

func (r *round) stopped(i *instance) bool { return r.frozen != nil && r.frozen.who == i }

// thaw wakes who has stood still for long enough, and wants it to commit again.
func (r *round) thaw(t *testing.T, now bool) {
	t.Helper()
	if r.frozen == nil || !now && time.Since(r.frozen.since) < longStop {
		return
	}
	<-time.After(time.Until(r.frozen.since.Add(longStop)))
	who := r.frozen.who
	r.frozen = nil
	woken := time.Now()
	who.Proc.Resume()
	r.commits.awaitBy(t, who.Name, woken)
}

func restart(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	o.now()
	v.drain(t)
	v.start(t)
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

// twin starts a second process of a live name. Whichever ends must say why; the name goes on.
func twin(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	before := v.Logged(t)
	second, err := v.Launch()
	if err != nil {
		t.Fatal(err)
	}
	first := v.Proc
	ended := second
	select {
	case <-first.Done():
		ended, v.Proc, v.from = first, second, time.Now()
	case <-second.Done():
	case <-time.After(patience):
		second.Kill()
		t.Fatalf("two processes of %s live side by side for %v", v.Name, patience)
	}
	if said := v.Logged(t)[len(before):]; ended.ExitCode() != 1 || !strings.Contains(said, "is in use by process") {
		t.Fatalf("%s: exit code %d of a twin, want 1 and the reason in\n%s", v.Name, ended.ExitCode(), said)
	}
	o.now()
	o.say("%s", v.Name)
}

func stateLost(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	r.awaitOpen(t, v, o)
	o.now()
	v.kill()
	if err := os.RemoveAll(v.Dir); err != nil {
		t.Fatal(err)
	}
	v.start(t)
	o.say("%s", v.Name)
}
