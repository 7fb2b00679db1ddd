package campaign

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// judge compares what committed readers see with the books.
func (b *books) judge(t *testing.T, seeds []string) {
	t.Helper()
	var updates []*kgo.Record
	for _, topic := range slices.Sorted(maps.Keys(b.outcomes)) {
		records := read(t, seeds, topic)
		if len(records) != b.outcomes[topic] {
			t.Errorf("%s: %d records, want %d", topic, len(records), b.outcomes[topic])
		}
		if topic == updatesTopic {
			updates = records
		}
	}
	got, want := balances(t, updates), b.balances()
	if !slices.Equal(got, want) {
		t.Errorf("the balances are not the independent sum: %s", firstDifference(got, want))
	}
	t.Logf("%d balances equal the independent sum; records per topic: %v", len(got), b.outcomes)
}

func read(t *testing.T, seeds []string, topic string) []*kgo.Record {
	t.Helper()
	var all []*kgo.Record
	for p := range int32(partitions) {
		all = append(all, kafkatest.Committed(t, seeds, topic, p)...)
	}
	return all
}

// balances takes the last update of each account that exists: "account balance version".
func balances(t *testing.T, updates []*kgo.Record) []string {
	t.Helper()
	last := map[string]string{}
	for _, r := range updates {
		var u struct {
			Account string `json:"account_id"`
			Outcome string
			Balance string
			Version int64
		}
		if err := json.Unmarshal(r.Value, &u); err != nil {
			t.Fatalf("%s/%d/%d: %v", r.Topic, r.Partition, r.Offset, err)
		}
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
