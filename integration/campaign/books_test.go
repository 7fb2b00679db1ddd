package campaign

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/topics"
)

// books are the records that the upstream writes, and what a correct ledger makes of them by an opinion of its own.
type books struct {
	mu       sync.Mutex
	gen      *generate.Generator
	events   int
	outcomes map[string]int // records per output topic
	credits  []*kgo.Record  // the latest that were applied, as a ring
	applied  int            // that went through credits
}

const remembered = 512

func newBooks(t *testing.T, seed uint64) *books {
	t.Helper()
	g, err := generate.New(generate.Config{Events: math.MaxInt, Accounts: 400, Duplicates: 0.08, Conflicts: 0.02, Malformed: 0.01, Refused: 0.03, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return &books{gen: g, outcomes: map[string]int{}}
}

// batch takes the next records of the stream, and changes their order where that changes no outcome.
func (b *books) batch(rng *rand.Rand, n int) []*kgo.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	var records []*kgo.Record
	var credit []bool
	for range n {
		e, _ := b.gen.Next()
		k := &kgo.Record{Topic: input, Key: e.Key, Value: e.Value, Timestamp: jitter(rng)}
		for _, h := range e.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		isCredit := e.Class.Outcome == ledger.Applied && isCredit(e.Value)
		records, credit = append(records, k), append(credit, isCredit)
		b.count(jobtest.OutcomeTopic(e.Class.Outcome))
		if isCredit {
			b.remember(k)
		}
	}
	reorder(rng, records, credit)
	return records
}

// jitter makes the times of records run back and forth by up to ten minutes.
func jitter(rng *rand.Rand) time.Time {
	return time.Now().Add(-time.Duration(rng.Int64N(int64(10 * time.Minute))))
}

// reorder moves records behind others of another account, and swaps neighbours of one account that are both credits.
func reorder(rng *rand.Rand, records []*kgo.Record, credit []bool) {
	for range len(records) {
		i := rng.IntN(len(records) - 1)
		if string(records[i].Key) != string(records[i+1].Key) && records[i].Key != nil && records[i+1].Key != nil || credit[i] && credit[i+1] {
			records[i], records[i+1] = records[i+1], records[i]
			credit[i], credit[i+1] = credit[i+1], credit[i]
		}
	}
}

func (b *books) count(topic string) {
	b.events++
	b.outcomes[topic]++
}

func (b *books) remember(r *kgo.Record) {
	if len(b.credits) < remembered {
		b.credits = append(b.credits, r)
	} else {
		b.credits[b.applied%remembered] = r
	}
	b.applied++
}

// repeats are credits of before, with the same bytes or with other contents under their ids.
func (b *books) repeats(rng *rand.Rand, n int, change bool) []*kgo.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	var records []*kgo.Record
	for len(records) < n {
		r := b.credits[rng.IntN(len(b.credits))]
		topic := jobtest.Skipped
		if change {
			r, topic = otherContent(r), topics.DeadLetters(app)
		}
		records = append(records, &kgo.Record{Topic: input, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: time.Now()})
		b.count(topic)
	}
	return records
}

// garbage is a record of so many bytes that is no event, and ends as a dead letter.
func (b *books) garbage(size int) *kgo.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(topics.DeadLetters(app))
	value := slices.Repeat([]byte("?"), max(1, size))
	return &kgo.Record{Topic: input, Key: []byte(fmt.Sprintf("garbage-%d", b.events)), Value: value, Timestamp: time.Now()}
}

// late is a credit that claims to be written two hours from now: a dead letter, since nobody can say whether its id is new.
func (b *books) late(rng *rand.Rand) *kgo.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(topics.DeadLetters(app))
	r := b.credits[rng.IntN(len(b.credits))]
	return &kgo.Record{Topic: input, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: time.Now().Add(2 * time.Hour)}
}

func isCredit(value []byte) bool {
	var e struct {
		Type   string `json:"type"`
		Amount string `json:"amount"`
	}
	return json.Unmarshal(value, &e) == nil && (e.Type == "" || e.Type == "credit") && e.Amount != ""
}

// otherContent is the same id with another time, nil for what is no event.
func otherContent(r *kgo.Record) *kgo.Record {
	var members map[string]any
	if json.Unmarshal(r.Value, &members) != nil || members["occurred_at"] == nil {
		return nil
	}
	members["occurred_at"] = "2024-02-29T12:00:00Z"
	value, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return &kgo.Record{Topic: r.Topic, Key: r.Key, Value: value, Headers: r.Headers, Timestamp: r.Timestamp}
}

// balances is the independent sum.
func (b *books) balances() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return jobtest.Lines(b.gen.Balances())
}

// judge compares what committed readers see with the books. The upstream has ended.
func (b *books) judge(t *testing.T, seeds []string) {
	t.Helper()
	jobtest.Books{Outcomes: b.outcomes, Balances: b.balances()}.Judge(t, seeds, partitions)
}
