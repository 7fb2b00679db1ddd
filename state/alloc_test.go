package state

import (
	"encoding/binary"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/tallystick/tallystick/record"
)

// account is a value like the ledger's, with a codec that does not allocate: the gate counts the store, not JSON.
type account struct{ Balance, Version int64 }

type accountCodec struct{}

func (accountCodec) ID() string { return "account" }

func (accountCodec) Append(dst []byte, a account) ([]byte, error) {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(a.Balance)), uint64(a.Version)), nil
}

func (accountCodec) Decode(src []byte) (account, error) {
	return account{int64(binary.BigEndian.Uint64(src)), int64(binary.BigEndian.Uint64(src[8:]))}, nil
}

// ledger is the shape of the ledger's stage; names and ids are made before anything is measured.
type ledger struct {
	*task
	inbox    Dedupe
	accounts Table[string, account]
	names    []string
	ids      []string
	at       int
}

func newLedger(names, ids int) *ledger {
	l := &ledger{}
	l.task = newTask(func(s *stage) {
		l.inbox = NewDedupe(s, "inbox", 24*time.Hour)
		l.accounts = NewTable(s, "accounts", record.String, record.Codec[account](accountCodec{}))
	})
	for i := range names {
		l.names = append(l.names, "account-"+strconv.Itoa(i))
	}
	for i := range ids {
		l.ids = append(l.ids, "8c1f6c52-7d1c-4a9e-9c51-"+strconv.Itoa(1e12+i))
	}
	return l
}

// event posts one event, as the ledger does: its id is checked, its account read and written. Every tenth fails.
func (l *ledger) event() {
	i := l.at
	l.at++
	l.record(1_700_000_000_000 + int64(i))
	id, name := l.ids[i%len(l.ids)], l.names[i%len(l.names)]
	if l.inbox.Check(l.view, id, at(1_700_000_000_000+int64(i)), Fingerprint{}.String(name).Int64(7)) == New {
		a, _ := l.accounts.Get(l.view, name)
		l.accounts.Put(l.view, name, account{a.Balance + 7, a.Version + 1})
	}
	if i%10 == 9 {
		l.view.Rollback()
	}
}

// commit is the task's without keeping a log.
func (l *ledger) commit(t testing.TB) {
	s := l.seal(t)
	if err := l.view.Merge(s, 0); err != nil {
		t.Fatal(err)
	}
}

const transaction = 2000

func TestRecordsAllocateNothingInSteadyState(t *testing.T) {
	l := newLedger(500, 1<<17)
	for range 5 * transaction { // the arena and the maps reach their size
		l.event()
		if l.at%transaction == 0 {
			l.commit(t)
		}
	}
	if n := testing.AllocsPerRun(transaction-1, l.event); n != 0 {
		t.Errorf("new ids: %v allocations a record, want 0", n)
	}
	l.noErr(t)
	l.commit(t)
	l.at = 0
	if n := testing.AllocsPerRun(transaction-1, l.event); n != 0 {
		t.Errorf("duplicates: %v allocations a record, want 0", n)
	}
	l.noErr(t)
}

// A transaction may allocate for its packed ids and what Apply keeps, but not for each record or key.
func TestACommitAllocatesLittle(t *testing.T) {
	l := newLedger(500, 1<<17)
	run := func() {
		for range transaction {
			l.event()
		}
		l.commit(t)
	}
	for range 5 {
		run()
	}
	if n := testing.AllocsPerRun(20, run); n > 60 {
		t.Errorf("%v allocations for a transaction of %d records, want at most 60", n, transaction)
	}
}

// BenchmarkEvent is the whole cost of an event in the store, commit included: by the number of ids that are remembered,
// since beyond the processor's cache the index costs memory latency.
func BenchmarkEvent(b *testing.B) {
	for _, ids := range []int{20_000, 1_000_000} {
		b.Run(strconv.Itoa(ids), func(b *testing.B) {
			l := newLedger(1000, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				l.event()
				if l.at%transaction == 0 {
					l.commit(b)
				}
				if l.at%ids == 0 {
					_ = l.base.Reset()
				}
			}
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	l := newLedger(10_000, 1<<20)
	for range 10 * transaction {
		l.event()
		if l.at%transaction == 0 {
			l.task.commit(b)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		l.restored(b)
	}
	b.ReportMetric(float64(len(l.log))*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// heap returns what make keeps alive.
func heap(t *testing.T, make func() any) int64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func TestAnIDCosts60To90Bytes(t *testing.T) {
	for _, n := range []int{100_000, 150_000} {
		m := newMemoryIDs()
		used := heap(t, func() any {
			fillIDs(m, n, 1000)
			return m
		})
		perID, estimate := float64(used)/float64(n), float64(m.bytes)/float64(n)
		t.Logf("%d ids: %.1f bytes each, estimated %.1f", n, perID, estimate)
		if perID < 60 || perID > 90 || estimate/perID < 0.75 || estimate/perID > 1.25 {
			t.Errorf("%d ids: %.1f bytes each, estimated %.1f: want 60 to 90, and the estimate within a quarter", n, perID, estimate)
		}
	}
}

func fillIDs(m *memoryIDs, n, each int) {
	v := &View{}
	for i := 0; i < n; i += each {
		value := appendFramed([]byte{packedSchema}, "credit-events")
		value = binary.AppendUvarint(value, uint64(each))
		for j := range each {
			value = appendPackedID(value, v.hashID(strconv.Itoa(i+j)), 1, int64(i+j))
		}
		m.put(appendPackedKey(nil, "", int64(i), uint64(i))[1:], value)
	}
}

func TestMemoryEstimatesItsRows(t *testing.T) {
	for _, size := range []int{0, 40, 250} {
		for _, n := range []int{20_000, 50_000} {
			m := newMemoryTable()
			used := heap(t, func() any {
				for i := range n {
					m.set(m.add([]byte("account-"+strconv.Itoa(i))), make([]byte, size))
				}
				return m
			})
			ratio := float64(m.bytes) / float64(used)
			t.Logf("%d rows of %d bytes: %d each, estimated %d", n, size, used/int64(n), m.bytes/int64(n))
			if ratio < 0.75 || ratio > 1.35 {
				t.Errorf("%d rows of %d bytes: estimated %d, used %d", n, size, m.bytes, used)
			}
		}
	}
}
