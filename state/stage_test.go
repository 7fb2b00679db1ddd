package state

import (
	"testing"
	"time"

	"github.com/tallystick/tallystick/record"
)

// stage is the least that stores can be declared on.
type stage struct{ specs []*Spec }

func (s *stage) DeclareStore(sp Spec) *Spec {
	sp.Index = len(s.specs)
	s.specs = append(s.specs, &sp)
	return &sp
}

func (s *stage) fingerprint() string {
	return FingerprintText("post", 4, []string{"in", "other"}, s.specs)
}

// task is a view with what a worker does around it.
type task struct {
	stage
	base *Memory
	view *View
	next int64
	log  []Record // the state topic, control records left out
}

func newTask(declare func(*stage)) *task {
	k := &task{}
	declare(&k.stage)
	k.base = NewMemory(k.specs)
	k.view = NewView(k.specs, k.base)
	return k
}

// record begins the next record, at ms.
func (k *task) record(ms int64) {
	k.view.Savepoint(record.Position{Topic: "in", Partition: 3, Offset: k.next}, ms)
	k.next++
}

func (k *task) marker() Marker {
	m, _ := k.base.Marker()
	return Marker{TxnSeq: m.TxnSeq + 1, Partitions: 4, Fingerprint: k.fingerprint(), Writer: "app-i-0",
		Next: []InputNext{{"in", k.next}, {"other", 0}}}
}

func (k *task) seal(t testing.TB) Sealed {
	t.Helper()
	s, err := k.view.Seal(k.marker())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (k *task) commit(t testing.TB) Sealed {
	t.Helper()
	s := k.seal(t)
	kept := make([]Record, 0, len(s.Records))
	for _, r := range s.Records {
		kept = append(kept, cloneRecord(r))
	}
	k.log = append(k.log, kept...)
	if err := k.view.Merge(s, int64(len(k.log))); err != nil {
		t.Fatal(err)
	}
	return Sealed{kept, s.Marker}
}

func cloneRecord(r Record) Record {
	c := Record{append([]byte{}, r.Key...), nil}
	if r.Value != nil {
		c.Value = append([]byte{}, r.Value...)
	}
	return c
}

// restored is a second base, replayed from the log.
func (k *task) restored(t testing.TB) *Memory {
	t.Helper()
	m := NewMemory(k.specs)
	for _, r := range k.log {
		if err := m.Replay(r.Key, r.Value); err != nil {
			t.Fatal(err)
		}
	}
	m.SetPosition(int64(len(k.log)))
	return m
}

func (k *task) noErr(t testing.TB) {
	t.Helper()
	if err := k.view.Err(); err != nil {
		t.Fatal(err)
	}
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }
