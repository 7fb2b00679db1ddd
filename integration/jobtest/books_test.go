package jobtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/generate"
)

func updated(offset int64, account, outcome, balance string, version, source int64) *kgo.Record {
	return &kgo.Record{Topic: Updates, Offset: offset, Value: fmt.Appendf(nil,
		`{"account_id":%q,"outcome":%q,"balance":%q,"version":%d,"source":{"topic":"credit-events","partition":0,"offset":%d}}`, account, outcome, balance, version, source)}
}

// Each way in which an output can differ from the books is named, and nothing else is.
func TestTheBooksNameWhatIsWrongWithTheOutput(t *testing.T) {
	b := Books{Outcomes: map[string]int{Updates: 4, Skipped: 1}, Balances: Lines([]generate.Balance{{Account: "B", Balance: "1.00", Version: 1}, {Account: "A", Balance: "3.00", Version: 2}})}
	right := map[string][]*kgo.Record{
		Updates: {updated(0, "A", "applied", "1.00", 1, 10), updated(1, "A", "applied", "3.00", 2, 11), updated(2, "B", "applied", "1.00", 1, 12), updated(3, "C", "rejected", "0.00", 0, 13)},
		Skipped: {{Topic: Skipped}},
	}
	for name, c := range map[string]struct {
		change func(seen map[string][]*kgo.Record)
		want   []string
	}{
		"right":              {func(map[string][]*kgo.Record) {}, nil},
		"a skipped too many": {func(s map[string][]*kgo.Record) { s[Skipped] = slices.Repeat(s[Skipped], 2) }, []string{"ledger-skipped: 2 records, want 1"}},
		"no skipped":         {func(s map[string][]*kgo.Record) { delete(s, Skipped) }, []string{"ledger-skipped: 0 records, want 1"}},
		// The counts are right and the balances too: only the inputs tell that one is there twice and another not at all.
		"an input twice": {func(s map[string][]*kgo.Record) { s[Updates][3] = updated(3, "B", "rejected", "1.00", 1, 12) }, []string{"input 0/12 has two updates, at 0/2"}},
		"a wrong balance": {func(s map[string][]*kgo.Record) { s[Updates][1] = updated(1, "A", "applied", "2.00", 2, 11) },
			[]string{"the balances are not the independent sum: got A 2.00 2, want A 3.00 2"}},
		"a wrong version": {func(s map[string][]*kgo.Record) { s[Updates][1] = updated(1, "A", "applied", "3.00", 3, 11) },
			[]string{"the balances are not the independent sum: got A 3.00 3, want A 3.00 2"}},
		"an account of nobody": {func(s map[string][]*kgo.Record) { s[Updates][3] = updated(3, "C", "applied", "0.00", 1, 13) },
			[]string{"the balances are not the independent sum: 3 accounts, want 2"}},
		"no JSON": {func(s map[string][]*kgo.Record) { s[Updates][2].Value = []byte("?") }, []string{"ledger-updates/0/2: "}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string][]*kgo.Record{}
			for topic := range maps.Keys(right) {
				for _, r := range right[topic] {
					other := *r
					seen[topic] = append(seen[topic], &other)
				}
			}
			c.change(seen)
			got := b.compare(seen)
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestEachOutcomeHasItsTopic(t *testing.T) {
	for o, want := range map[ledger.Outcome]string{ledger.Applied: Updates, ledger.Passed: Skipped, ledger.DeadLettered: "ledger-dead-letters"} {
		if got := OutcomeTopic(o); got != want {
			t.Errorf("%v is in %s, want %s", o, got, want)
		}
	}
}
