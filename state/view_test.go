package state

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/record"
)

// mentions fails unless the error holds every word.
func mentions(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not mention %q", err, w)
		}
	}
}

func TestForeignHandleFailsByName(t *testing.T) {
	c, other := newClaimTask(), newClaimTask()
	uses := map[string]func(){
		"get":    func() { other.rows.Get(c.view, "k") },
		"put":    func() { other.rows.Put(c.view, "k", "v") },
		"delete": func() { other.rows.Delete(c.view, "k") },
		"all":    func() { _ = maps.Collect(other.rows.All(c.view)) },
		"range":  func() { _ = maps.Collect(other.rows.Range(c.view, "a", "b")) },
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			c.record(1)
			use()
			mentions(t, c.view.Err(), `store "rows"`, "another stage")
			c.view.Rollback()
			c.noErr(t)
		})
	}
	c.record(1)
	if v := other.inbox.Check(c.view, "id", at(1), Fingerprint{}); v != Duplicate {
		t.Errorf("check through a foreign handle: %v, want the verdict that does least", v)
	}
	mentions(t, c.view.Err(), `store "inbox"`, "another stage")
	if len(c.view.overlay.entries) > 0 || len(c.view.pending[0].ids) > 0 {
		t.Error("something was written")
	}
}

func TestUndeclaredHandleFails(t *testing.T) {
	c := newClaimTask()
	c.record(1)
	Dedupe{}.First(c.view, "id")
	mentions(t, c.view.Err(), "never declared", "NewTable")
}

func TestCommittedContentsAreReadOnly(t *testing.T) {
	c := newClaimTask()
	c.record(1)
	c.rows.Put(c.view, "k", "v")
	c.check("e-1", 1)
	c.commit(t)
	v := NewView(c.specs, c.base)
	if got, ok := c.rows.Get(v, "k"); got != "v" || !ok {
		t.Errorf("got %q %v", got, ok)
	}
	if p, ok := c.inbox.First(v, "e-1"); !ok || p.Topic != "in" || p.Partition != -1 {
		t.Errorf("first: %v %v, want the topic and no partition, which only a record tells", p, ok)
	}
	c.rows.Put(v, "k", "w")
	mentions(t, v.Err(), `store "rows"`, "outside a record")
	v.Rollback()
	c.inbox.Check(v, "e-2", at(1), Fingerprint{})
	mentions(t, v.Err(), `store "inbox"`, "outside a record")
}

// picky is a codec that fails on demand, with the error that a malformed input gives.
type picky struct{}

func (picky) ID() string { return "picky" }

func (picky) Append(dst []byte, v string) ([]byte, error) {
	if v == "bad" {
		return dst, &record.MalformedError{Reason: "malformed_picky", Err: errors.New("bad")}
	}
	return append(dst, v...), nil
}

func (picky) Decode(src []byte) (string, error) {
	_, err := picky{}.Append(nil, string(src))
	return string(src), err
}

func TestBrokenStoreSticksAndNamesStoreKeyHashAndCodec(t *testing.T) {
	var rows Table[string, string]
	k := newTask(func(s *stage) {
		rows = NewTable(s, "rows", record.Codec[string](picky{}), record.Codec[string](picky{}))
	})
	key := appendPrefix(nil, "rows")
	good, corrupt := append(bytes.Clone(key), "customer-17"...), append(bytes.Clone(key), "customer-18"...)
	for key, value := range map[string]string{string(good): "good", string(corrupt): "bad"} {
		if err := k.base.Replay([]byte(key), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	hash := fmt.Sprintf("%016x", keyHash(corrupt))

	k.record(1)
	rows.Get(k.view, "customer-18")
	mentions(t, k.view.Err(), `store "rows"`, hash, `codec "picky"`, "decode value", "restore")
	if strings.Contains(k.view.Err().Error(), "customer-18") {
		t.Errorf("the error tells the key: %v", k.view.Err())
	}
	if m := (*record.MalformedError)(nil); errors.As(k.view.Err(), &m) {
		t.Error("the error looks like a malformed record, which would be dead-lettered")
	}
	first := k.view.Err()
	if _, ok := rows.Get(k.view, "customer-17"); ok {
		t.Error("a read after the failure answered")
	}
	rows.Put(k.view, "customer-17", "x")
	if k.view.Err() != first {
		t.Errorf("the first failure was replaced by %v", k.view.Err())
	}
	_, err := k.view.Seal(k.marker())
	mentions(t, err, "not rolled back", hash)
	k.view.Rollback()
	if got, _ := rows.Get(k.view, "customer-17"); got != "good" {
		t.Errorf("got %q after the rollback", got)
	}
	for name, use := range map[string]func(){
		"encode key":   func() { rows.Get(k.view, "bad") },
		"encode value": func() { rows.Put(k.view, "k", "bad") },
		"decode value": func() { _ = maps.Collect(rows.All(k.view)) },
	} {
		k.record(1)
		use()
		mentions(t, k.view.Err(), `store "rows"`, name)
		k.view.Rollback()
	}
}

func TestLoopMayWriteWhatItReads(t *testing.T) {
	c := newClaimTask()
	c.record(1)
	for _, k := range []string{"a", "c", "e"} {
		c.rows.Put(c.view, k, "old")
	}
	c.commit(t)
	c.record(2)
	c.rows.Put(c.view, "b", "new")
	var seen []string
	for k, val := range c.rows.All(c.view) {
		seen = append(seen, k+val)
		switch k {
		case "a":
			c.rows.Put(c.view, "c", "changed")
			c.rows.Put(c.view, "d", "added")
		case "b":
			c.rows.Delete(c.view, "e")
			for range c.rows.All(c.view) { // loops may nest
			}
		}
	}
	if want := []string{"aold", "bnew", "cchanged"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
	for k := range c.rows.Range(c.view, "b", "d") {
		if k == "b" {
			break
		}
		t.Errorf("the loop went on to %q", k)
	}
	c.noErr(t)
}

func TestEmptyValueIsNotADeletion(t *testing.T) {
	c := newClaimTask()
	c.record(1)
	c.rows.Put(c.view, "k", "")
	s := c.commit(t)
	if len(s.Records) != 2 || s.Records[0].Value == nil {
		t.Fatalf("records %v", s.Records)
	}
	for _, base := range []*Memory{c.base, c.restored(t)} {
		if got, ok := c.rows.Get(NewView(c.specs, base), "k"); got != "" || !ok {
			t.Errorf("got %q %v", got, ok)
		}
	}
}

func TestLifeOfATransaction(t *testing.T) {
	c := newClaimTask()
	if c.view.Dirty() || c.view.StreamTime() != NoStreamTime {
		t.Error("a new view is dirty or has a stream time")
	}
	mentions(t, c.view.Merge(Sealed{}, 0), "without a sealed transaction")
	c.record(1000)
	c.view.Rollback()
	if !c.view.Dirty() || c.view.StreamTime() != NoStreamTime {
		t.Error("a record that failed touches the task, but moves no stream time")
	}
	c.record(2000)
	c.rows.Put(c.view, "k", "v")
	first := c.seal(t)
	if again := c.seal(t); len(again.Records) != len(first.Records) || again.Marker.Digest != first.Marker.Digest {
		t.Error("sealing again gave something else")
	}
	c.record(3000)
	mentions(t, c.view.Err(), "between Seal and Merge")
	c.view.Drop()
	if _, ok := c.rows.Get(c.view, "k"); ok || c.view.Dirty() || c.view.Err() != nil {
		t.Error("something is left of the dropped transaction")
	}
	s := c.commit(t) // moves offsets only
	if len(s.Records) != 1 || !IsMarker(s.Records[0].Key) || c.base.Position() != 1 {
		t.Errorf("%d records at position %d, want the marker alone", len(s.Records), c.base.Position())
	}
}

func TestSealRefusesWhatDoesNotFollow(t *testing.T) {
	c := newClaimTask()
	c.record(1)
	c.commit(t)
	m := c.marker()
	m.TxnSeq++
	_, err := c.view.Seal(m)
	mentions(t, err, "I2", "transaction 3 follows 1")
	m = c.marker()
	m.Next[0].AppliedNext--
	_, err = c.view.Seal(m)
	mentions(t, err, "I5", `input "in"`, "offset 1", "back to 0")
	c.record(1)
	c.commit(t)
	c.noErr(t)
}

// The arena hands memory back after a large transaction, and no bytes that are still in use.
func TestLargeTransactionsAreForgotten(t *testing.T) {
	c := newClaimTask()
	for i := range 20_000 {
		c.record(1)
		c.rows.Put(c.view, fmt.Sprintf("row-%d", i), strings.Repeat("x", 200))
	}
	c.commit(t)
	large := len(c.view.overlay.arena.chunks)
	for i := range 20 {
		c.record(1)
		c.rows.Put(c.view, "row-7", strings.Repeat("y", 1000*i))
		c.commit(t)
	}
	if n := len(c.view.overlay.arena.chunks); n > 3 {
		t.Errorf("%d chunks are kept of %d", n, large)
	}
	if a, b := c.base.Digest(), c.restored(t).Digest(); a != b {
		t.Errorf("digest %x, restored %x", a, b)
	}
	if got, _ := c.rows.Get(c.view, "row-19999"); got != strings.Repeat("x", 200) {
		t.Errorf("row 19999 is %q", got)
	}
}

func TestSpecsAreValidated(t *testing.T) {
	ok := Spec{Name: "a.b_c-9", Kind: KindTable, KeyCodec: "string", ValueCodec: "json+v2"}
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
	for words, s := range map[string]Spec{
		"store name":   {Name: ".a", Kind: KindDedupe, Window: time.Second},
		"64":           {Name: strings.Repeat("a", 65), Kind: KindDedupe, Window: time.Second},
		"at least 1ms": {Name: "a", Kind: KindDedupe, Window: time.Microsecond},
		"key codec":    {Name: "a", Kind: KindTable, KeyCodec: "a b", ValueCodec: "json"},
		"value codec":  {Name: "a", Kind: KindTable, KeyCodec: "string"},
		"kind":         {Name: "a", Kind: "heap"},
	} {
		mentions(t, s.Validate(), words)
	}
	declared := &stage{}
	NewTable(declared, "rows", record.String, record.Versioned(2, record.String, record.String, strings.ToUpper))
	mentions(t, declared.specs[0].Validate(), `store "rows"`, "MayBegin")
}

// Who knows only a store's Spec reads it as it is stored: listing, paging and sizes of queries.
func TestRawHandlesReadWhatIsStored(t *testing.T) {
	c := newClaimTask()
	c.record(1)
	for _, k := range []string{"a", "b", "c"} {
		c.rows.Put(c.view, k, k+k)
	}
	c.check("e-1", 1)
	c.commit(t)
	v := NewView(c.specs, c.base)
	raw := c.specs[1].Table()
	if got, ok := raw.Get(v, []byte("b")); string(got) != "bb" || !ok {
		t.Errorf("b is %q %v", got, ok)
	}
	var seen []string
	for k, val := range raw.From(v, []byte("aa")) {
		seen = append(seen, string(k)+"="+string(val))
	}
	if want := []string{"b=bb", "c=cc"}; !slices.Equal(seen, want) {
		t.Errorf("from aa: %q, want %q", seen, want)
	}
	if at, ok := c.specs[0].Dedupe().First(v, "e-1"); !ok || at.Topic != "in" || at.Offset != 0 {
		t.Errorf("e-1 was first seen at %v %v", at, ok)
	}
	ids, idBytes := v.Size(c.specs[0])
	rows, rowBytes := v.Size(c.specs[1])
	if ids != 1 || rows != 3 || idBytes+rowBytes != c.base.Bytes() || idBytes == 0 {
		t.Errorf("%d ids of %d bytes and %d rows of %d bytes, of %d bytes", ids, idBytes, rows, rowBytes, c.base.Bytes())
	}
	if err := v.Err(); err != nil {
		t.Error(err)
	}
}
