//go:build synctests

package simulation

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallystick/tallystick/pipeline"
)

// A rolling upgrade adds an input to a stage. While the old version leads the group it knows nothing of the new input and places
// its partitions by themselves: the new version's tasks stand still and say why. When the old version has gone, the rest comes
// to members that have the new input already, and they start over with all of it; nothing is lost or doubled.
func TestInputIsAddedByARollingUpgrade(t *testing.T) {
	dir := evidence(t.Name())
	stop := guard(worldPatience, dir, "go test -tags synctests -run TestInputIsAddedByARollingUpgrade ./internal/simulation")
	defer stop()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(pairJob(), t, 1, 2, newJournal())
		w.damaged = true // tasks may stop
		old := w.prepare(0, 1, "")
		old.pipeline = func() *pipeline.Pipeline { return pairs(false) }
		w.enter(old)
		w.give(200)
		w.enter(w.prepare(1, 1, ""))
		time.Sleep(20 * time.Second)
		split := 0
		for _, task := range w.slots[1].processor.Load().Status().Tasks {
			if task.State == pipeline.Stopped && strings.Contains(task.Error, `its inputs ["orders"]`) {
				split++
			}
		}
		if split == 0 {
			t.Errorf("no task of the new version says that its orders are elsewhere: %+v", w.slots[1].processor.Load().Status().Tasks)
		}
		w.feeder.orders <- 100
		w.remove(old)
		old.leave()
		time.Sleep(20 * time.Second)
		w.give(100)
		for _, task := range w.slots[0].processor.Load().Status().Tasks {
			if task.State != pipeline.Running || len(task.Inputs) != 2 {
				t.Errorf("task %s is %s with inputs %v: %s", task.Task, task.State, task.Inputs, task.Error)
			}
		}
		if !w.journal.has("p1.2.log", "were given before the others") {
			t.Error("the new version's process was not made to join again: its tasks cannot have begun with both inputs at once")
		}
		w.finish(50)
		w.judge()
		w.close()
		if v := w.verdict(); v != "" || t.Failed() {
			w.keep(dir)
			t.Errorf("%s\nevidence: %s", v, dir)
		}
	})
}
