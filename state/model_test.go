package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/tallystick/tallystick/record"
)

// world is the second implementation: what a task remembers, copied whole at each savepoint. Ids are never deleted.
type world struct {
	tables     [2]map[string]string
	ids        [2][]knownID
	floor      [2]int64
	streamTime int64
	written    map[string]bool // state keys of rows written in the open transaction
}

type knownID struct {
	id          string
	end, offset int64
	content     string
	topic       string
}

func (w world) clone() world {
	for i := range w.tables {
		w.tables[i], w.ids[i] = maps.Clone(w.tables[i]), slices.Clone(w.ids[i])
	}
	w.written = maps.Clone(w.written)
	return w
}

// check follows the text of the format: the window in ms, its width, the end of the bucket.
func (w *world) check(i int, id, content, topic string, offset, ms int64, window time.Duration) (Verdict, knownID) {
	horizon := max(w.streamTime-window.Milliseconds(), w.floor[i])
	for _, k := range slices.Backward(w.ids[i]) {
		if k.id == id && k.end > horizon {
			if k.content == content {
				return Duplicate, k
			}
			return Conflict, k
		}
	}
	if ms < horizon {
		return Expired, knownID{}
	}
	width := max(int64(1000), window.Milliseconds()/64)
	end := int64(0)
	for end <= max(ms, w.streamTime) { // times in this model are small and not negative
		end += width
	}
	w.ids[i] = append(w.ids[i], knownID{id, end, offset, content, topic})
	return New, knownID{}
}

// machine runs the same script on a task and on a world.
type machine struct {
	k                      *task
	tables                 [2]Table[string, string]
	inboxes                [2]Dedupe
	windows                [2]time.Duration
	committed, open, saved world
	clock                  int64
	position               int64
}

func newMachine(rt *rapid.T) *machine {
	w := world{streamTime: NoStreamTime, floor: [2]int64{NoStreamTime, NoStreamTime}}
	w.tables, w.written = [2]map[string]string{{}, {}}, map[string]bool{}
	m := &machine{committed: w, open: w.clone(), windows: [2]time.Duration{5 * time.Second, 200 * time.Second}, clock: 1000}
	m.k = newTask(m.declare)
	m.k.view.tombstones = rapid.SampledFrom([]int{0, 1, 3, maxTombstones}).Draw(rt, "tombstones")
	return m
}

func (m *machine) declare(s *stage) {
	*s = stage{}
	m.tables[0] = NewTable(s, "a", record.String, record.String)
	m.inboxes[0] = NewDedupe(s, "inbox", m.windows[0])
	m.tables[1] = NewTable(s, "aa", record.String, record.String)
	m.inboxes[1] = NewDedupe(s, "late-inbox", m.windows[1])
}

func (m *machine) Record(rt *rapid.T) {
	step := rapid.SampledFrom([]int64{0, 0, 0, 10, 700, 990, 2000, 4990, 5000, 30_000, -500, -4000, -100_000}).Draw(rt, "step")
	ms := max(0, m.clock+step)
	m.clock = max(m.clock, ms)
	topic := rapid.SampledFrom([]string{"in", "other"}).Draw(rt, "topic")
	m.saved = m.open.clone()
	m.open.streamTime = max(m.open.streamTime, ms)
	offset := m.k.next
	m.k.next++
	m.k.view.Savepoint(record.Position{Topic: topic, Partition: 3, Offset: offset}, ms)
	for range rapid.IntRange(1, 6).Draw(rt, "operations") {
		m.operation(rt, topic, offset, ms)
	}
	if rapid.IntRange(0, 2).Draw(rt, "fate") == 0 {
		m.k.view.Rollback()
		m.open = m.saved
	}
	if got := m.k.view.StreamTime(); got != m.open.streamTime {
		rt.Fatalf("stream time %d, want %d", got, m.open.streamTime)
	}
}

func (m *machine) operation(rt *rapid.T, topic string, offset, ms int64) {
	i := rapid.IntRange(0, 1).Draw(rt, "store")
	key := rapid.SampledFrom([]string{"", "a", "b", "c", "ca", "d"}).Draw(rt, "key")
	table, rows := m.tables[i], m.open.tables[i]
	switch rapid.SampledFrom([]string{"put", "delete", "get", "check", "check", "check", "check", "range"}).Draw(rt, "operation") {
	case "put":
		val := rapid.SampledFrom([]string{"", "1", "two", "threethree"}).Draw(rt, "value")
		table.Put(m.k.view, key, val)
		rows[key] = val
		m.open.written[stateKey(i, key)] = true
	case "delete":
		table.Delete(m.k.view, key)
		delete(rows, key)
		m.open.written[stateKey(i, key)] = true
	case "get":
		got, ok := table.Get(m.k.view, key)
		if want, wantOK := rows[key]; got != want || ok != wantOK {
			rt.Fatalf("get %q: %q %v, want %q %v", key, got, ok, want, wantOK)
		}
	case "range":
		m.scan(rt, table, rows, key)
	case "check":
		m.check(rt, i, key, topic, offset, ms)
	}
	if err := m.k.view.Err(); err != nil {
		rt.Fatal(err)
	}
}

func (m *machine) scan(rt *rapid.T, table Table[string, string], rows map[string]string, from string) {
	var got, want []string
	for k, val := range table.Range(m.k.view, from, "cz") {
		got = append(got, k+"="+val)
	}
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if k >= from && k < "cz" {
			want = append(want, k+"="+rows[k])
		}
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("range from %q: %q, want %q", from, got, want)
	}
}

func (m *machine) check(rt *rapid.T, i int, id, topic string, offset, ms int64) {
	content := rapid.SampledFrom([]string{"x", "x", "y"}).Draw(rt, "content")
	first, found := m.inboxes[i].First(m.k.view, id)
	got := m.inboxes[i].Check(m.k.view, id, at(ms), Fingerprint{}.String(content))
	want, known := m.open.check(i, id, content, topic, offset, ms, m.windows[i])
	if got != want {
		rt.Fatalf("check %q of time %d at stream time %d: %v, want %v", id, ms, m.open.streamTime, got, want)
	}
	wantFirst := record.Position{Topic: known.topic, Partition: 3, Offset: known.offset}
	if found != (known.id != "" || known.topic != "") || found && first != wantFirst {
		rt.Fatalf("first of %q: %v %v, want %v", id, first, found, wantFirst)
	}
}

func (m *machine) Commit(rt *rapid.T) {
	s, err := m.k.view.Seal(m.k.marker())
	if err != nil {
		rt.Fatal(err)
	}
	m.sameRows(rt, s.Records)
	if rapid.IntRange(0, 4).Draw(rt, "aborted after seal") == 0 {
		m.abort()
		return
	}
	for _, r := range s.Records {
		m.k.log = append(m.k.log, cloneRecord(r))
	}
	m.position = int64(len(m.k.log))
	if err := m.k.view.Merge(s, m.position); err != nil {
		rt.Fatal(err)
	}
	clear(m.open.written)
	m.committed = m.open.clone()
	if s.Marker.StreamTime != m.committed.streamTime {
		rt.Fatalf("the marker's stream time is %d, want %d", s.Marker.StreamTime, m.committed.streamTime)
	}
}

func stateKey(table int, key string) string { return []string{"\x01a", "\x02aa"}[table] + key }

// sameRows expects one record for each row that a surviving record wrote, and none for a row that came and went.
func (m *machine) sameRows(rt *rapid.T, records []Record) {
	want := map[string]string{}
	for i := range m.open.tables {
		for k := range m.open.written {
			key, ok := strings.CutPrefix(k, stateKey(i, ""))
			val, live := m.open.tables[i][key]
			if _, was := m.committed.tables[i][key]; ok && (live || was) {
				want[k] = fmt.Sprint(val, live)
			}
		}
	}
	got := map[string]string{}
	for _, r := range records {
		if r.Key[0] <= 2 && r.Key[0] > 0 {
			got[string(r.Key)] = fmt.Sprint(string(r.Value), r.Value != nil)
		}
	}
	if !maps.Equal(got, want) {
		rt.Fatalf("rows in the transaction: %q, want %q", got, want)
	}
}

func (m *machine) Abort(*rapid.T) { m.abort() }

func (m *machine) abort() {
	m.k.view.Drop()
	m.open = m.committed.clone()
}

// Restore replaces the base by one replayed from the log, as a new owner would: out of a log that is compacted more and
// more, and after attempts that were interrupted.
func (m *machine) Restore(rt *rapid.T) {
	base, next := NewMemory(m.k.specs), 0
	purged := rapid.IntRange(0, len(m.k.log)).Draw(rt, "tombstones purged up to")
	cleaned := purged
	for range rapid.IntRange(0, 2).Draw(rt, "interruptions") {
		stop := rapid.IntRange(next, len(m.k.log)).Draw(rt, "stop")
		m.replay(rt, base, next, stop, purged, cleaned)
		next = rapid.IntRange(0, stop).Draw(rt, "resume") // a stored position may be behind, never ahead
		cleaned = rapid.IntRange(cleaned, len(m.k.log)).Draw(rt, "cleaned up to")
	}
	m.replay(rt, base, next, len(m.k.log), purged, cleaned)
	base.SetPosition(m.position)
	m.k.base = base
	m.newView()
}

// newView begins with what is committed.
func (m *machine) newView() {
	tombstones := m.k.view.tombstones
	m.k.view = NewView(m.k.specs, m.k.base)
	m.k.view.tombstones = tombstones
	m.open = m.committed.clone()
}

// replay feeds the records of offsets [from, to) that compaction left: below cleaned only the last one of each key, and no
// tombstone below purged.
func (m *machine) replay(rt *rapid.T, base *Memory, from, to, purged, cleaned int) {
	last := map[string]int{}
	for offset, r := range m.k.log {
		last[string(r.Key)] = offset
	}
	for offset := from; offset < to; offset++ {
		r := m.k.log[offset]
		if offset < cleaned && last[string(r.Key)] != offset || offset < purged && r.Value == nil {
			continue
		}
		if err := base.Replay(r.Key, r.Value); err != nil {
			rt.Fatal(err)
		}
	}
}

// Widen deploys a version of the program with wider windows, over the base as it is.
func (m *machine) Widen(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "rarely") > 0 {
		return
	}
	m.abort()
	i := rapid.IntRange(0, 1).Draw(rt, "store")
	old := m.k.fingerprint()
	if m.committed.streamTime != NoStreamTime {
		was, _ := m.k.base.Marker()
		if w := storedWindow(was.Fingerprint, []string{"inbox", "late-inbox"}[i]); w == m.windows[i] {
			m.committed.floor[i] = max(m.committed.floor[i], m.committed.streamTime-m.windows[i].Milliseconds())
		}
	}
	m.windows[i] *= 3
	m.declare(&m.k.stage)
	if err := CheckFingerprint(old, m.k.fingerprint(), nil, nil); err != nil {
		rt.Fatal(err)
	}
	m.newView()
}

// invariant: contents, digest and marker are those of the log, by a fold that knows nothing of this package.
func (m *machine) invariant(rt *rapid.T) {
	live := map[string][]byte{}
	for _, r := range m.k.log {
		if r.Value == nil {
			delete(live, string(r.Key))
		} else {
			live[string(r.Key)] = r.Value
		}
	}
	marker, hasMarker := live["\x00m"]
	delete(live, "\x00m")
	var digest uint64
	for k, val := range live {
		digest += xxhash.Sum64(append(append(binary.AppendUvarint(nil, uint64(len(k))), k...), val...))
	}
	got, ok := m.k.base.Marker()
	if ok != hasMarker || ok && !bytes.Equal(got.Append(nil), marker) {
		rt.Fatalf("marker %v %v, want %x", got, ok, marker)
	}
	if m.k.base.Digest() != digest || got.Digest != digest {
		rt.Fatalf("digest %x, the marker's %x, want %x", m.k.base.Digest(), got.Digest, digest)
	}
	m.sameContents(rt, live)
}

func (m *machine) sameContents(rt *rapid.T, live map[string][]byte) {
	var keys []string
	err := m.k.base.Ascend(nil, nil, func(key, value []byte) bool {
		if !bytes.Equal(live[string(key)], value) {
			rt.Fatalf("key %x: %x, want %x", key, value, live[string(key)])
		}
		keys = append(keys, string(key))
		return true
	})
	if err != nil {
		rt.Fatal(err)
	}
	if len(keys) != len(live) || !slices.IsSortedFunc(keys, cmp.Compare[string]) {
		rt.Fatalf("%d keys in order %q, want %d", len(keys), keys, len(live))
	}
	view := NewView(m.k.specs, m.k.base)
	for i, table := range m.tables {
		if got := maps.Collect(table.All(view)); !maps.Equal(got, m.committed.tables[i]) {
			rt.Fatalf("table %d: %v, want %v", i, got, m.committed.tables[i])
		}
	}
}

func TestViewBehavesLikeACopyOfTheWorld(t *testing.T) {
	for range 20 { // the rarest sabotage tried was found once in a thousand scripts
		rapid.Check(t, func(rt *rapid.T) {
			m := newMachine(rt)
			rt.Repeat(map[string]func(*rapid.T){
				"": m.invariant, "record": m.Record, "record again": m.Record, "record once more": m.Record, "commit": m.Commit,
				"abort": m.Abort, "restore": m.Restore, "widen": m.Widen,
			})
		})
	}
}
