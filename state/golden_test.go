package state

import (
	"encoding/hex"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/record"
)

var update = flag.Bool("update", false, "rewrite testdata: only for a format that was never released")

// golden compares text with a file and never repairs it: these formats are on disks and in topics for ever.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: a frozen format changed\n got:\n%s\nwant:\n%s", name, got, want)
	}
}

// dump shows bytes as lines of 32, in hexadecimal.
func dump(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		n := min(32, len(b))
		s.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return s.String()
}

var goldenSpecs = []*Spec{
	{Index: 0, Name: "inbox", Kind: KindDedupe, Window: 14 * 24 * time.Hour},
	{Index: 1, Name: "accounts", Kind: KindTable, KeyCodec: "string", ValueCodec: "json"},
}

func goldenFingerprint() string {
	return FingerprintText("post", 4, []string{"late-events", "credit-events"}, goldenSpecs)
}

func goldenMarkers() []Marker {
	return []Marker{
		{TxnSeq: 1, StreamTime: NoStreamTime},
		{TxnSeq: 300, StreamTime: 1_700_000_000_123, Digest: 0x0123456789abcdef, Partitions: 4, Fingerprint: goldenFingerprint(),
			Writer: "bank-i1-0", Next: []InputNext{{"credit-events", 812}, {"late-events", 0}}},
		{TxnSeq: math.MaxUint64, StreamTime: -1, Digest: math.MaxUint64, Partitions: math.MaxInt32, Next: []InputNext{{"in", math.MaxInt64}}},
	}
}

func TestMarkerBytesAreFrozen(t *testing.T) {
	for i, m := range goldenMarkers() {
		golden(t, "marker-"+string(rune('a'+i)), dump(m.Append(nil)))
	}
	golden(t, "marker-key", dump([]byte(markerKey)))
}

func TestOffsetMetadataIsFrozen(t *testing.T) {
	var s strings.Builder
	for _, m := range []Metadata{{}, {1, 0x1f}, {math.MaxUint64, math.MaxUint64}} {
		s.Write(append(AppendMetadata(nil, m), '\n'))
	}
	golden(t, "metadata", s.String())
}

func TestFingerprintTextIsFrozen(t *testing.T) {
	golden(t, "fingerprint", goldenFingerprint()+"\n"+FingerprintText("a", 1, nil, nil))
}

func TestContentFingerprintIsFrozen(t *testing.T) {
	var s strings.Builder
	f := Fingerprint{}
	for _, next := range []Fingerprint{
		f, f.String(""), f.String("credit"), f.Bytes(nil), f.Bytes([]byte("credit")), f.Int64(-1), f.Uint64(math.MaxUint64),
		f.Bool(false), f.Bool(true), f.Time(time.Unix(1_700_000_000, 5)), f.Time(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)),
		f.String("a").String("b"), f.String("ab").String(""), f.String(strings.Repeat("x", 300)).Int64(1),
	} {
		s.WriteString(hex.EncodeToString(appendPackedID(nil, ID{}, next.sum, 0)[16:24]) + "\n")
	}
	golden(t, "content", s.String())
}

// A whole transaction: two buckets, two inputs, a row written, one rewritten, one deleted, tombstones, the marker.
func TestTransactionBytesAreFrozen(t *testing.T) {
	var inbox Dedupe
	var accounts Table[string, string]
	var balances Table[int64, string]
	k := newTask(func(s *stage) {
		inbox = NewDedupe(s, "inbox", 128*time.Second)
		accounts = NewTable(s, "accounts", record.String, record.String)
		balances = NewTable(s, "b", record.Int64, record.String)
	})
	var s strings.Builder
	commit := func() {
		k.noErr(t)
		for _, r := range k.commit(t).Records {
			s.WriteString("key\n" + dump(r.Key))
			if r.Value != nil {
				s.WriteString("value\n" + dump(r.Value))
			} else {
				s.WriteString("tombstone\n")
			}
		}
		s.WriteString("---\n")
	}
	k.record(-1)
	inbox.Check(k.view, "before 1970", at(-1), Fingerprint{})
	k.record(1_000)
	inbox.Check(k.view, "e-1", at(1_000), Fingerprint{}.String("1.00"))
	accounts.Put(k.view, "priya", "1.00")
	k.view.Savepoint(record.Position{Topic: "other", Partition: 3, Offset: 77}, 1_500)
	inbox.Check(k.view, "e-2", at(1_500), Fingerprint{}.String("2.00"))
	balances.Put(k.view, -5, "")
	k.record(1_600)
	inbox.Check(k.view, "e-3", at(10), Fingerprint{}.String("3.00"))
	commit()
	k.record(127_999)
	inbox.Check(k.view, "e-4", at(127_999), Fingerprint{})
	accounts.Put(k.view, "priya", "5.00")
	balances.Delete(k.view, -5)
	commit()
	k.record(400_000)
	accounts.Delete(k.view, "priya")
	commit()
	golden(t, "transaction", s.String())
}
