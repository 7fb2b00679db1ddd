package pipeline_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/pipeline"
)

// A task that its proof stopped is shown where its state stands, and not at 0: an operator compares it with lag.
func TestTaskThatItsProofStoppedIsShownWhereItStands(t *testing.T) {
	p := totalPerKey("stands")
	w := newWorld(t, p)
	const keys = 40
	w.click(keys)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	commits, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1})
	w.waitInputs(commits, keys, 20*time.Second)
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	stands := w.moveAll("stands", -1)
	stopped := make(chan pipeline.TaskID, 16)
	processor, err := pipeline.NewProcessor(pipeline.Config{Brokers: w.broker.Addrs(), StateDir: t.TempDir(), Workers: 1, Events: pipeline.Events{Stopped: func(id pipeline.TaskID, _ error) { stopped <- id }}}, p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- processor.Run(ctx) }()
	for range len(stands) {
		select {
		case <-stopped:
		case <-time.After(20 * time.Second):
			t.Fatal("not all tasks stopped")
		}
	}
	w.until("all tasks are shown stopped", func() bool {
		for _, task := range processor.Status().Tasks {
			if task.State != pipeline.Stopped {
				return false
			}
		}
		return true
	})
	tasks := processor.Status().Tasks
	if len(tasks) != len(stands) {
		t.Fatalf("%d tasks, want %d", len(tasks), len(stands))
	}
	for _, task := range tasks {
		if want := stands[task.Partition]; task.AppliedNext != want || len(task.Inputs) != 1 || task.Inputs[0].AppliedNext != want || task.Inputs[0].Topic != "clicks" {
			t.Errorf("%s is shown at %d, %+v, and its state is applied up to %d", task.Task, task.AppliedNext, task.Inputs, want)
		}
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("the tasks were stopped, and Run returned nothing")
	}
}

// moveAll commits other offsets of a group that nobody is in, and returns those that it had, by partition of clicks.
func (w *world) moveAll(group string, by int64) map[int32]int64 {
	w.t.Helper()
	adm := kadm.NewClient(w.client)
	offsets, err := adm.FetchOffsets(w.t.Context(), group)
	if err != nil {
		w.t.Fatal(err)
	}
	was, moved := map[int32]int64{}, kadm.Offsets{}
	offsets.Each(func(o kadm.OffsetResponse) {
		was[o.Partition] = o.At
		moved.AddOffset(o.Topic, o.Partition, o.At+by, -1)
	})
	if err := adm.CommitAllOffsets(w.t.Context(), group, moved); err != nil {
		w.t.Fatal(err)
	}
	return was
}
