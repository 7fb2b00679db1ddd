package verify

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The decoders read what anyone may have written: they never panic, and what they accept is in bounds.

func FuzzEvent(f *testing.F) {
	for _, value := range []string{good, "", "{", `{"amount":1}`, `{"a":{"b":1,"b":2}}`, with("1.50", "-0"), "\xff"} {
		f.Add([]byte("a"), []byte(value), "ce_id", []byte("x"))
	}
	var r eventReader
	var h hasher
	f.Fuzz(func(t *testing.T, key, value []byte, header string, content []byte) {
		e, bad := r.read(&kgo.Record{Key: key, Value: value, Headers: []kgo.RecordHeader{{Key: header, Value: content}, {Key: "ce_source", Value: content}}})
		if bad != 0 {
			return
		}
		h.identity(&e)
		h.content(&e)
		if !e.amount.inRange() || e.kind == noKind || len(e.id) == 0 || string(e.account) != string(key) {
			t.Errorf("%+v", e)
		}
	})
}

func FuzzOutcome(f *testing.F) {
	w := ordinary()
	for l, topic := range []string{w.topics.Updates, w.topics.Skipped} {
		for _, r := range w.logs[topic][0] {
			f.Add(uint8(l), r.Value)
		}
	}
	var r outcomeReader
	f.Fuzz(func(t *testing.T, l uint8, value []byte) {
		o := r.read(lane(l%2), &kgo.Record{Value: value})
		if o.fault == "" && (o.source.offset < 0 || o.source.partition < 0 || o.update.version < 0 || !o.update.balance.inRange()) {
			t.Errorf("%+v", o)
		}
	})
}

func FuzzLetter(f *testing.F) {
	f.Add(headerOffset, []byte("5"), headerClock, []byte("2026-11-30T10:00:00Z"))
	f.Add(headerFirst, []byte("a/0/1"), headerValue, []byte("dropped size=1 sha256=00"))
	f.Fuzz(func(t *testing.T, k1 string, v1 []byte, k2 string, v2 []byte) {
		rec := &kgo.Record{Value: v1, Headers: []kgo.RecordHeader{
			{Key: headerException, Value: v2}, {Key: headerReason, Value: v2}, {Key: headerTopic, Value: v1}, {Key: headerPartition, Value: []byte("0")},
			{Key: k1, Value: v1}, {Key: k2, Value: v2},
		}}
		var r outcomeReader
		o := r.read(letters, rec)
		if o.fault == "" && (o.source.offset < 0 || o.source.partition < 0) {
			t.Errorf("%+v", o)
		}
		o.carries(&kgo.Record{Value: v1, Headers: rec.Headers})
		o.wasFuture(rec)
	})
}

func FuzzState(f *testing.F) {
	w := ordinary()
	for _, r := range w.logs[w.topics.State][0] {
		f.Add(r.Key, r.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s := newFold()
		s.apply(&kgo.Record{Key: key, Value: value})
		if s.found && s.marker.partitions < 1 {
			t.Errorf("%+v", s.marker)
		}
		s.apply(&kgo.Record{Key: key})
		if s.digest != 0 {
			t.Errorf("digest %x of nothing", s.digest)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add(int64(5), "tallystick/1 txn=12 digest=00ff00ff00ff00ff")
	f.Fuzz(func(t *testing.T, next int64, text string) {
		if c := newCommit(next, text); c.valid && len(text) < len("tallystick/1 txn=0 digest=0000000000000000") {
			t.Errorf("%q is accepted", text)
		}
	})
}
