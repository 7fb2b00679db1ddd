package pipeline_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/pipeline"
)

// Nothing else would tell that a stage which other stages feed has another name: its new repartition topic is empty and its new
// state as well, so that it would count from nothing, and nobody would read what is on its way to the old one.
func TestStageBehindAHopThatIsGoneIsRefusedWithTheWayOut(t *testing.T) {
	before, after := perValue("hops"), perValueIn("hops", "later")
	w := newWorld(t, before)
	w.apply(after)
	w.click(3)
	if err := w.tryStart(before); err != nil {
		t.Fatal("a group that does not exist yet has read nothing: ", err)
	}
	w.runUntil(before, 6) // three clicks, and three records of the hop
	err := w.tryStart(after)
	if err == nil {
		t.Fatal("the stage that is gone is not missed")
	}
	for _, says := range []string{`stage "second"`, `stage "later" is new`, "revert", `"hops-second-repartition"`, `"hops-second-state"`, "new application.id"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v\ndoes not say %s", err, says)
		}
	}
	if err := w.tryStart(before); err != nil {
		t.Errorf("the version before does not go on: %v", err)
	}
	if err := w.tryStart(unfed("hops")); err != nil {
		t.Errorf("a deploy that added the stage cannot be rolled back: %v", err)
	}
	if _, err := kadm.NewClient(w.client).DeleteTopics(t.Context(), "hops-second-repartition", "hops-second-state"); err != nil {
		t.Fatal(err)
	}
	if err := w.tryStart(after); err != nil {
		t.Errorf("after its topics were deleted: %v", err)
	}
}

// unfed is the release before perValue, without a hop.
func unfed(app string) *pipeline.Pipeline {
	p := pipeline.New(app)
	pipeline.Handle(p.Stage("first"), clicks, func(*pipeline.Ctx, pipeline.Record[string, int64]) error { return nil })
	return p
}

// runUntil runs a process until it has committed n inputs.
func (w *world) runUntil(p *pipeline.Pipeline, n int) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	commits, wait := w.run(ctx, p, pipeline.Config{StateDir: w.t.TempDir(), Workers: 1})
	w.waitInputs(commits, n, 30*time.Second)
	cancel()
	if err := wait(); err != nil {
		w.t.Fatal(err)
	}
}

// tryStart runs a process until a task of it is restored, and returns what ended it before.
func (w *world) tryStart(p *pipeline.Pipeline) error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	_, wait := w.run(ctx, p, pipeline.Config{StateDir: w.t.TempDir(), Workers: 1, Events: pipeline.Events{Restored: func(pipeline.Restore) { cancel() }}})
	return wait()
}
