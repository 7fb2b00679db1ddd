package containers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/topics"
)

const (
	partitions   = 3
	events       = 5000
	changed      = 2 // exit code of a plan with something to create
	processLimit = time.Minute
)

// TestTheCommandRunsOnKafkaInAContainer goes the way of a first-time user from an empty broker to a verified ledger.
func TestTheCommandRunsOnKafkaInAContainer(t *testing.T) {
	c := buildCommand(t, startKafka(t))
	if plan := c.run(t, changed, "topics", "plan"); !strings.Contains(plan, "create") {
		t.Errorf("topics plan on an empty broker offers nothing to create:\n%s", plan)
	}
	c.run(t, 0, "topics", "apply", "--partitions", fmt.Sprint(partitions))
	c.run(t, 0, "topics", "plan")
	c.run(t, 0, "feed", "--generate", fmt.Sprint(events), "--duplicates", "5%", "--malformed", "1%", "--refused", "1%", "--seed", "7")
	j := c.start(t)
	begin := time.Now()
	awaitEnd(t, c, j)
	t.Logf("%d events processed after %v", events, time.Since(begin).Round(time.Millisecond))
	j.drain(t)
	judge(t, c)
	t.Logf("verify:\n%s", c.run(t, 0, "verify"))
}

// awaitEnd waits until lag says that everything in the input is committed.
func awaitEnd(t *testing.T, c command, j job) {
	t.Helper()
	kafkatest.Within(t, processLimit, "the whole input is committed", func(context.Context) error {
		j.running(t)
		var rows []struct {
			Task  string
			State string
			Lag   *int64
		}
		if err := json.Unmarshal([]byte(c.run(t, 0, "lag", "-o", "json")), &rows); err != nil {
			return err
		}
		if len(rows) != partitions {
			return fmt.Errorf("lag prints %d tasks, want %d", len(rows), partitions)
		}
		for _, r := range rows {
			if r.State != "running" || r.Lag == nil || *r.Lag != 0 {
				return fmt.Errorf("%s is %s, not at its end", r.Task, r.State)
			}
		}
		return nil
	})
}

// judge compares what tail shows with the generator's own opinion of its workload.
func judge(t *testing.T, c command) {
	t.Helper()
	g, err := generate.New(generate.Config{Events: events, Accounts: 1000, Duplicates: 0.05, Malformed: 0.01, Refused: 0.01, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for e := range g.All() {
		want[outcomeTopic(e.Class.Outcome)]++
	}
	for _, topic := range slices.Sorted(maps.Keys(want)) {
		if got := len(tail(t, c, topic)); got != want[topic] {
			t.Errorf("%s has %d records, want %d", topic, got, want[topic])
		}
	}
	balances := map[string]string{}
	for _, b := range g.Balances() {
		balances[b.Account] = b.Balance
	}
	if got := lastBalances(t, c); !maps.Equal(got, balances) {
		t.Errorf("%d balances by the updates, %d by the generator, and they differ", len(got), len(balances))
	}
}

func outcomeTopic(o ledger.Outcome) string {
	switch o {
	case ledger.Passed:
		return string(ledger.ToSkipped)
	case ledger.DeadLettered:
		return topics.DeadLetters("ledger")
	}
	return string(ledger.ToUpdates)
}

// lastBalances takes the last update of each account that exists: a refusal alone opens none.
func lastBalances(t *testing.T, c command) map[string]string {
	t.Helper()
	last := map[string]string{}
	for _, value := range tail(t, c, string(ledger.ToUpdates)) {
		var u struct {
			Account string `json:"account_id"`
			Outcome string
			Balance string
		}
		if err := json.Unmarshal([]byte(value), &u); err != nil {
			t.Fatal(err)
		}
		if _, known := last[u.Account]; known || u.Outcome == "applied" {
			last[u.Account] = u.Balance
		}
	}
	return last
}

// tail returns the values of a topic.
func tail(t *testing.T, c command, topic string) (values []string) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(c.run(t, 0, "tail", topic, "--to-end", "-o", "jsonl")))
	for lines.Scan() {
		var r struct{ Value any }
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		text, _ := r.Value.(string) // a dead letter's may be null, or no text
		values = append(values, text)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}
