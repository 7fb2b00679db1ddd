package operator

import (
	"context"
	"errors"
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
