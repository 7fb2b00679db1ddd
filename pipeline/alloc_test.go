package pipeline_test

import (
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
)

// TestTaskCoreDoesNotAllocate is the allocation gate: codecs without allocations, a store, an output, commits in between.
func TestTaskCoreDoesNotAllocate(t *testing.T) {
	t.Run("one input", func(t *testing.T) { doesNotAllocate(t, summing(nil, pipeline.Fail), "numbers") })
	t.Run("two inputs", func(t *testing.T) { doesNotAllocate(t, scaling(), "factors", "numbers") })
}

func doesNotAllocate(t *testing.T, s *pipeline.Stage, inputs ...string) {
	task := newTask(s, nil)
	in := number(0, 1, 2)
	offset := int64(0)
	transaction := func() {
		for i := range 2000 {
			in.Topic, in.Offset = inputs[i%len(inputs)], offset
			in.Key, _ = record.Int64.Append(in.Key[:0], offset%97)
			if _, err := task.Process(in); err != nil {
				t.Fatal(err)
			}
			offset++
		}
		sealed, err := task.Seal("w")
		if err != nil {
			t.Fatal(err)
		}
		if err := task.Merge(sealed, offset); err != nil {
			t.Fatal(err)
		}
	}
	transaction()
	if perRecord := testing.AllocsPerRun(20, transaction) / 2000; perRecord > 0.01 {
		t.Errorf("%.3f allocations a record, want 0", perRecord)
	}
}
