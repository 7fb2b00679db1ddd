package faults

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/topics"
)

// A workload is the records to feed and what a correct ledger makes of them, by an opinion of its own.
type workload struct {
	records  []*kgo.Record
	outcomes map[string]int // records per output topic
	balances []string       // "account balance version" of each account that exists, sorted
}

// outcomeTopic is where the one record that an outcome leaves is found.
func outcomeTopic(o ledger.Outcome) string {
	switch o {
	case ledger.Passed:
		return "ledger-skipped"
	case ledger.DeadLettered:
		return topics.DeadLetters(jobtest.App)
	}
	return "ledger-updates"
}

// judge compares what committed readers see with the workload.
func (w workload) judge(t *testing.T, seeds []string) {
	t.Helper()
	for _, topic := range slices.Sorted(maps.Keys(w.outcomes)) {
		if got := len(read(t, seeds, topic)); got != w.outcomes[topic] {
			t.Errorf("%s: %d records, want %d", topic, got, w.outcomes[topic])
		}
	}
	updates := read(t, seeds, "ledger-updates")
	onePerInput(t, updates)
	got := balances(t, updates)
	if !slices.Equal(got, w.balances) {
		t.Errorf("the balances are not the independent sum: %s", firstDifference(got, w.balances))
	}
	t.Logf("%d balances equal the independent sum; records per topic: %v", len(got), w.outcomes)
}

func read(t *testing.T, seeds []string, topic string) []*kgo.Record {
	t.Helper()
	var all []*kgo.Record
	for p := range int32(partitions) {
		all = append(all, kafkatest.Committed(t, seeds, topic, p)...)
	}
	return all
}

// onePerInput wants each update to name an input of its own.
func onePerInput(t *testing.T, updates []*kgo.Record) {
	t.Helper()
	type position struct {
		Partition int32
		Offset    int64
	}
	first := map[position]*kgo.Record{}
	shown := 0
	for _, r := range updates {
		u := decode(t, r)
		at := position{u.Source.Partition, u.Source.Offset}
		if f, again := first[at]; !again {
			first[at] = r
		} else if shown++; shown <= 10 {
			t.Errorf("input %d/%d has two updates, at %d/%d of %v and at %d/%d of %v:\n%s\n%s", at.Partition, at.Offset,
				f.Partition, f.Offset, f.Timestamp.Format(clock), r.Partition, r.Offset, r.Timestamp.Format(clock), f.Value, r.Value)
		}
	}
}

const clock = "15:04:05.000"

type update struct {
	Account string `json:"account_id"`
	Outcome string
	Balance string
	Version int64
	Source  struct {
		Partition int32
		Offset    int64
	}
}

func decode(t *testing.T, r *kgo.Record) (u update) {
	t.Helper()
	if err := json.Unmarshal(r.Value, &u); err != nil {
		t.Fatalf("%s/%d/%d: %v", r.Topic, r.Partition, r.Offset, err)
	}
	return u
}

// balances takes the last update of each account that exists.
func balances(t *testing.T, updates []*kgo.Record) []string {
	t.Helper()
	last := map[string]string{}
	for _, r := range updates {
		u := decode(t, r)
		if _, known := last[u.Account]; known || u.Outcome == "applied" { // a refusal alone creates no account
			last[u.Account] = u.Account + " " + u.Balance + " " + strconv.FormatInt(u.Version, 10)
		}
	}
	return slices.Sorted(maps.Values(last))
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return "got " + got[i] + ", want " + want[i]
		}
	}
	return strconv.Itoa(len(got)) + " accounts, want " + strconv.Itoa(len(want))
}
