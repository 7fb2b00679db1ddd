package operator

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/pipeline"
)

// redriveRow is what a script reads of dlq redrive.
type redriveRow struct{ Position, Action, To, Why string }

// letterRow is what a script reads of dlq list --each.
type letterRow struct{ Position, Reason, Source string }

// A producer with the wrong partitioner, found out, and what it sent put right.
func TestADeadLetterIsRedrivenAfterTheFixAndAppliedOnce(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.must(t, "feed", "--generate", "300", "--seed", "5")
	at := (pipeline.Murmur2.Partition([]byte("acc"), 4) + 1) % 4
	sent := &kgo.Record{Topic: credits, Partition: at, Key: []byte("acc"), Value: event("E-1", "acc"),
		Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("t-1")}, {Key: "trace", Value: nil}}}
	d.produce(t, sent)
	i := d.start(t, "pod-0", "--leave")
	d.awaitLagZero(t)
	d.run(t, "dlq", "list").says(t, 0, "wrong_partition", "fix the producer's partitioner")
	all := rows[letterRow](t, d, 0, "dlq", "list", "--each", "--reason", "wrong_partition")
	if len(all) != 1 || all[0].Source != fmt.Sprintf("credit-events/%d/%d", at, sent.Offset) {
		t.Fatalf("%+v", all)
	}
	d.run(t, "dlq", "show", all[0].Position).says(t, 0, "wrong_partition", "still there", "trace=t-1", "trace=null", `"event_id":"E-1"`, "redriven     no")
	before := d.count(t, updates)
	d.run(t, "dlq", "redrive", "--reason", "wrong_partition").says(t, 2, "redrive", "nothing was done: add --yes to do it")
	if got := rows[redriveRow](t, d, 0, "dlq", "redrive", "--reason", "wrong_partition", "--yes"); got[0].Action != "redriven" {
		t.Fatalf("%+v", got)
	}
	d.awaitLagZero(t)
	i.stop(t)
	if got := rows[redriveRow](t, d, 0, "dlq", "redrive", "--all", "--yes"); got[0].Action != "already" || !strings.Contains(got[0].Why, "by teller@") {
		t.Errorf("%+v", got)
	}
	d.process(t)
	out := d.must(t, "tail", updates, "--to-end", "-o", "jsonl").out
	if n := strings.Count(out, "\n"); n != before+1 || strings.Count(out, `\"event_id\":\"E-1\"`) != 1 || !strings.Contains(out, fmt.Sprintf(`\"redrive_of\":{\"topic\":\"credit-events\",\"partition\":%d,\"offset\":%d}`, at, sent.Offset)) {
		t.Errorf("%d updates, %d before", n, before)
	}
	d.run(t, "dlq", "show", all[0].Position).says(t, 0, " as credit-events/", "by teller@")
	d.run(t, "verify").says(t, 0, "OK: every event has exactly one outcome")
}

// deadLetters makes n letters on a stopped job: events on the partition of another key.
func (d *desk) deadLetters(t *testing.T, n int) {
	t.Helper()
	d.must(t, "feed", "--generate", "400", "--seed", "6") // else the task would stop: nothing but strays
	d.process(t)
	batch := make([]*kgo.Record, n)
	for i := range batch {
		account := fmt.Sprintf("acc-%d", i)
		batch[i] = &kgo.Record{Topic: credits, Partition: (pipeline.Murmur2.Partition([]byte(account), 4) + 1) % 4, Key: []byte(account), Value: event("R-"+account, account)}
	}
	d.produce(t, batch...)
	d.process(t)
	if got := rows[letterRow](t, d, 0, "dlq", "list", "--each", "--limit", "0", "--reason", "wrong_partition"); len(got) != n {
		t.Fatalf("%d dead letters, want %d", len(got), n)
	}
}

// appliedOnce processes what was redriven, and wants every letter applied once.
func (d *desk) appliedOnce(t *testing.T, n int) {
	t.Helper()
	d.process(t)
	out := d.must(t, "tail", updates, "--to-end", "-o", "jsonl").out
	if got := strings.Count(out, `\"redrive_of\":`); got != n {
		t.Errorf("%d redriven events were applied, want %d", got, n)
	}
	if again := strings.Count(d.must(t, "tail", credits, "--to-end", "-o", "jsonl").out, `"redrive.source"`); again != n {
		t.Errorf("%d records were redriven, want %d", again, n)
	}
	d.run(t, "verify").says(t, 0, "OK: every event has exactly one outcome")
}

func TestTwoOperatorsAtOnceRedriveEachLetterOnce(t *testing.T) {
	const n = 1500
	d := newDesk(t, kafkatest.Options{})
	d.deadLetters(t, n)
	var results [2]result
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i] = d.quietly(t, "dlq", "redrive", "--reason", "wrong_partition", "--yes") })
	}
	wg.Wait()
	for _, r := range results {
		if r.code == 0 {
			continue
		}
		if r.code != 1 && r.code != 5 || !strings.Contains(r.errs, "run the same command again") {
			t.Errorf("%v", r)
		}
	}
	d.must(t, "dlq", "redrive", "--reason", "wrong_partition", "--yes")
	d.appliedOnce(t, n)
}

// quietly is run for other goroutines: it fails nothing.
func (d *desk) quietly(t *testing.T, args ...string) result {
	cmd := exec.CommandContext(t.Context(), d.binary, args...)
	cmd.Env = d.env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		return result{errs: err.Error(), code: -1}
	}
	return result{out: string(out), errs: errs.String(), code: cmd.ProcessState.ExitCode()}
}

func TestARedriveThatIsKilledIsFinishedByTheNext(t *testing.T) {
	const n = 1500
	d := newDesk(t, kafkatest.Options{})
	d.deadLetters(t, n)
	_, end := d.ends(t, credits)
	cmd := exec.Command(d.binary, "dlq", "redrive", "--all", "--yes")
	cmd.Env = d.env
	p, err := kafkatest.Launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	kafkatest.Within(t, 30*time.Second, "the redrive writes", func(ctx context.Context) error {
		if _, now := d.ends(t, credits); now == end {
			return errors.New("not yet")
		}
		return nil
	})
	p.Kill()
	stable, now := d.ends(t, credits)
	t.Logf("killed after %d of %d, %d of them in an open transaction", now-end, n, now-stable)
	r := d.run(t, "dlq", "redrive", "--all", "--yes")
	r.says(t, 0, fmt.Sprintf("chosen: %d dead letters: 0 to redrive", n))
	d.appliedOnce(t, n)
}

// ends are the sums over a topic's partitions: of the last stable offsets, and of the high watermarks.
func (d *desk) ends(t *testing.T, topic string) (stable, high int64) {
	t.Helper()
	for p := range int32(4) {
		s, h, err := kafkatest.Ends(t.Context(), d.client, topic, p)
		if err != nil {
			t.Fatal(err)
		}
		stable, high = stable+s, high+h
	}
	return stable, high
}
