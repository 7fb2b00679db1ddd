package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallystick/tallystick/record"
)

// step is one record with one id; the window is 64 s, so buckets are 1 s wide.
type step struct {
	id   string
	ms   int64
	want Verdict
	fail bool // the record is rolled back
}

func TestVerdictsByStreamTime(t *testing.T) {
	for name, steps := range map[string][]step{
		"same id": {{"a", 0, New, false}, {"a", 0, Duplicate, false}},
		"counts while its bucket ends behind the window": {
			{"a", 1_500, New, false}, {"b", 65_999, New, false}, {"a", 1_500, Duplicate, false}},
		"ceases to count with its bucket": {
			{"a", 1_500, New, false}, {"b", 66_000, New, false}, {"a", 1_500, Expired, false}},
		"at the edge of the window it is new": {
			{"a", 100_000, New, false}, {"b", 36_000, New, false}, {"c", 35_999, Expired, false}},
		"a record's own time counts": {
			{"a", 0, New, false}, {"a", 70_000, New, false}, {"a", 70_000, Duplicate, false}},
		"but not when it failed": {
			{"a", 0, New, false}, {"b", 70_000, New, true}, {"a", 0, Duplicate, false}, {"c", 0, New, false}},
		"an old stamp lives as long as others": {
			{"a", 200_000, New, false}, {"b", 150_000, New, false}, {"c", 264_999, New, false}, {"b", 260_000, Duplicate, false}},
		"an id that came back and failed is what it was": {
			{"a", 0, New, false}, {"a", 70_000, New, true}, {"a", 0, Duplicate, false}, {"a", 70_000, New, false}, {"a", 70_000, Duplicate, false}},
		"before 1970": {{"a", -5_500, New, false}, {"a", -5_500, Duplicate, false}, {"b", 64_000, New, false}, {"a", -5_500, Expired, false}},
	} {
		for _, commit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, commit=%v", name, commit), func(t *testing.T) {
				c := newClaimTask()
				for i, s := range steps {
					c.record(s.ms)
					if got := c.check(s.id, s.ms); got != s.want {
						t.Fatalf("step %d: %v, want %v", i, got, s.want)
					}
					if s.fail {
						c.view.Rollback()
					}
					if commit {
						c.commit(t)
						c.view = NewView(c.specs, c.restored(t)) // a new owner says the same
						c.base = c.view.base.(*Memory)
					}
				}
			})
		}
	}
}

func TestConflictNamesItsFirstEvent(t *testing.T) {
	c := newClaimTask()
	c.view.Savepoint(record.Position{Topic: "other", Partition: 3, Offset: 42}, 0)
	c.inbox.Check(c.view, "a", at(0), Fingerprint{}.String("1.00"))
	for _, committed := range []bool{false, true} {
		if committed {
			c.commit(t)
		}
		c.record(10)
		if v := c.inbox.Check(c.view, "a", at(10), Fingerprint{}.String("2.00")); v != Conflict {
			t.Fatalf("got %v", v)
		}
		if p, ok := c.inbox.First(c.view, "a"); !ok || p.String() != "other/3/42" {
			t.Errorf("first seen at %v %v", p, ok)
		}
		if _, ok := c.inbox.First(c.view, "b"); ok {
			t.Error("an id that was never seen has a first position")
		}
	}
}

// A backlog makes more expired records than a transaction may delete: they go in order, oldest first, and meanwhile no
// verdict depends on them.
func TestTombstonesAreCappedWithoutChangingAnOutcome(t *testing.T) {
	c := newClaimTask()
	for i := range 1300 {
		c.record(0)
		c.check(fmt.Sprintf("id-%d", i), 0)
		c.commit(t)
	}
	var tombstones []int
	for range 3 {
		c.record(500_000)
		for _, i := range []int{0, 1100, 1299} { // deleted first, and last
			if v := c.check(fmt.Sprintf("id-%d", i), 0); v != Expired {
				t.Fatalf("id-%d is %v", i, v)
			}
		}
		s, n := c.commit(t), 0
		for _, r := range s.Records {
			if r.Value == nil {
				n++
			}
		}
		tombstones = append(tombstones, n)
	}
	if fmt.Sprint(tombstones) != "[1000 300 0]" {
		t.Errorf("tombstones by transaction: %v", tombstones)
	}
	if n := len(c.base.named("inbox").ids.index); n != 0 {
		t.Errorf("%d ids are still indexed", n)
	}
}

func TestIDsThatExpireWithinTheirTransactionAreNotWritten(t *testing.T) {
	c := newClaimTask()
	for i := range int64(5000) {
		c.record(i * 1000)
		c.check(fmt.Sprint(i), i*1000)
	}
	if s := c.commit(t); len(s.Records) > 70 {
		t.Errorf("%d records, want the window's 64 buckets and the marker", len(s.Records))
	}
	c.record(0)
	if v := c.check("100", 100_000); v != Expired {
		t.Errorf("an id that was not written is %v", v)
	}
}

// Ids that a narrower window let go must not become new when the window is widened.
func TestWidenedWindowDoesNotForget(t *testing.T) {
	c := newClaimTask()
	c.record(0)
	c.check("deleted", 0)
	c.commit(t)
	c.record(100_000)
	c.check("kept", 100_000)
	c.commit(t)

	wider := &claimTask{task: &task{base: c.base, log: c.log, next: c.next}}
	wider.inbox = NewDedupe(wider, "inbox", 300*time.Second)
	wider.rows = NewTable(wider, "rows", record.String, record.String)
	if err := CheckFingerprint(c.fingerprint(), wider.fingerprint(), nil, nil); err != nil {
		t.Fatal(err)
	}
	wider.view = NewView(wider.specs, c.base)
	for round := range 3 {
		wider.record(100_000)
		for id, want := range map[string]Verdict{"deleted": Expired, "kept": Duplicate} {
			if got := wider.check(id, map[string]int64{"kept": 100_000}[id]); got != want {
				t.Errorf("round %d: %s is %v, want %v", round, id, got, want)
			}
		}
		if v := wider.check(fmt.Sprint("unseen", round), 40_000); v != New {
			t.Errorf("round %d: an event within both windows is %v", round, v)
		}
		if round == 0 {
			wider.view.Drop() // the widening transaction is aborted, then repeated
			continue
		}
		wider.commit(t)
		wider.base = wider.restored(t)
		wider.view = NewView(wider.specs, wider.base)
	}
	if got := wider.base.Floor("inbox"); got != 36_000 {
		t.Errorf("floor %d, want the old window's 36000", got)
	}
	wider.record(36_000 + 300_000) // from here on the floor tells nothing that the window does not
	wider.commit(t)
	wider.record(400_000)
	if s := wider.commit(t); len(s.Records) != 1 {
		t.Errorf("%d records: the floor's record is not deleted by now", len(s.Records))
	}
}
