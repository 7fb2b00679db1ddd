package verify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

func (w *world) subject() subject {
	return subject{App: testApp, Topics: w.topics, IDs: map[string]string{w.topics.Input: "a"}, Partitions: w.partitions, WindowMS: testWindow.Milliseconds(), AutoCreate: true, Partitioner: "murmur2"}
}

// saved audits the world and returns its baseline file.
func (w *world) saved(t testing.TB, dir string) string {
	x := w.rounds(tiny(5))
	defer x.close()
	if r, _, err := x.round(t.Context()); err != nil || !r.OK() {
		t.Fatal(err, r.Violations)
	}
	name := filepath.Join(dir, "ledger.baseline")
	if err := x.writeBaseline(name, w.subject(), time.UnixMilli(testNow)); err != nil {
		t.Fatal(err)
	}
	return name
}

// Whatever came before, an audit that goes on from a baseline says the same as one of the whole history, also when retention
// took all inputs that the baseline covers.
func TestAnAuditFromABaselineSaysWhatOneOfAllSays(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rapid.Int32Range(1, 3).Draw(rt, "partitions"))
		clock := make([]int64, 3)
		grow(rt, w, clock, "first")
		name := w.saved(t, dir)
		inputs := w.lengths()
		grow(rt, w, clock, "second")
		want, err := w.audit(t)
		if err != nil {
			rt.Fatal(err)
		}
		for p := range w.partitions {
			at := where(w.topics.Input, p)
			w.first[at] = int64(inputs[at])
			w.logs[w.topics.Input][p] = w.logs[w.topics.Input][p][inputs[at]:]
		}
		x := w.rounds(tiny(5))
		defer x.close()
		info, err := x.readBaseline(name, w.subject())
		if err != nil || info.Written.UnixMilli() != testNow {
			rt.Fatal(err, info)
		}
		got, _, err := x.round(t.Context())
		if err != nil || !reflect.DeepEqual(comparable(got), comparable(want)) {
			rt.Fatalf("%v\n%+v\n%+v", err, got, want)
		}
	})
}

func TestABaselineKnowsWhatWasAppliedElsewhere(t *testing.T) {
	w := newWorld(2)
	w.feed(0, in{id: "twice", kind: "credit", account: w.accountOn(0, 0), cents: 5})
	name := w.commit().saved(t, t.TempDir())
	w.feed(1, in{id: "twice", kind: "credit", account: w.accountOn(1, 0), cents: 5})
	w.commit()
	x := w.rounds(tiny(5))
	defer x.close()
	if _, err := x.readBaseline(name, w.subject()); err != nil {
		t.Fatal(err)
	}
	if r, _, err := x.round(t.Context()); err != nil || r.Counts[DoubleCredit] != 1 {
		t.Error(err, r.Violations)
	}
}

// An outcome that comes again after its input was judged and deleted is a second one all the same.
func TestAnOutcomeRepeatedBehindABaselineIsADuplicate(t *testing.T) {
	w := ordinary()
	name := w.saved(t, t.TempDir())
	log := w.logs[w.topics.Updates][0]
	again := *log[0]
	again.Offset = 0
	w.append(w.topics.Updates, 0, again)
	n := len(w.logs[w.topics.Input][0])
	w.first[where(w.topics.Input, 0)] = int64(n)
	w.logs[w.topics.Input][0] = nil
	x := w.rounds(tiny(5))
	defer x.close()
	if _, err := x.readBaseline(name, w.subject()); err != nil {
		t.Fatal(err)
	}
	if r, _, err := x.round(t.Context()); err != nil || r.Counts[Duplicate] != 1 || len(r.Counts) != 1 {
		t.Error(err, r.Violations)
	}
}

func TestAGapBehindABaselineLeavesItUndecided(t *testing.T) {
	w := ordinary()
	name := w.saved(t, t.TempDir())
	for i := range 5 {
		w.feed(0, in{id: string(rune('A' + i)), kind: "credit", account: w.accountOn(0, 0), cents: 5})
	}
	w.commit()
	end := int64(len(w.logs[w.topics.Input][0]))
	w.first[where(w.topics.Input, 0)] = end - 2
	w.logs[w.topics.Input][0] = w.logs[w.topics.Input][0][end-2:]
	x := w.rounds(tiny(5))
	defer x.close()
	if _, err := x.readBaseline(name, w.subject()); err != nil {
		t.Fatal(err)
	}
	r, _, err := x.round(t.Context())
	if _, undecided := errors.AsType[*UndecidedError](err); !undecided || !r.OK() || !strings.Contains(err.Error(), "retention took inputs in between; keep inputs longer") {
		t.Error(err, r.Violations)
	}
}

func TestAJobThatWasSetBackDoesNotFitItsBaseline(t *testing.T) {
	w := ordinary()
	early := *w
	early.logs = map[string][][]*kgo.Record{}
	for topic, logs := range w.logs {
		early.logs[topic] = append([][]*kgo.Record(nil), logs...)
	}
	early.commits = append([]commit(nil), w.commits...)
	commitLater(w, 1)
	name := w.saved(t, t.TempDir())
	x := early.rounds(tiny(5))
	defer x.close()
	if _, err := x.readBaseline(name, early.subject()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.round(t.Context()); err == nil || !strings.Contains(err.Error(), "the job was set back") {
		t.Error(err)
	}
}

func TestABaselineOfAnotherJobIsRefused(t *testing.T) {
	w := ordinary()
	name := w.saved(t, t.TempDir())
	for says, change := range map[string]func(*subject){
		`of application.id "bank", not of "other": name that job's own file`: func(s *subject) { s.App = "other" },
		"of the topics": func(s *subject) { s.Topics.Updates = "other" },
		"topic credit-events was deleted and created again":                       func(s *subject) { s.IDs = map[string]string{w.topics.Input: "b"} },
		"written with dedupe.window 64000ms, now it is 1ms":                       func(s *subject) { s.WindowMS = 1 },
		"accounts.auto_create true and partitioner murmur2, now they are false":   func(s *subject) { s.AutoCreate = false },
		"is of 2 partitions, the topics have 3: keys have moved; begin anew with": func(s *subject) { s.Partitions = 3 },
		"of another job": func(s *subject) { s.IDs = nil },
	} {
		s := w.subject()
		change(&s)
		x := w.rounds(tiny(5))
		_, err := x.readBaseline(name, s)
		if _, ok := errors.AsType[*BaselineError](err); !ok || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
		x.close()
	}
}

func TestABaselineThatIsNotWholeIsRefused(t *testing.T) {
	w := ordinary()
	dir := t.TempDir()
	name := w.saved(t, dir)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(i int) []byte {
		b := append([]byte(nil), whole...)
		b[i] ^= 4
		return b
	}
	for says, contents := range map[string][]byte{
		"is no baseline":                     []byte("hello, this is some other file of somebody\n"),
		"it is no baseline":                  {},
		"of version 2, this command reads":   append([]byte("tallystick verify baseline 2\n"), whole[len(baselineMagic):]...),
		"cut short or changed":               whole[:len(whole)-1],
		"not match its checksum":             flip(len(whole) - 1),
		"contents do not match its checksum": flip(len(baselineMagic) + 20),
		"match its checksum: it was cut":     flip(len(whole) - 60),
		"its checksum":                       whole[:len(baselineMagic)],
	} {
		file := filepath.Join(dir, "other")
		if err := os.WriteFile(file, contents, 0o600); err != nil {
			t.Fatal(err)
		}
		x := w.rounds(tiny(5))
		_, err := x.readBaseline(file, w.subject())
		if _, ok := errors.AsType[*BaselineError](err); !ok || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
		x.close()
	}
	x := w.rounds(tiny(5))
	defer x.close()
	if _, err := x.readBaseline(filepath.Join(dir, "none"), w.subject()); err == nil || !strings.Contains(err.Error(), "name a file that verify --write-baseline wrote") {
		t.Error(err)
	}
	if err := x.writeBaseline(filepath.Join(dir, "none", "file"), w.subject(), time.Now()); err == nil || !strings.Contains(err.Error(), "name a folder that exists") {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("%v %v", names, err)
	}
}

// A baseline from before inputs were given up leads to no OK over them: nobody can tell what had to become of them.
func TestABaselineFromBeforeAGapIsNoWayAroundIt(t *testing.T) {
	w := ordinary()
	name := w.saved(t, t.TempDir())
	end := int64(len(w.logs[w.topics.Input][0]))
	w.feed(0, in{id: "lost", kind: "credit", account: w.accountOn(0, 0), cents: 5}, in{id: "read", kind: "credit", account: w.accountOn(0, 0), cents: 5})
	w.logs[w.topics.Updates][0] = w.logs[w.topics.Updates][0][:len(w.logs[w.topics.Updates][0])-2]
	w.append(w.topics.DeadLetters, 0, kgo.Record{Headers: []kgo.RecordHeader{
		{Key: headerLost, Value: []byte(where(w.topics.Input, 0) + fmt.Sprintf("/%d", end))}, {Key: headerLostNext, Value: fmt.Append(nil, end+1)}, {Key: headerLostBy, Value: []byte("who")}}})
	w.first[where(w.topics.Input, 0)] = end + 1
	w.logs[w.topics.Input][0] = w.logs[w.topics.Input][0][end+1:]
	w.commit()
	x := w.rounds(tiny(5))
	defer x.close()
	if _, err := x.readBaseline(name, w.subject()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also when asked again
		_, _, err := x.round(t.Context())
		if _, undecided := errors.AsType[*UndecidedError](err); !undecided {
			t.Error(err)
		}
	}
}

// A partition of which nothing was judged yet has no gap before what it still holds.
func TestABaselineOfAPartitionWithoutInputsLeavesNoGap(t *testing.T) {
	w := newWorld(1)
	w.append(w.topics.Input, 0, kgo.Record{Key: []byte("old"), Value: []byte("{}")})
	w.first[where(w.topics.Input, 0)] = 1
	name := w.saved(t, t.TempDir())
	w.feed(0, in{id: "first", kind: "credit", account: w.accountOn(0, 0), cents: 1})
	w.commit()
	x := w.rounds(tiny(5))
	defer x.close()
	if _, err := x.readBaseline(name, w.subject()); err != nil {
		t.Fatal(err)
	}
	if r, _, err := x.round(t.Context()); err != nil || !r.OK() || r.Inputs != 1 {
		t.Error(err, r.Violations)
	}
	w.first[where(w.topics.Input, 0)] = 2
	y := w.rounds(tiny(5))
	defer y.close()
	if _, err := y.readBaseline(name, w.subject()); err != nil {
		t.Fatal(err)
	}
	if r, _, err := y.round(t.Context()); !onlyUndecided(err) || err == nil || !r.OK() {
		t.Error(err, r.Violations)
	}
}
