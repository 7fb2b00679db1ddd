package jobtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/topics"
)

const (
	// Updates is the topic of the ledger's outcomes that change an account or refuse to.
	Updates = "ledger-updates"
	// Skipped is the topic of the events that were applied before.
	Skipped = "ledger-skipped"
)

// Books are what a correct ledger makes of the records that were fed, by an opinion of its own.
type Books struct {
	// Outcomes is the number of records per output topic.
	Outcomes map[string]int
	// Balances are the accounts that exist, as Lines has them.
	Balances []string
}

// OutcomeTopic is where the one record that an outcome leaves is found.
func OutcomeTopic(o ledger.Outcome) string {
	switch o {
	case ledger.Passed:
		return Skipped
	case ledger.DeadLettered:
		return topics.DeadLetters(App)
	}
	return Updates
}

// Lines are balances as "account balance version", sorted.
func Lines(all []generate.Balance) []string {
	lines := make([]string, len(all))
	for i, b := range all {
		lines[i] = line(b.Account, b.Balance, b.Version)
	}
	slices.Sort(lines)
	return lines
}

func line(account, balance string, version int64) string {
	return account + " " + balance + " " + strconv.FormatInt(version, 10)
}

// Judge compares what committed readers see with the books.
func (b Books) Judge(t testing.TB, seeds []string, partitions int32) {
	t.Helper()
	seen := map[string][]*kgo.Record{}
	for topic := range b.Outcomes {
		for p := range partitions {
			seen[topic] = append(seen[topic], kafkatest.Committed(t, seeds, topic, p)...)
		}
	}
	for _, wrong := range b.compare(seen) {
		t.Error(wrong)
	}
	t.Logf("%d balances are expected; records per topic: %v", len(b.Balances), b.Outcomes)
}

// compare says what is wrong with the records of each topic, in the order of their partitions and offsets.
func (b Books) compare(seen map[string][]*kgo.Record) (wrong []string) {
	for _, topic := range slices.Sorted(maps.Keys(b.Outcomes)) {
		if got := len(seen[topic]); got != b.Outcomes[topic] {
			wrong = append(wrong, fmt.Sprintf("%s: %d records, want %d", topic, got, b.Outcomes[topic]))
		}
	}
	updates := make([]update, len(seen[Updates]))
	for i, r := range seen[Updates] {
		updates[i].record = r
		if err := json.Unmarshal(r.Value, &updates[i]); err != nil {
			return append(wrong, fmt.Sprintf("%s/%d/%d: %v", r.Topic, r.Partition, r.Offset, err))
		}
	}
	wrong = append(wrong, onePerInput(updates)...)
	if got := balances(updates); !slices.Equal(got, b.Balances) {
		wrong = append(wrong, "the balances are not the independent sum: "+firstDifference(got, b.Balances))
	}
	return wrong
}

// An update is what the judge reads of a record of Updates.
type update struct {
	Account string `json:"account_id"`
	Outcome string
	Balance string
	Version int64
	Source  position

	record *kgo.Record
}

type position struct {
	Partition int32
	Offset    int64
}

// shownAtMost is how many inputs with two updates are shown.
const shownAtMost = 10

// onePerInput wants each update to name an input of its own.
func onePerInput(updates []update) (wrong []string) {
	first := map[position]*kgo.Record{}
	for _, u := range updates {
		r, f := u.record, cmp.Or(first[u.Source], u.record)
		first[u.Source] = f
		if f != r && len(wrong) < shownAtMost {
			wrong = append(wrong, fmt.Sprintf("input %d/%d has two updates, at %d/%d of %v and at %d/%d of %v:\n%s\n%s", u.Source.Partition, u.Source.Offset,
				f.Partition, f.Offset, f.Timestamp.Format(clock), r.Partition, r.Offset, r.Timestamp.Format(clock), f.Value, r.Value))
		}
	}
	return wrong
}

const clock = "15:04:05.000"

// balances takes the last update of each account that exists.
func balances(updates []update) []string {
	last := map[string]string{}
	for _, u := range updates {
		if _, known := last[u.Account]; known || u.Outcome == "applied" { // a refusal alone creates no account
			last[u.Account] = line(u.Account, u.Balance, u.Version)
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
