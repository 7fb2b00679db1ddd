package topology_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// bench is one task of the ledger on an in-memory base, fed record by record. Its topic has one partition.
type bench struct {
	t      testing.TB
	task   *pipeline.Task
	base   *state.Memory
	clock  time.Time
	offset int64
	sealed int64
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newBench(t testing.TB, cfg topology.Config, limits pipeline.Limits) *bench {
	t.Helper()
	p := topology.Ledger("bank", cfg)
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	s := p.Stages()[0]
	base := state.NewMemory(s.Stores())
	return &bench{t: t, task: pipeline.NewTask(s, 0, 1, base, limits), base: base, clock: noon}
}

// message is an input record; at zero is the clock's time.
type message struct {
	key, value []byte
	headers    []record.Header
	at         time.Time
}

func credit(members string) message {
	return message{key: []byte("ACC-7"), value: []byte(`{"event_id":"EVT-1","account_id":"ACC-7",` + members + `}`)}
}

// send processes one record and returns what it produced, which must be exactly one record.
func (b *bench) send(m message) pipeline.Out {
	b.t.Helper()
	if m.at.IsZero() {
		m.at = b.clock
	}
	in := &pipeline.Input{
		Position: record.Position{Topic: "credit-events", Partition: 0, Offset: b.offset},
		Key:      m.key, Value: m.value, Headers: m.headers, Timestamp: m.at.UnixMilli(), Clock: b.clock.UnixMilli(),
	}
	b.offset++
	out, err := b.task.Process(in)
	if err != nil {
		b.t.Fatalf("%s: %v", m.value, err)
	}
	if len(out) != 1 {
		b.t.Fatalf("rule 8: %.200s has %d outcomes", m.value, len(out))
	}
	return out[0]
}

// commit merges the open transaction, as after a proven commit.
func (b *bench) commit() {
	b.t.Helper()
	sealed, err := b.task.Seal("test")
	if err != nil {
		b.t.Fatal(err)
	}
	b.sealed += int64(len(sealed.Records))
	if err := b.task.Merge(sealed, b.sealed); err != nil {
		b.t.Fatal(err)
	}
}

// reason is that of a dead letter, "" of any other record.
func reason(out pipeline.Out) ledger.Reason { return ledger.Reason(header(out, pipeline.HeaderReason)) }

func header(out pipeline.Out, key string) string {
	for _, h := range out.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func headers(pairs ...string) (hs []record.Header) {
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, record.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return hs
}

func update(t testing.TB, out pipeline.Out) ledger.Update {
	t.Helper()
	u, err := topology.Updates.Value.Decode(out.Value)
	if err != nil || out.Topic != "ledger-updates" || string(out.Key) != u.AccountID {
		t.Fatalf("%s %s: %s: %v", out.Topic, out.Key, out.Value, err)
	}
	return u
}

const good = `"amount":"5.00","currency":"INR","occurred_at":"2026-11-30T10:00:00Z"`

func replace(old, new string) message { return credit(strings.Replace(good, old, new, 1)) }
