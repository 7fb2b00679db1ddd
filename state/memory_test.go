package state

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A store that is gone is harmless once its keys are; until then they count in the digest, like any.
func TestKeysOfAStoreThatIsGoneAreCounted(t *testing.T) {
	c := newClaimTask()
	c.record(1)
	c.rows.Put(c.view, "k", "value")
	c.rows.Put(c.view, "l", "value")
	c.check("e-1", 1)
	c.commit(t)
	c.record(2)
	c.rows.Delete(c.view, "k")
	c.rows.Put(c.view, "l", "changed")
	c.commit(t)
	without := &task{log: c.log}
	NewDedupe(without, "inbox", 100*time.Second)
	m := without.restored(t)
	if got := m.Orphans(); len(got) != 1 || got["rows"] != 1 || m.Digest() != c.base.Digest() {
		t.Errorf("orphans %v, digest %x: want one key of rows and digest %x", got, m.Digest(), c.base.Digest())
	}
	mentions(t, CheckFingerprint(c.fingerprint(), without.fingerprint(), m.Orphans(), nil), `store "rows" was removed`, "its 1 keys")
	c.record(3)
	c.rows.Delete(c.view, "l")
	c.commit(t)
	without.log = c.log
	m = without.restored(t)
	if got := m.Orphans(); len(got) != 0 || m.Digest() != c.base.Digest() {
		t.Errorf("orphans %v, digest %x: want none and digest %x", got, m.Digest(), c.base.Digest())
	}
	if err := CheckFingerprint(c.fingerprint(), without.fingerprint(), m.Orphans(), nil); err != nil {
		t.Error(err)
	}
	if err := m.Replay([]byte("\x07retired\x01"), []byte("x")); err != nil || m.Orphans()["retired"] != 1 {
		t.Errorf("%v, orphans %v", err, m.Orphans())
	}
	if err := m.Reset(); err != nil || len(m.Orphans()) != 0 {
		t.Errorf("after a reset: %v, orphans %v", err, m.Orphans())
	}
}

func TestDamagedLogIsNamed(t *testing.T) {
	m := NewMemory(goldenSpecs)
	if err := m.Replay([]byte("\x07retired\x01"), nil); err != nil {
		t.Errorf("a deleted key of a store that is gone: %v", err)
	}
	err := m.Replay([]byte("garbage"), []byte("x"))
	mentions(t, err, "no store name")
	if again := m.Replay([]byte(markerKey), goldenMarkers()[1].Append(nil)); again != err {
		t.Errorf("the restore went on: %v", again)
	}
	if err := m.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := m.Replay([]byte(markerKey), goldenMarkers()[1].Append(nil)); err != nil {
		t.Error(err)
	}
	mentions(t, m.Replay([]byte("\x00x"), nil), "reserved")
	mentions(t, NewMemory(goldenSpecs).Replay([]byte(markerKey), []byte{2}), "schema 2", "newer version")
	mentions(t, NewMemory(goldenSpecs).Replay([]byte("\x05inbox12345678"), nil), `store "inbox"`, "8 bytes")
	mentions(t, NewMemory(goldenSpecs).Replay(appendPackedKey(nil, "inbox", 0, 1), []byte{9}), "schema 9")
	mentions(t, NewMemory(goldenSpecs).Replay(appendPackedKey(nil, "inbox", 0, 1), []byte{packedSchema, 1}), "ends too early", "damaged")
}

func TestReplayKeepsNothingOfTheFetchBuffer(t *testing.T) {
	c := newClaimTask()
	c.record(1)
	c.rows.Put(c.view, "k", "value")
	c.check("e-1", 1)
	c.commit(t)
	base := NewMemory(c.specs)
	var key, value []byte
	for _, r := range c.log {
		key, value = append(key[:0], r.Key...), append(value[:0], r.Value...)
		if err := base.Replay(key, value); err != nil {
			t.Fatal(err)
		}
		clear(key)
		clear(value)
	}
	v := NewView(c.specs, base)
	if got, _ := c.rows.Get(v, "k"); got != "value" {
		t.Errorf("got %q", got)
	}
	if p, ok := c.inbox.First(v, "e-1"); !ok || p.Topic != "in" {
		t.Errorf("got %v %v", p, ok)
	}
	if m, _ := base.Marker(); m.Digest != base.Digest() || m.Writer != "app-i-0" {
		t.Errorf("marker %+v, digest %x", m, base.Digest())
	}
}

func TestApplyRefusesAndProves(t *testing.T) {
	m := NewMemory(goldenSpecs)
	mentions(t, m.Apply(&Batch{Records: []Record{{[]byte("\x04gone"), []byte("x")}}}), `store "gone"`)
	if m.Digest() != 0 || m.Position() != 0 {
		t.Error("a refused batch left something behind")
	}
	rows := []Record{{[]byte("\x08accountsk"), []byte("x")}}
	mentions(t, m.Apply(&Batch{Records: rows, Marker: Marker{TxnSeq: 1, Digest: 7}}), "I3", "transaction 1", "restore")
	_, _, err := m.Get([]byte("\x08accountsk"))
	mentions(t, err, "I3")
	if err := m.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := m.Get([]byte("\x08accountsk")); ok || err != nil {
		t.Errorf("after a reset: %v %v", ok, err)
	}
	if err := m.Apply(&Batch{Marker: Marker{TxnSeq: 5}, Position: 9}); err != nil || m.Position() != 9 {
		t.Errorf("%v, position %d", err, m.Position())
	}
	mentions(t, m.Apply(&Batch{Marker: Marker{TxnSeq: 5}}), "I2")
	m.Close()
	_, _, err = m.Get([]byte("\x08accountsk"))
	mentions(t, err, "closed")
}

func TestFingerprintChanges(t *testing.T) {
	text := func(partitions int32, inputs []string, specs ...Spec) string {
		var s stage
		for _, sp := range specs {
			s.DeclareStore(sp)
		}
		return FingerprintText("post", partitions, inputs, s.specs)
	}
	accounts := Spec{Name: "accounts", Kind: KindTable, KeyCodec: "string", ValueCodec: "json"}
	inbox := Spec{Name: "inbox", Kind: KindDedupe, Window: time.Hour}
	with := func(s Spec, change func(*Spec)) Spec { change(&s); return s }
	in := []string{"in", "late"}
	old := text(4, in, accounts, inbox)
	read := func(string) (int64, error) { return 0, nil }
	check := func(old, new string) error { return CheckFingerprint(old, new, nil, read) }
	v2 := with(accounts, func(s *Spec) { s.ValueCodec = "json+v2" })
	v3 := with(accounts, func(s *Spec) { s.ValueCodec = "json+v3" })
	for name, new := range map[string]string{
		"nothing":              old,
		"other order":          text(4, []string{"late", "in"}, inbox, accounts),
		"store added":          text(4, in, accounts, inbox, with(inbox, func(s *Spec) { s.Name = "more" })),
		"store without keys":   text(4, in, inbox),
		"store renamed, empty": text(4, in, inbox, with(accounts, func(s *Spec) { s.Name = "balances" })),
		"input added":          text(4, append([]string{"extra"}, in...), accounts, inbox),
		"input read and gone":  text(4, in[:1], accounts, inbox),
		"window widened":       text(4, in, accounts, with(inbox, func(s *Spec) { s.Window = 36 * time.Hour })),
		"value codec extends":  text(4, in, v2, inbox),
		"two versions later":   text(4, in, v3, inbox),
	} {
		if err := check(old, new); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := check(text(4, in, v2), text(4, in, v3)); err != nil {
		t.Errorf("json+v2 to json+v3: %v", err)
	}
	keys, unread := map[string]int{"inbox": 3, "accounts": 7}, func(string) (int64, error) { return 12, nil }
	for words, new := range map[string]string{
		"partition count":                    text(8, in, accounts, inbox),
		`"late" was dropped with 12 records`: text(4, in[:1], accounts, inbox),
		"its 3 keys":                         text(4, in, accounts),
		"its 7 keys":                         text(4, in, with(accounts, func(s *Spec) { s.Name = "balances" }), inbox),
		"kind":                               text(4, in, accounts, with(accounts, func(s *Spec) { s.Name = "inbox" })),
		"key codec":                          text(4, in, with(accounts, func(s *Spec) { s.KeyCodec = "json" }), inbox),
		"key codec ":                         text(4, in, with(accounts, func(s *Spec) { s.KeyCodec = "string+v2" }), inbox),
		`by "avro"`:                          text(4, in, with(accounts, func(s *Spec) { s.ValueCodec = "avro" }), inbox),
		`"json2"`:                            text(4, in, with(accounts, func(s *Spec) { s.ValueCodec = "json2" }), inbox),
		`is called "json+v2"`:                text(4, in, with(accounts, func(s *Spec) { s.ValueCodec = "json2" }), inbox),
		"narrower":                           text(4, in, accounts, with(inbox, func(s *Spec) { s.Window = time.Minute })),
	} {
		mentions(t, CheckFingerprint(old, new, keys, unread), words, "was ", "revert", "reset plan", "application.id")
	}
	for _, newer := range []string{text(4, in, v2, inbox), text(4, in, v3, inbox)} {
		mentions(t, check(newer, old), "newer version", "json+v")
	}
	mentions(t, check(text(4, in, v3), text(4, in, v2)), "newer version", "json+v3")
	mentions(t, check(text(4, in, v2), text(4, in, with(v2, func(s *Spec) { s.ValueCodec = "avro+v3" }))), `is called "json+v3"`)
	nobody := func(string) (int64, error) { return 0, errors.New("no broker") }
	mentions(t, CheckFingerprint(old, text(4, in[:1], accounts, inbox), nil, nobody), `input "late" was dropped`, "no broker")
	mentions(t, CheckFingerprint(old, old, map[string]int{"ghost": 2}, read), `2 keys of store "ghost"`, "reset plan")
	mentions(t, check(old+"timer x every=1m\n", old), "newer version", "timer x")
	mentions(t, check("", old), "no stage line")
}

// One record is enough to be lost; what is not understood is no fingerprint that another may follow.
func TestFingerprintIsReadStrictly(t *testing.T) {
	old := FingerprintText("post", 4, []string{"in", "late"}, []*Spec{{Name: "inbox", Kind: KindDedupe, Window: time.Hour}})
	nothing, one := func(string) (int64, error) { return 0, nil }, func(string) (int64, error) { return 1, nil }
	mentions(t, CheckFingerprint(old, strings.Replace(old, "in,late", "in", 1), nil, one), `"late" was dropped with 1 records`)
	mentions(t, CheckFingerprint(old, strings.Replace(old, "stage post", "stage pay", 1), nil, nothing), "belongs to another stage", "reset plan")
	stage, store, _ := strings.Cut(old, "\n")
	for _, damaged := range []string{old + stage + "\n", old + store, strings.Replace(old, "window=1h", "window=-1h", 1)} {
		mentions(t, CheckFingerprint(damaged, old, nil, nothing), "is not understood")
	}
	if m := (Marker{Fingerprint: "of a newer version"}); !m.Reads("in") {
		t.Error("nobody knows which inputs the marker's program read, and it is taken for one that did not read this one")
	}
}
