package state

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

func FuzzParseMarker(f *testing.F) {
	for _, m := range goldenMarkers() {
		f.Add(m.Append(nil))
	}
	f.Add([]byte{1, 0x80, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMarker(b)
		if err == nil && !bytes.Equal(m.Append(nil), b) {
			t.Errorf("%x: accepted, but written as %x", b, m.Append(nil))
		}
	})
}

func FuzzParseMetadata(f *testing.F) {
	f.Add("tallystick/1 txn=12 digest=00000000000000ff")
	f.Add("tallystick/1 txn=+1 digest=00000000000000FF")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMetadata(s)
		if err == nil && string(AppendMetadata(nil, m)) != s {
			t.Errorf("%q: accepted, but written as %q", s, AppendMetadata(nil, m))
		}
	})
}

func FuzzParseFingerprint(f *testing.F) {
	f.Add(goldenFingerprint())
	f.Add("stage a partitions=1 inputs=\nstore b dedupe key=- value=- window=0s\n")
	f.Fuzz(func(t *testing.T, text string) {
		_ = CheckFingerprint(text, goldenFingerprint(), nil, func(string) (int64, error) { return 0, nil }) // whatever they say, they must not panic
		_ = CheckFingerprint(goldenFingerprint(), text, nil, func(string) (int64, error) { return 0, nil })
		if d := storedWindow(text, "inbox"); d < 0 {
			t.Errorf("%q: window %v", text, d)
		}
	})
}

// Whatever a packed record holds: it is refused, or it reads back as the same bytes.
func FuzzParsePacked(f *testing.F) {
	one := append([]byte{packedSchema, 2, 'i', 'n', 1}, make([]byte, packedIDSize)...)
	f.Add([]byte{packedSchema})
	f.Add(one)
	f.Add(append(one, one[1:]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		again := []byte{packedSchema}
		err := parsePacked(b, func(g packedGroup) bool {
			again = appendFramed(again, string(g.topic))
			again = binary.AppendUvarint(again, uint64(len(g.ids)/packedIDSize))
			again = append(again, g.ids...)
			return true
		})
		if err == nil && !bytes.Equal(again, b) {
			t.Errorf("%x: accepted, but written as %x", b, again)
		}
	})
}

// A base never panics on what a topic holds, keeps its digest, and forgets what is deleted.
func FuzzReplay(f *testing.F) {
	f.Add([]byte("\x08accountspriya"), []byte("1.00"))
	f.Add([]byte("\x08account"), []byte("1.00"))
	f.Add([]byte("\x04gonekey"), []byte("1.00"))
	f.Add([]byte("\x00m"), goldenMarkers()[1].Append(nil))
	f.Add([]byte("\x00x"), []byte{})
	f.Add(appendPackedKey(nil, "inbox", 1000, 1), append([]byte{packedSchema, 2, 'i', 'n', 1}, make([]byte, packedIDSize)...))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		m := NewMemory(goldenSpecs)
		if m.Replay(key, value) != nil {
			if m.Replay(key, nil) == nil {
				t.Error("the base went on after an error")
			}
			return
		}
		digest := m.Digest()
		if m.Replay(key, value) != nil || m.Digest() != digest {
			t.Error("replaying again changed the digest")
		}
		if _, _, err := m.Seen("inbox", ID{}); err != nil {
			t.Error(err)
		}
		if m.Replay(key, nil) != nil || m.Digest() != 0 || m.Bytes() != 0 {
			t.Errorf("after the tombstone: digest %x, %d bytes", m.Digest(), m.Bytes())
		}
	})
}

func FuzzBucketEnd(f *testing.F) {
	f.Add(int64(-1), int64(1000))
	f.Add(int64(1<<63-1), int64(1))
	f.Add(int64(-1<<63), int64(1<<62))
	f.Fuzz(func(t *testing.T, ms, window int64) {
		if window < 1 || window > 1<<53 { // about what a Duration holds in ms
			return
		}
		w := time.Duration(min(window, 1<<43)) * time.Millisecond
		width := bucketWidth(w)
		end := bucketEnd(ms, width)
		if end < ms || end == ms && ms != 1<<63-1 || ms <= 1<<62 && end-ms > width || end%width != 0 && end != 1<<63-1 {
			t.Errorf("%d: bucket of width %d ends at %d", ms, width, end)
		}
		if b := before(ms, w); b > ms {
			t.Errorf("%d - %v = %d", ms, w, b)
		}
	})
}
