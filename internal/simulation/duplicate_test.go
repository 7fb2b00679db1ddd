//go:build synctests

package simulation

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallystick/tallystick/pipeline"
)

// Two live processes under one group.instance.id, with state directories that do not know of each other, fence each other
// without end. One of them must say so and give way, and nothing may be lost or doubled meanwhile.
func TestTwoProcessesUnderOneNameAreToldApart(t *testing.T) {
	dir := evidence(t.Name())
	stop := guard(worldPatience, dir, "go test -tags synctests -run TestTwoProcessesUnderOneName ./internal/simulation")
	defer stop()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, newJournal())
		w.expect, w.clientLogs = pipeline.ErrDuplicateInstance, true
		first, second := w.prepare(0, 1, ""), w.prepare(0, 1, "")
		w.enter(first)
		w.give(100)
		w.enter(second)
		for range 20 {
			w.feeder.orders <- 20
			time.Sleep(3 * time.Second)
		}
		told := 0
		for _, p := range []*process{first, second} {
			if errors.Is(p.err(), pipeline.ErrDuplicateInstance) {
				told++
				w.remove(p)
			}
		}
		if told != 1 {
			t.Errorf("%d of 2 processes ended with ErrDuplicateInstance: want one", told)
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
