package state

import (
	"testing"
	"time"
)

func TestUnknownStoreInTheLogIsNamed(t *testing.T) {
	m := NewMemory(goldenSpecs)
	if err := m.Replay([]byte("\x07retired\x01"), nil); err != nil {
		t.Errorf("a deleted key of a store that is gone: %v", err)
	}
	err := m.Replay([]byte("\x07retired\x01"), []byte("x"))
	mentions(t, err, `store "retired"`, "application.id", "revert")
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
	mentions(t, NewMemory(goldenSpecs).Replay([]byte("garbage"), []byte("x")), "no store name")
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
	for name, new := range map[string]string{
		"nothing":             old,
		"other order":         text(4, []string{"late", "in"}, inbox, accounts),
		"store added":         text(4, in, accounts, inbox, with(inbox, func(s *Spec) { s.Name = "more" })),
		"input added":         text(4, append([]string{"extra"}, in...), accounts, inbox),
		"window widened":      text(4, in, accounts, with(inbox, func(s *Spec) { s.Window = 36 * time.Hour })),
		"value codec extends": text(4, in, with(accounts, func(s *Spec) { s.ValueCodec = "json+v2" }), inbox),
	} {
		if err := CheckFingerprint(old, new); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for words, new := range map[string]string{
		"partition count":         text(8, in, accounts, inbox),
		`input "late"`:            text(4, in[:1], accounts, inbox),
		`store "inbox" was rem`:   text(4, in, accounts),
		`store "accounts" was re`: text(4, in, with(accounts, func(s *Spec) { s.Name = "balances" }), inbox),
		"kind":                    text(4, in, accounts, with(accounts, func(s *Spec) { s.Name = "inbox" })),
		"key codec":               text(4, in, with(accounts, func(s *Spec) { s.KeyCodec = "string+v2" }), inbox),
		`by "avro"`:               text(4, in, with(accounts, func(s *Spec) { s.ValueCodec = "avro" }), inbox),
		`"json2"`:                 text(4, in, with(accounts, func(s *Spec) { s.ValueCodec = "json2" }), inbox),
		"narrower":                text(4, in, accounts, with(inbox, func(s *Spec) { s.Window = time.Minute })),
	} {
		mentions(t, CheckFingerprint(old, new), words, "was ", "revert", "application.id")
	}
	newer := text(4, in, with(accounts, func(s *Spec) { s.ValueCodec = "json+v2" }), inbox)
	mentions(t, CheckFingerprint(newer, old), "newer version", "json+v2")
	mentions(t, CheckFingerprint(old+"timer x every=1m\n", old), "newer version", "timer x")
	mentions(t, CheckFingerprint("", old), "no stage line")
}
