//go:build synctests

package simulation

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// damage is something that was done to the topics or the group while the job stood still. The engine must see it before it
// processes a record, name the invariant, and stop that task alone.
type damage struct {
	name      string
	do        func(t *testing.T, w *world, at kadm.Offset) // at is what the group has committed for the damaged partition
	invariant string                                       // "" = the job goes on as if nothing had been
}

const damaged int32 = 1 // partition

func damages() []damage {
	moved := func(by int64, metadata func(string) string) func(*testing.T, *world, kadm.Offset) {
		return func(t *testing.T, w *world, at kadm.Offset) {
			at.At, at.Metadata = at.At+by, metadata(at.Metadata)
			var offsets kadm.Offsets
			offsets.Add(at)
			if err := kadm.NewClient(w.admin).CommitAllOffsets(w.ctx, app, offsets); err != nil {
				t.Fatal(err)
			}
		}
	}
	kept := func(m string) string { return m }
	none := func(string) string { return "" }
	return []damage{
		{"offset-moved-back", moved(-5, kept), "I1"},
		{"offset-moved-ahead", moved(5, kept), "I1"},
		{"offset-set-by-another-tool", moved(0, none), "I2"},
		{"offset-of-another-transaction", moved(0, func(m string) string { return strings.Replace(m, "txn=", "txn=9", 1) }), "I2"},
		{"offsets-gone", offsetsGone, ""},
		{"input-expired", inputExpired, "I4"},
		{"state-truncated", stateTruncated, "I3"},
	}
}

func offsetsGone(t *testing.T, w *world, _ kadm.Offset) {
	if _, err := kadm.NewClient(w.admin).DeleteGroup(w.ctx, app); err != nil {
		t.Fatal(err)
	}
}

// inputExpired deletes unread input, as retention does.
func inputExpired(t *testing.T, w *world, at kadm.Offset) {
	w.feeder.orders <- 200
	time.Sleep(3 * time.Second)
	truncate(t, w, inputTopic, at.At+3)
}

// stateTruncated deletes the oldest records of the state topic: a key or more is lost.
func stateTruncated(t *testing.T, w *world, _ kadm.Offset) { truncate(t, w, stateTopic, 10) }

func truncate(t *testing.T, w *world, topic string, before int64) {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, damaged, before, -1)
	if _, err := kadm.NewClient(w.admin).DeleteRecords(w.ctx, offsets); err != nil {
		t.Fatal(err)
	}
}

// Guarantee: G5
// Sabotage: damaged-between-runs
func TestDamageIsNamedAndNothingIsProcessedOnIt(t *testing.T) {
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			dir := evidence(t.Name())
			stop := guard(worldPatience, dir, "go test -tags synctests -run '"+t.Name()+"' ./internal/simulation")
			defer stop()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 2, newJournal())
				d.test(t, w)
				if t.Failed() {
					w.keep(dir)
					t.Logf("evidence: %s", dir)
				}
			})
		})
	}
}

func (d damage) test(t *testing.T, w *world) {
	w.damaged = d.invariant != ""
	p := w.begin()
	w.give(100)
	p.leave()
	w.slots = nil
	adm := kadm.NewClient(w.admin)
	if _, err := adm.LeaveGroup(w.ctx, kadm.LeaveGroup(app).InstanceIDs(p.instance()+"-0")); err != nil {
		t.Fatal(err)
	}
	offsets, err := adm.FetchOffsets(w.ctx, app)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := offsets.Lookup(inputTopic, damaged)
	d.do(t, w, before.Offset)
	w.enter(w.prepare(0, 1, p.dir))
	w.feeder.orders <- 100
	time.Sleep(20 * time.Second)
	if d.invariant == "" {
		w.finish(50)
		w.judge()
		w.close()
		if v := w.verdict(); v != "" {
			t.Error(v)
		}
		return
	}
	d.judge(t, w, before.At)
}

// judge sees to it that one task has stopped under the invariant's name, and that the others went on.
func (d damage) judge(t *testing.T, w *world, was int64) {
	status := w.slots[0].processor.Load().Status()
	stopped := 0
	for _, task := range status.Tasks {
		if task.Error == "" {
			continue
		}
		stopped++
		if task.Partition != damaged || !strings.Contains(task.Error, d.invariant) || !w.findings[d.invariant] {
			t.Errorf("task %s stopped with %q, invariants %v: want partition %d and %s", task.Task, task.Error, w.findings, damaged, d.invariant)
		}
	}
	if stopped != 1 || len(status.Tasks) != partitions {
		t.Errorf("%d of %d tasks stopped: want one of %d", stopped, len(status.Tasks), partitions)
	}
	close(w.feeder.orders)
	<-w.feeder.done
	p := w.slots[0]
	p.stop()
	<-p.done
	for _, q := range w.all {
		<-q.done
	}
	time.Sleep(30 * time.Second)
	w.close()
}
