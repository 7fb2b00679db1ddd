package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/record"
)

// Entries are the same however the records were cut into transactions, and end with what counts.
func TestEntriesDoNotDependOnTransactions(t *testing.T) {
	fill := func(commitEvery int) *task {
		var rows Table[string, string]
		var ids Dedupe
		k := newTask(func(s *stage) {
			rows = NewTable(s, "rows", record.String, record.String)
			ids = NewDedupe(s, "ids", 64*time.Second)
		})
		for i, ms := range []int64{1_500, 2_500, 3_500, 90_000, 91_000} {
			k.record(ms)
			ids.Check(k.view, fmt.Sprint("id-", i), time.UnixMilli(ms), Fingerprint{}.String("x"))
			rows.Put(k.view, fmt.Sprint("row-", i%3), fmt.Sprint("value-", i))
			if i == 2 {
				rows.Delete(k.view, "row-1")
			}
			if (i+1)%commitEvery == 0 || i == 4 {
				k.commit(t)
			}
		}
		return k
	}
	text := func(k *task) string {
		entries, err := Entries(k.specs, k.base)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, e := range entries {
			fmt.Fprintf(&b, "%s %x %q %x@%d\n", e.Store, e.Key, e.Value, e.Seen.Fingerprint, e.Seen.Offset)
		}
		return b.String()
	}
	each, once := fill(1), fill(5)
	if each.base.Digest() == once.base.Digest() {
		t.Error("the transactions left no trace at all: this test compares nothing")
	}
	if got, want := text(each), text(once); got != want {
		t.Errorf("one by one:\n%sat once:\n%s", got, want)
	}
	if got := text(once); strings.Count(got, "ids ") != 2 || strings.Count(got, "rows ") != 3 {
		t.Errorf("want two ids that still count and three rows:\n%s", got)
	}
}

func TestEntriesRefuseAStoreThatIsNotDeclared(t *testing.T) {
	k := newTask(func(s *stage) { NewTable(s, "rows", record.String, record.String) })
	base := NewMemory(k.specs)
	if err := base.Replay(append(appendPrefix(nil, "rows"), 'k'), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, err := Entries(nil, base); err == nil || !strings.Contains(err.Error(), `store "rows" is not declared`) {
		t.Errorf("got %v", err)
	}
}
