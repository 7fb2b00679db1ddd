package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

func TestAResetOfALiveGroupIsRefusedAndNamesItsMembers(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.must(t, "feed", "--generate", "200", "--seed", "1")
	i := d.start(t, "pod-0", "--leave")
	d.awaitLagZero(t)
	for _, args := range [][]string{{"reset", "plan", "--to", "earliest"}, {"reset", "apply", "--to", "earliest", "--yes"}, {"reset", "apply", "--to-marker", "--yes"}} {
		d.run(t, args...).says(t, 1, "group ledger is live", "- pod-0-0 (client processor, host 127.0.0.1)", "processor fence <instance> --force")
	}
	i.stop(t)
	d.run(t, "verify").says(t, 0, "OK")
	d.run(t, "reset", "plan", "--to-marker").says(t, 0, "as it should be", "nothing to do")
}

// A tool moved the group's offset. The job refuses to run, and says what to do; that is done, and it goes on.
func TestAnOffsetThatAToolHasMovedIsPutRight(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.must(t, "feed", "--generate", "300", "--seed", "1")
	d.process(t)
	moved := kadm.Offsets{}
	moved.AddOffset(credits, 0, 0, -1)
	if err := kadm.NewClient(d.client).CommitAllOffsets(t.Context(), app, moved); err != nil {
		t.Fatal(err)
	}
	i := d.start(t, "pod-0", "--leave")
	i.awaitLog(t, "I1: task post/0")
	i.stop(t)
	d.run(t, "reset", "plan", "--to-marker").says(t, 2, "the offset was moved by another tool", "as it should be")
	d.run(t, "reset", "apply", "--to-marker", "--yes").says(t, 0, "done: read back and compared")
	d.must(t, "feed", "--generate", "300", "--seed", "2")
	d.process(t)
	d.run(t, "verify").says(t, 0, "OK")
}

// Retention took input that the job had not read yet. It is named, given up, and the job goes on with its balances.
func TestInputThatWasLostUnreadIsSkippedWithTheStateKept(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.must(t, "feed", "--generate", "300", "--seed", "1")
	d.process(t)
	before := d.count(t, updates)
	d.must(t, "feed", "--generate", "300", "--seed", "2")
	adm := kadm.NewClient(d.client)
	ends, err := adm.ListEndOffsets(t.Context(), credits)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(credits, 1)
	cut := kadm.Offsets{}
	cut.AddOffset(credits, 1, end.Offset-2, -1)
	if _, err := adm.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	i := d.start(t, "pod-0", "--leave")
	i.awaitLog(t, "processor reset plan --skip-lost")
	d.run(t, "reset", "apply", "--skip-lost", "--yes").says(t, 1, "group ledger is live")
	i.stop(t)
	d.run(t, "doctor").says(t, 3, "processor reset plan --skip-lost says what going on without them means")
	plan := d.run(t, "reset", "plan", "--skip-lost")
	plan.says(t, 2, "goes on behind lost offsets ", fmt.Sprintf(" to %d (", end.Offset-3), "of credit-events/1 ARE GIVEN UP FOR GOOD")
	d.run(t, "reset", "apply", "--skip-lost").says(t, 2, "nothing was done: add --yes to do it")
	d.run(t, "reset", "apply", "--skip-lost", "--yes").says(t, 0, "gave up offsets ", "noted in ledger-dead-letters/1", "done: read back and compared")
	i, admin := d.startAsked(t, "pod-0")
	d.awaitLagZero(t)
	if code, said := d.get(t, admin, "/readyz"); code != http.StatusOK {
		t.Errorf("%d %s", code, said)
	}
	d.run(t, "query", "accounts", "--admin", admin, "--limit", "1").says(t, 0, "post/")
	i.Kill()
	d.must(t, "feed", "--generate", "200", "--seed", "3")
	d.process(t) // what it committed behind the gap is proven like anything else
	if after := d.count(t, updates); after <= before {
		t.Errorf("%d updates, %d before", after, before)
	}
	d.run(t, "reset", "plan", "--skip-lost").says(t, 0, "nothing to do")
	d.run(t, "verify").says(t, 5, "UNDECIDED", "partition 1")
}

// Everything is thrown away, by a reset that is killed on its way: nothing runs on what it left, and the next one ends it.
func TestAKilledResetIsFinishedByTheNext(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.must(t, "feed", "--generate", "300", "--seed", "1")
	d.process(t)
	d.run(t, "reset", "plan", "--to", "earliest").says(t, 2, "delete and make again  "+state, "ALL BALANCES AND ALL REMEMBERED EVENT IDS ARE THROWN AWAY", updates+" KEEPS what was written", " again")
	before, err := kafkatest.TopicID(t.Context(), d.client, state)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(d.binary, "reset", "apply", "--to", "earliest", "--yes")
	cmd.Env = d.env
	p, err := kafkatest.Launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	kafkatest.Within(t, 30*time.Second, "the reset deletes the state topic", func(ctx context.Context) error {
		if now, err := kafkatest.TopicID(ctx, d.client, state); err == nil && now == before {
			return errors.New("it is still there")
		}
		return nil
	})
	p.Kill()
	half := d.run(t, "reset", "plan", "--to", "earliest")
	half.says(t, 2, updates+" KEEPS what was written")
	if strings.Contains(half.out, "a reset was begun and not finished") { // else the kill came too late
		i := d.start(t, "pod-0", "--leave")
		i.awaitLog(t, state) // missing, or without a marker
		i.stop(t)
	}
	d.run(t, "reset", "apply", "--to", "earliest", "--yes").says(t, 0, "done: read back and compared")
	d.process(t)
	d.run(t, "verify").says(t, 3, "VIOLATED") // as the plan has said: the updates hold every event twice
	d.run(t, "reset", "plan", "--to-marker").says(t, 0, "nothing to do")
}

// A reset to a time: what lies before it is not processed again.
func TestAResetToATimeStartsThere(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.must(t, "feed", "--generate", "200", "--seed", "1")
	d.process(t)
	between := time.Now().UTC().Add(time.Second).Truncate(time.Second)
	kafkatest.Within(t, 5*time.Second, "the clock passes the moment", func(context.Context) error {
		if time.Now().Before(between) {
			return errors.New("not yet")
		}
		return nil
	})
	d.must(t, "feed", "--generate", "150", "--seed", "2")
	d.run(t, "reset", "apply", "--to", between.Format(time.RFC3339), "--yes").says(t, 0, "done")
	before := d.count(t, updates) + d.count(t, letters) + d.count(t, "ledger-skipped")
	d.process(t)
	if after := d.count(t, updates) + d.count(t, letters) + d.count(t, "ledger-skipped"); after-before != 150 {
		t.Errorf("%d outcomes more, want 150", after-before)
	}
}
