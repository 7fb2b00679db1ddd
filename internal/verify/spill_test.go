package verify

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// tiny makes every inbox spill after a few entries.
func tiny(entries int) memory { return memory{tables: 1, least: entries, create: scratchIn("")} }

func (w *world) auditWith(t testing.TB, m memory) (Report, error) {
	r := w.rules()
	r.memory = m
	return auditAll(t.Context(), r, w, w.partitions, 1)
}

// Whatever the history is, right or wrong, the memory that ids may take changes nothing in the report.
func TestTheReportIsTheSameWhenIDsAreSpilled(t *testing.T) {
	spilled := false
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		if rapid.Bool().Draw(rt, "faulty") {
			mutate(rt, w)
		}
		large, err1 := w.audit(t)
		small := tiny(rapid.IntRange(1, 5).Draw(rt, "entries"))
		create := small.create
		small.create = func() (scratchFile, error) { spilled = true; return create() }
		got, err2 := w.auditWith(t, small)
		if fmt.Sprint(err1) != fmt.Sprint(err2) || !reflect.DeepEqual(large, got) {
			rt.Errorf("with spills: %v\n%+v\nwithout: %v\n%+v", err2, got, err1, large)
		}
	})
	if !spilled {
		t.Error("nothing was spilled")
	}
}

func TestAnIDTableOnDiskAnswersAsOneInMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table := newIDTable(0, rapid.IntRange(1, 40).Draw(rt, "least"), scratchIn(""))
		defer table.close()
		model, horizon := map[identity]entry{}, int64(0)
		for i := range rapid.IntRange(1, 2000).Draw(rt, "n") {
			horizon += int64(rapid.SampledFrom([]int{0, 0, 0, 1, 7}).Draw(rt, "time"))
			e := newEntry(identityOf(rapid.IntRange(0, 300).Draw(rt, "id")), uint64(i), int64(i), horizon+100, true)
			if old, known := model[e.id]; known && old.bucketEnd > horizon {
				continue // an id is filed again only when it no longer counts
			}
			table.put(e, horizon)
			model[e.id] = e
		}
		for i := range 310 {
			id := identityOf(i)
			want, known := model[id]
			got, found := table.find(id)
			counts := known && want.bucketEnd > horizon
			if counts && (!found || got != want) || !counts && found && got.bucketEnd > horizon {
				rt.Fatalf("id %d is %+v %v, want %+v %v", i, got, found, want, known)
			}
		}
		if table.err != nil {
			rt.Fatal(table.err)
		}
	})
}

func identityOf(i int) identity {
	var h hasher
	return h.identity(&event{id: fmt.Append(nil, i)})
}

// Many runs: levels are merged, expired ones dropped, and look-ups without a filter are right.
func TestRunsAreMergedAndExpire(t *testing.T) {
	table := newIDTable(0, 10, scratchIn(""))
	defer table.close()
	const n = 3000
	for i := range n {
		table.put(newEntry(identityOf(i), 1, int64(i), int64(i), true), int64(i)-1000)
	}
	if got := len(table.runs.all); got == 0 || got > 3*fanIn {
		t.Errorf("%d runs on disk", got)
	}
	if table.runs.memory() > 1000/blockEntries*16+int64(len(table.runs.all))*16 {
		t.Errorf("%d bytes held for runs, though no filter fits", table.runs.memory())
	}
	kept := 0
	for _, r := range table.runs.all {
		kept += r.n
	}
	if kept > 2500 {
		t.Errorf("%d entries on disk, 1000 count", kept)
	}
	for i := n - 1000; i < n; i++ {
		if e, ok := table.find(identityOf(i)); !ok || e.offset() != int64(i) {
			t.Fatalf("entry %d: %v %v", i, e, ok)
		}
	}
}

func TestAFilterHasWhatWasAddedAndLittleElse(t *testing.T) {
	const n = 20_000
	f, passed := newFilter(n), 0
	for i := range n {
		id := identityOf(i)
		f.add(&id)
	}
	for i := range n {
		id, other := identityOf(i), identityOf(n+i)
		if !f.has(&id) {
			t.Fatalf("id %d is missed", i)
		}
		if f.has(&other) {
			passed++
		}
	}
	if passed > n/40 {
		t.Errorf("%d of %d strangers pass", passed, n)
	}
}

func TestPostingsAreSortedWhereverTheyAre(t *testing.T) {
	for _, least := range []int{1 << 20, 700} {
		s := tiny(least).sorter()
		var want, got []posting
		for i := range 5000 {
			p := newPosting(identityOf(i*7919%2500), int32(i%3), int64(i), true)
			want = append(want, p)
			if err := s.add([]posting{p}); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortFunc(want, comparePostings)
		err := s.each(func(p posting) error { got = append(got, p); return nil })
		if err != nil || !slices.Equal(got, want) || (len(s.runs) > 1) != (least == 700) {
			t.Errorf("%v, %d of %d in %d runs", err, len(got), len(want), len(s.runs))
		}
		s.close()
	}
}

// fullDisk takes so many bytes.
type fullDisk struct {
	scratchFile
	left *int
}

func (f fullDisk) Write(b []byte) (int, error) {
	if *f.left -= len(b); *f.left < 0 {
		return 0, &SpillError{"/scratch", syscall.ENOSPC}
	}
	return f.scratchFile.Write(b)
}

func TestAFullDiskIsAnErrorThatNamesTheRemedy(t *testing.T) {
	w := many(3000, 300)
	full := errors.New("")
	for left := 0; full != nil; left += 20_000 {
		m, files, room := tiny(500), 0, left
		m.create = func() (scratchFile, error) {
			f, err := scratchIn("")()
			files++
			return closing{fullDisk{f, &room}, &files}, err
		}
		var r Report
		r, full = w.auditWith(t, m)
		spill, ok := errors.AsType[*SpillError](full)
		if full != nil && (!ok || !errors.Is(spill, syscall.ENOSPC) || !strings.Contains(full.Error(), "spill event ids to /scratch: no space left on device: free space there")) {
			t.Fatalf("with room for %d bytes: %v", left, full)
		}
		if !r.OK() || full == nil && r.Inputs != 3300 || left == 0 && full == nil {
			t.Errorf("with room for %d bytes: %+v", left, r)
		}
		if files != 0 {
			t.Errorf("with room for %d bytes: %d files are left open", left, files)
		}
	}
}

type closing struct {
	scratchFile
	open *int
}

func (c closing) Close() error { *c.open--; return c.scratchFile.Close() }

func TestTemporaryFilesHaveNoName(t *testing.T) {
	dir := t.TempDir()
	f, err := scratchIn(dir)()
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" { // which keeps the names of open files
		wantEmpty(t, dir)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	wantEmpty(t, dir)
	_, err = scratchIn(dir + "/none")()
	if _, ok := errors.AsType[*SpillError](err); !ok {
		t.Error(err)
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("%v %v", names, err)
	}
}

// many is a correct history of one partition: n credits, and again duplicates spread over them.
func many(n, again int) *world {
	w := newWorld(1)
	for i := range n {
		e := in{id: fmt.Sprintf("8f14e45f-ceea-467f-9a0b-%012d", i), kind: "credit", account: fmt.Sprintf("ACC-%07d", i*7919%1000), cents: int64(i%500 + 1)}
		w.feed(0, e)
		if i%(n/again) == 0 {
			w.feed(0, e)
		}
		if i%5000 == 4999 {
			w.jobs[0].commit()
		}
	}
	return w.commit()
}

// The heap that an inbox and the postings hold stays within what they are given, whatever number of ids comes.
func TestRawModeLeavesRoomForWhatItRemembers(t *testing.T) {
	for want, c := range map[int64]Config{512 << 20: {}, 384 << 20: {Raw: true}, 1 << 30: {Raw: true, Memory: 1 << 30}} {
		if got := c.withDefaults().Memory; got != want {
			t.Errorf("%+v: %d bytes, want %d", c, got, want)
		}
	}
}

func TestTheMemoryOfIDsIsBounded(t *testing.T) {
	const limit = 4 << 20
	m := memory{bytes: limit, tables: 1, create: scratchIn("")}
	before, most := heldHeap(), uint64(0)
	table, sorter := m.table(), m.sorter()
	const n = 600_000 // 24 MB of entries and 14 MB of postings
	for i := range n {
		id := identityOf(i)
		table.put(newEntry(id, 1, int64(i), 1, true), 0)
		if err := errors.Join(table.err, sorter.add([]posting{newPosting(id, 0, int64(i), true)})); err != nil {
			t.Fatal(err)
		}
		if i%20_000 == 0 {
			most = max(most, heldHeap()-before)
		}
	}
	if len(table.runs.all) == 0 || len(sorter.runs) == 0 {
		t.Error("nothing was spilled")
	}
	if most > limit*5/4 {
		t.Errorf("%d bytes held, %d are allowed", most, limit)
	}
	t.Logf("at most %d bytes held of %d, %d runs of ids", most, limit, len(table.runs.all))
	for i := 0; i < n; i += 997 {
		if e, ok := table.find(identityOf(i)); !ok || e.offset() != int64(i) {
			t.Fatalf("entry %d: %v %v", i, e, ok)
		}
	}
	table.close()
	sorter.close()
}

func heldHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// badSector can be written, and not be read once it has gone bad.
type badSector struct {
	scratchFile
	bad *bool
}

func (b badSector) ReadAt(p []byte, at int64) (int, error) {
	if *b.bad {
		return 0, &SpillError{"/scratch", syscall.EIO}
	}
	return b.scratchFile.ReadAt(p, at)
}

// What a baseline remembers may have gone to disk: when it cannot be read again, nobody knows what was applied twice.
func TestWhatABaselineRemembersAndCannotBeReadIsAnError(t *testing.T) {
	w := newWorld(2)
	for i := range 20 {
		w.feed(0, in{id: fmt.Sprint(i), kind: "credit", account: w.accountOn(0, 0), cents: 5})
	}
	name := w.commit().saved(t, t.TempDir())
	for i := range 20 {
		w.feed(1, in{id: fmt.Sprint(i), kind: "credit", account: w.accountOn(1, 0), cents: 5})
	}
	w.commit()
	m, bad := tiny(15), false
	m.create = func() (scratchFile, error) {
		f, err := scratchIn("")()
		return badSector{f, &bad}, err
	}
	x := w.rounds(m)
	defer x.close()
	if _, err := x.readBaseline(name, w.subject()); err != nil {
		t.Fatal(err)
	}
	x.r.memory.least, x.audits[1].inbox.ids.least, bad = 1000, 1000, true // only what came with the baseline lies there
	if r, _, err := x.round(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v: %+v", err, r)
	}
}

// The last input may be the one whose id no longer fits: what is written or asked for behind it misses ids.
func TestAnErrorBehindTheLastInputIsNotForgotten(t *testing.T) {
	w := newWorld(1)
	for i := range 6 {
		w.feed(0, in{id: fmt.Sprint(i), kind: "credit", account: w.accountOn(0, 0), cents: 5})
	}
	w.commit()
	m := tiny(5)
	m.create = func() (scratchFile, error) { return nil, &SpillError{"/scratch", syscall.ENOSPC} }
	x := w.rounds(m)
	defer x.close()
	if _, _, err := x.round(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if err := x.audits[0].inbox.ids.each(func(*entry) {}); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}
