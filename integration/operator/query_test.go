package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

var adminAddr = regexp.MustCompile(`msg="admin port" addr=(\S+)`)

// admin is the address of an instance's admin port.
func (i *instance) admin(t *testing.T) string {
	t.Helper()
	i.awaitLog(t, `msg="admin port"`)
	return adminAddr.FindStringSubmatch(i.said())[1]
}

// startAsked starts an instance that can be asked.
func (d *desk) startAsked(t *testing.T, name string) (*instance, string) {
	t.Helper()
	i := d.start(t, name, "--admin-listen", "127.0.0.1:0", "--num-stream-threads", "1")
	return i, i.admin(t)
}

// storedRow is what a script reads of query.
type storedRow struct {
	Key     string
	Value   struct{ Balance string }
	Task    string
	TxnSeq  uint64 `json:"txn_seq"`
	Applied []struct {
		Topic string
		Next  int64
	}
}

// accounts lists all that an instance has.
func (d *desk) accounts(t *testing.T, admin string) (all []storedRow) {
	t.Helper()
	r := d.must(t, "query", "accounts", "--admin", admin, "-o", "json", "--limit", "10000")
	if err := json.Unmarshal([]byte(r.out), &all); err != nil || len(all) == 0 {
		t.Fatalf("%d accounts: %v", len(all), err)
	}
	return all
}

// Each key is answered by the instance that owns it, and the other one says who that is.
func TestQueryNamesTheInstanceThatOwnsAKey(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	one, admin1 := d.startAsked(t, "pod-1")
	d.must(t, "feed", "--generate", "300", "--seed", "3")
	d.awaitLagZero(t)
	all := d.accounts(t, admin1)
	d.run(t, "query", "--admin", admin1).says(t, 0, "accounts", "inbox", "4 of 4")
	d.run(t, "query", "accounts", all[0].Key, "--admin", admin1).says(t, 0, all[0].Value.Balance, "task   "+all[0].Task, "credit-events applied below ")
	d.run(t, "query", "accounts", "nobody", "--admin", admin1).says(t, 4, `has no key "nobody" (it would be in task post/`)
	id := d.anEventID(t)
	d.run(t, "query", "inbox", id, "--admin", admin1).says(t, 0, "first seen  credit-events/")

	_, admin2 := d.startAsked(t, "pod-2")
	tasksOf(t, d, admin1, "2 of 4")
	tasksOf(t, d, admin2, "2 of 4")
	shares, asked := map[string]int{}, map[string]bool{}
	for _, a := range all {
		if asked[a.Task] {
			continue
		}
		asked[a.Task] = true
		here, there := d.run(t, "query", "accounts", a.Key, "--admin", admin1), d.run(t, "query", "accounts", a.Key, "--admin", admin2)
		owner, stranger, name := here, there, "pod-1"
		if here.code != 0 {
			owner, stranger, name = there, here, "pod-2"
		}
		owner.says(t, 0, a.Value.Balance)
		stranger.says(t, 4, fmt.Sprintf(`task %s is owned by instance %q at `, a.Task, name), "hint: run processor query on that instance's machine")
		shares[name]++
	}
	if shares["pod-1"] != 2 || shares["pod-2"] != 2 {
		t.Errorf("tasks by owner: %v", shares)
	}
	d.run(t, "query", "accounts", "--admin", admin1, "-n", "1000").says(t, 0, "left out: task post/", `is owned by instance "pod-2"`)
	if r := d.run(t, "query", "inbox", "never-seen", "--admin", admin1); r.code != 4 || strings.Count(r.errs, `is owned by instance "pod-2"`) != 2 {
		t.Errorf("an id that could be in another's task: %v", r)
	}
	one.Kill()
	d.run(t, "query", "accounts", all[0].Key, "--admin", admin1).says(t, 5, "no processor answers at", "hint: query asks the processor on this machine")
}

// tasksOf waits until an instance has a share of the tasks.
func tasksOf(t *testing.T, d *desk, admin, share string) {
	t.Helper()
	d.awaitAnswer(t, 0, share, "query", "--admin", admin)
}

// awaitAnswer repeats a command, without a word in the log, until it ends with the code and says a text.
func (d *desk) awaitAnswer(t *testing.T, code int, text string, args ...string) {
	t.Helper()
	kafkatest.Within(t, 40*time.Second, "the answer "+text, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, d.binary, args...)
		cmd.Env = d.env
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), text) {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// anEventID is the id of an event that was applied.
func (d *desk) anEventID(t *testing.T) string {
	t.Helper()
	var update struct {
		EventID string `json:"event_id"`
	}
	if err := json.Unmarshal([]byte(d.must(t, "tail", updates, "--to-end", "-n", "1", "-f", "%v\n").out), &update); err != nil {
		t.Fatal(err)
	}
	return update.EventID
}

// A task that is being restored is asked for: how far it is, and then the answer.
func TestQueryDuringARestoreSaysHowFarItIs(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	first, admin := d.startAsked(t, "pod-1")
	d.must(t, "feed", "--generate", "300", "--seed", "3")
	d.awaitLagZero(t)
	row := d.accounts(t, admin)[0]
	var partition int32
	if _, err := fmt.Sscanf(row.Task, "post/%d", &partition); err != nil {
		t.Fatal(err)
	}
	release := d.hold(t, state, partition) // nothing that is committed behind it can be read until it ends
	d.must(t, "feed", "--generate", "300", "--seed", "4")
	d.awaitLagZero(t)
	d.run(t, "query", "accounts", row.Key, "--admin", admin).says(t, 0, "as of  transaction ") // a running task is not held up
	first.stop(t)

	again, admin := d.startAsked(t, "pod-1")
	d.awaitAnswer(t, 5, "it is being restored: ", "query", "accounts", row.Key, "--admin", admin)
	d.run(t, "query", "accounts", row.Key, "--admin", admin).says(t, 5, fmt.Sprintf("task %s: it is being restored: ", row.Task), " records, ", "% (offset ", "hint: try again")
	d.awaitAnswer(t, 5, "the log says what holds it up", "query", "accounts", row.Key, "--admin", admin)
	again.awaitLog(t, "restore waits for an open transaction")
	d.run(t, "query", "accounts", "--admin", admin).says(t, 5, "the answer is not complete: task "+row.Task) // and what the others have
	release()
	again.awaitLog(t, "msg=\"task restored\" app=ledger worker=0 task="+row.Task)
	d.awaitAnswer(t, 0, row.Key, "query", "accounts", row.Key, "--admin", admin)
	again.stop(t)
	d.run(t, "verify").says(t, 0, "OK")
}

// hold leaves a stranger's transaction open in a partition until release is called.
func (d *desk) hold(t *testing.T, topic string, partition int32) (release func()) {
	t.Helper()
	cl := kafkatest.Client(t, d.Seeds(), kgo.TransactionalID("stranger"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Key: []byte("\x08accountsnobody"), Value: []byte("{}")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
}
