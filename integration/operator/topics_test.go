package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// Somebody has added partitions to the input: keys have moved, their state has not.
func TestAWrongPartitionCountIsRefusedWithTheWayOut(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.must(t, "feed", "--generate", "200", "--seed", "1")
	d.process(t)
	d.partitions(t, credits, 6)
	d.run(t, "topics", "plan").says(t, 1, "refuse", "partitions")
	r := d.run(t, "run", "--group-instance-id", "pod-0", "--state-dir", d.dir)
	r.says(t, 1, "partitions")
	// The way out: the dead letters get as many partitions, and the state is thrown away and made again for six.
	d.run(t, "reset", "plan", "--to", "latest").says(t, 1, "the reset is refused", "kafka-topics.sh --alter --topic ledger-dead-letters --partitions 6")
	d.partitions(t, letters, 6)
	d.run(t, "reset", "apply", "--to", "latest", "--yes").says(t, 0, "done")
	before := d.count(t, updates)
	d.must(t, "feed", "--generate", "200", "--seed", "2")
	d.process(t)
	if after := d.count(t, updates); after != before+200 {
		t.Errorf("%d updates, %d before", after, before)
	}
}

// The same while it runs: it says so within seconds, and not only when its client looks at the topic again (5 min).
func TestPartitionsThatAreAddedWhileItRunsAreReported(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.must(t, "feed", "--generate", "200", "--seed", "1")
	i, admin := d.startAsked(t, "pod-0")
	d.awaitLagZero(t)
	if code, said := d.get(t, admin, "/readyz"); code != http.StatusOK {
		t.Fatalf("%d %s", code, said)
	}
	d.partitions(t, credits, 6)
	const cause = "topic credit-events has 6 partitions, and had 4 when this processor started"
	kafkatest.Within(t, 30*time.Second, "it is not ready", func(context.Context) error {
		if code, said := d.get(t, admin, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(said, cause) || !strings.Contains(said, "stop the producers") {
			return fmt.Errorf("%d %s", code, said)
		}
		return nil
	})
	if code, said := d.get(t, admin, "/status"); code != http.StatusOK || !strings.Contains(said, `"grown_inputs"`) {
		t.Errorf("%d %s", code, said)
	}
	if code, said := d.get(t, admin, "/livez"); code != http.StatusOK {
		t.Errorf("%d %s: a restart would not start again", code, said)
	}
	if said := i.said(); strings.Count(said, cause) != 1 {
		t.Errorf("the log has to say it once:\n%s", said)
	}
}

// get asks an admin port.
func (d *desk) get(t *testing.T, admin, path string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// partitions raises the number of partitions of a topic.
func (d *desk) partitions(t *testing.T, topic string, n int) {
	t.Helper()
	resp, err := kadm.NewClient(d.client).UpdatePartitions(t.Context(), n, topic)
	if err := errors.Join(err, resp.Error()); err != nil {
		t.Fatal(err)
	}
	kafkatest.Within(t, 20*time.Second, "the brokers know the partitions", func(ctx context.Context) error {
		m, err := kadm.NewClient(d.client).Metadata(ctx, topic)
		if err != nil || len(m.Topics[topic].Partitions) != n {
			return errors.Join(err, errors.New("not yet"))
		}
		return nil
	})
}

// A compacted input loses events: run refuses, and the plan says what to change.
func TestACompactedInputIsRefused(t *testing.T) {
	d := newEmptyDesk(t, kafkatest.Options{})
	kafkatest.CreateTopic(t, d.client, credits, 4, "cleanup.policy", "compact")
	d.run(t, "topics", "plan").says(t, 1, "refuse", credits+": cleanup.policy: ")
	d.run(t, "topics", "apply").says(t, 1, "nothing was created")
	d.run(t, "run", "--group-instance-id", "pod-0", "--state-dir", d.dir).says(t, 1, credits+": cleanup.policy: ", "kafka-configs.sh --alter --topic credit-events")
}

// What retention took before the job read it is lost, and lag and the task say so; a truncated input is ahead of its end.
func TestLagSaysWhatIsWrongInItsWords(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	d.run(t, "lag").says(t, 0, "not started: 0")
	d.must(t, "feed", "--generate", "400", "--seed", "1")
	d.process(t)
	d.must(t, "feed", "--generate", "400", "--seed", "2")
	adm := kadm.NewClient(d.client)
	ends, err := adm.ListEndOffsets(t.Context(), credits)
	if err != nil {
		t.Fatal(err)
	}
	cut := kadm.Offsets{}
	last, _ := ends.Lookup(credits, 1)
	cut.AddOffset(credits, 1, last.Offset, -1)
	if _, err := adm.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	ahead := kadm.Offsets{}
	ahead.AddOffset(credits, 3, 1_000_000, -1)
	if err := adm.CommitAllOffsets(t.Context(), app, ahead); err != nil {
		t.Fatal(err)
	}
	r := d.run(t, "lag")
	r.says(t, 0, "lost by retention: ", "ahead of the end: topic changed")
	i := d.start(t, "pod-0", "--leave")
	i.awaitLog(t, "I4: task post/1")
	i.awaitLog(t, "I1: task post/3")
	i.stop(t)
	if strings.Contains(r.out, "unknown") {
		t.Errorf("something is unknown:\n%v", r)
	}
}
