package campaign

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

// Shorter than the defaults (10 s, 20 s), so that a fault that outlives them costs less.
const (
	app                = jobtest.App
	sessionTimeout     = 6 * time.Second
	transactionTimeout = 8 * time.Second
)

// allowed lets the input take records of two hours ahead, which one of the faults sends.
const allowed = input + ":message.timestamp.after.max.ms"

// An instance is one processor under a fixed name, through all its incarnations. Its Proc is nil while it is meant to be down.
type instance struct {
	*jobtest.Instance
	door *kafkatest.Proxy // through which it reaches the brokers
	from time.Time        // when Proc began
	// elsewhere says that Proc keeps its state in a folder of its own: it was a twin of the one before.
	elsewhere bool
}

// youth is how long a process may take to catch signals: SIGTERM before that simply ends it.
const youth = 2 * time.Second

// newInstance prepares an instance; start runs it. The first leaves its place in the group to its next incarnation, the others
// give theirs away when they are told to end.
func newInstance(t *testing.T, c jobtest.Command, name string, door *kafkatest.Proxy, flags ...string) *instance {
	t.Helper()
	all := append([]string{"--leave=" + fmt.Sprint(leaves(name)), "--topics-allow", allowed,
		"--session-timeout-ms", millis(sessionTimeout), "--heartbeat-interval-ms", millis(sessionTimeout / 4),
		"--max-poll-interval-ms", millis(sessionTimeout), "--transaction-timeout-ms", millis(transactionTimeout)}, flags...)
	return &instance{Instance: c.For(door.Seeds()).NewInstance(t, name, all...), door: door}
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

func (i *instance) start(t *testing.T) {
	t.Helper()
	i.Start(t)
	i.from, i.elsewhere = time.Now(), false
}

// kill sends SIGKILL; the instance counts as down until start.
func (i *instance) kill() {
	i.Proc.Kill()
	i.Proc = nil
}

// leaves says whether an instance of this name gives its places in the group away when it ends in order.
func leaves(name string) bool { return name != "p1" }

// up reports whether the instance is meant to run.
func (i *instance) up() bool { return i.Proc != nil }

// running fails the test when the process has ended by itself.
func (i *instance) running(t *testing.T) {
	t.Helper()
	if i.up() {
		i.Running(t)
	}
}

// drain ends the process as an operator does, and wants exit code 0. One that was just making a session anew after a commit without
// an answer ends with code 1, and says that its next start decides.
func (i *instance) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	young := time.Since(i.from) < youth
	if err := i.Proc.Terminate(ctx); err != nil {
		t.Fatalf("%s: %v", i.Name, err)
	}
	if code := i.Proc.ExitCode(); code != 0 && !(code == -1 && young) && !(code == 1 && inDoubt(i.Tail())) {
		t.Fatalf("%s: exit code %d after SIGTERM; its log ends:\n%s", i.Name, code, i.Tail())
	}
	i.Proc = nil
}

// inDoubt says whether the end of a log is that of a processor that was told to end less than a session after a commit without an
// answer, and could not learn what became of that.
func inDoubt(log string) bool {
	const doubt = "the last transaction did not commit before the shutdown; the next start decides it"
	rebuilt, told := lastTime(log, `msg="the session is rebuilt"`), lastTime(log, "msg=draining")
	return strings.Contains(log[max(0, strings.LastIndex(log, "msg=draining")):], doubt) && told.After(rebuilt) && told.Sub(rebuilt) < sessionTimeout
}

// lastTime is that of the last line of a log that contains a text.
func lastTime(log, text string) (at time.Time) {
	for line := range strings.Lines(log) {
		if stamp, _, ok := strings.Cut(strings.TrimPrefix(line, "time="), " "); ok && strings.Contains(line, text) {
			at, _ = time.Parse(time.RFC3339, stamp)
		}
	}
	return at
}

func TestOnlyADoubtAboutACommitJustBeforeExcusesAnExitCode(t *testing.T) {
	const (
		rebuilt = `time=2026-01-01T10:00:00.575Z level=WARN msg="the session is rebuilt" app=ledger worker=0 reason="…"` + "\n"
		soon    = `time=2026-01-01T10:00:00.706Z level=INFO msg=draining app=ledger` + "\n"
		late    = `time=2026-01-01T10:00:30.706Z level=INFO msg=draining app=ledger` + "\n"
		doubt   = "error: worker 0: the last transaction did not commit before the shutdown; the next start decides it: context canceled\n"
	)
	for log, want := range map[string]bool{rebuilt + soon + doubt: true, rebuilt + soon: false, rebuilt + late + doubt: false, soon + doubt: false, doubt + rebuilt + soon: false} {
		if inDoubt(log) != want {
			t.Errorf("%v of\n%s", !want, log)
		}
	}
}
