package pipeline_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

var factors = topics.New("factors", record.Int64, record.Int64)

// scaling multiplies numbers by the factor of their key: a table and a stream in one stage.
func scaling() *pipeline.Stage {
	s := pipeline.New("app").Stage("scale")
	store := state.NewTable(s, "factors", record.Int64, record.Int64)
	out := pipeline.NewOutput(s, sums)
	pipeline.Handle(s, factors, func(c *pipeline.Ctx, r pipeline.Record[int64, int64]) error {
		store.Put(c, r.Key, r.Value)
		return nil
	})
	pipeline.Handle(s, numbers, func(c *pipeline.Ctx, r pipeline.Record[int64, int64]) error {
		factor, _ := store.Get(c, r.Key)
		out.Send(c, r.Key, factor*r.Value)
		return nil
	})
	return s
}

func factor(offset, key, value int64) *pipeline.Input {
	in := number(offset, key, value)
	in.Topic = "factors"
	return in
}

func TestNextRecordIsTheOneWithTheLowestTime(t *testing.T) {
	const none, pass = pipeline.NoHead, pipeline.PassHead
	for name, c := range map[string]struct {
		heads []int64
		want  int
	}{
		"nothing is polled":           {[]int64{none, none}, -1},
		"no input":                    {nil, -1},
		"one input":                   {[]int64{5}, 0},
		"the first is earlier":        {[]int64{4, 5}, 0},
		"the second is earlier":       {[]int64{5, 4}, 1},
		"a tie goes by declaration":   {[]int64{5, 5}, 0},
		"a tie of the later two":      {[]int64{6, 5, 5}, 1},
		"the other has none":          {[]int64{none, 5}, 1},
		"before 1970":                 {[]int64{0, -7, 3}, 1},
		"what holds no record, first": {[]int64{-7, pass}, 1},
		"a tie of such":               {[]int64{pass, pass}, 0},
	} {
		if got := pipeline.Choose(c.heads); got != c.want {
			t.Errorf("%s: %v chooses %d, want %d", name, c.heads, got, c.want)
		}
	}
}

func TestEachInputIsDispatchedToItsHandlerAndCountedForItself(t *testing.T) {
	task := newTask(scaling(), nil)
	process(t, task, factor(40, 1, 3))
	outs := process(t, task, number(7, 1, 5))
	if got, _ := record.Int64.Decode(outs[0].Value); got != 15 {
		t.Errorf("5 times the factor is %d, want 15: a stage's inputs share its stores", got)
	}
	if task.Next("factors") != 41 || task.Next("numbers") != 8 {
		t.Errorf("next is %d and %d, want 41 and 8", task.Next("factors"), task.Next("numbers"))
	}
	alone := newTask(scaling(), nil)
	if alone.Pass("factors", 0); !alone.Touched() {
		t.Error("an offset that holds no record would never be committed: it would be lag for ever")
	}
	task.Pass("factors", 41)
	if task.Next("factors") != 42 || task.Next("numbers") != 8 {
		t.Errorf("next is %d and %d, want 42 and 8", task.Next("factors"), task.Next("numbers"))
	}
	var order *pipeline.OrderError
	if _, err := task.Process(number(7, 1, 5)); !errors.As(err, &order) || order.Next != 8 || order.At.Topic != "numbers" {
		t.Errorf("got %v, want I5 of numbers at 8", err)
	}
	process(t, task, number(8, 1, 5)) // below the other input's offsets
}

// I6: every transaction that touches a task moves the offsets of all its inputs, also of those that it has not read.
func TestMarkerHoldsAllInputsOfATask(t *testing.T) {
	s := scaling()
	base := state.NewMemory(s.Stores())
	task := pipeline.NewTask(s, 0, 1, base, nil)
	task.StartAt("factors", 5)
	task.StartAt("numbers", 9)
	commit := func(position int64) map[string]int64 {
		sealed, err := task.Seal("w")
		if err != nil {
			t.Fatal(err)
		}
		if err := task.Merge(sealed, position); err != nil {
			t.Fatal(err)
		}
		nexts := map[string]int64{}
		for _, n := range sealed.Marker.Next {
			nexts[n.Topic] = n.AppliedNext
		}
		return nexts
	}
	if got := commit(1); len(got) != 2 || got["factors"] != 5 || got["numbers"] != 9 {
		t.Fatalf("the start is %v, want 5 and 9", got)
	}
	process(t, task, number(9, 1, 5))
	if got := commit(2); len(got) != 2 || got["factors"] != 5 || got["numbers"] != 10 {
		t.Errorf("the marker holds %v, want 5 and 10", got)
	}
	process(t, task, factor(6, 1, 5))
	task.Drop()
	if task.Next("factors") != 5 || task.Next("numbers") != 10 {
		t.Errorf("after a drop next is %d and %d, want 5 and 10", task.Next("factors"), task.Next("numbers"))
	}
	again := pipeline.NewTask(s, 0, 1, base, nil)
	if again.Next("factors") != 5 || again.Next("numbers") != 10 {
		t.Errorf("after a restore next is %d and %d, want 5 and 10", again.Next("factors"), again.Next("numbers"))
	}
}

// Each input has producers of its own: one that is placed rightly says nothing about the other.
func TestMisnamedPartitionerIsFoundForEachInput(t *testing.T) {
	s := scaling()
	s.OnError(pipeline.Skip)
	task := pipeline.NewTask(s, 0, 2, state.NewMemory(s.Stores()), nil)
	wrong, right := 0, 0
	for key := int64(0); wrong < 100; key++ {
		in := number(key, key, 1)
		if pipeline.Murmur2.Partition(in.Key, 2) == 0 {
			in.Topic = "factors"
			right++
		} else {
			wrong++
		}
		_, err := task.Process(in)
		if wrong < 100 && err != nil {
			t.Fatal(err)
		} else if wrong == 100 && (err == nil || !strings.Contains(err.Error(), `the first 100 records of topic "numbers"`)) {
			t.Errorf("got %v after %d records of the other input on the right partition, want a stop that names numbers", err, right)
		}
	}
}

// A key that another partitioner placed sits on the right partition by chance, one of n times: the hundred records need not all be
// misplaced, if that other one explains them all. A producer that is wrong now and then is no misnamed partitioner.
func TestMisnamedPartitionerIsFoundAmongFewPartitions(t *testing.T) {
	for _, c := range []struct {
		name   string
		placed func(i int, key []byte, n int32) bool // on partition 0
		says   string
	}{
		{"all by crc32", func(_ int, key []byte, n int32) bool { return pipeline.CRC32.Partition(key, n) == 0 }, "set partitioner=crc32"},
		{"all by fnv1a", func(_ int, key []byte, n int32) bool { return pipeline.FNV1a.Partition(key, n) == 0 }, "set partitioner=fnv1a"},
		{"anywhere", func(int, []byte, int32) bool { return true }, ""},
		{"one of twenty by crc32", func(i int, key []byte, n int32) bool {
			by := pipeline.Murmur2
			if i%20 == 0 {
				by = pipeline.CRC32
			}
			return by.Partition(key, n) == 0
		}, ""},
	} {
		for _, n := range []int32{2, 4, 12} {
			s := summing(nil, pipeline.Skip)
			task := pipeline.NewTask(s, 0, n, state.NewMemory(s.Stores()), nil)
			var err error
			for key, offset := int64(0), int64(0); offset < 200 && err == nil; key++ {
				if in := number(offset, key, 2); c.placed(int(offset), in.Key, n) {
					_, err = task.Process(in)
					offset++
				}
			}
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %d partitions: got %v, want %q", c.name, n, err, c.says)
			}
		}
	}
}

func TestTopicHandledTwiceIsRefused(t *testing.T) {
	s := scaling()
	pipeline.Handle(s, numbers, func(*pipeline.Ctx, pipeline.Record[int64, int64]) error { return nil })
	if err := s.Pipeline().Validate(); err == nil || !strings.Contains(err.Error(), `topic "numbers" is handled twice by stage "scale"`) {
		t.Errorf("got %v", err)
	}
}

// A version without an input keeps how far that was applied: the next version that has it goes on there. To begin anew would
// apply it twice, and the group forgets an offset that nobody commits.
func TestMarkerKeepsAnInputThatTheStageHasNoMore(t *testing.T) {
	two, base := scaling(), state.NewMemory(scaling().Stores())
	commit := func(task *pipeline.Task, position int64) {
		t.Helper()
		sealed, err := task.Seal("w")
		if err != nil {
			t.Fatal(err)
		}
		if err := task.Merge(sealed, position); err != nil {
			t.Fatal(err)
		}
	}
	task := pipeline.NewTask(two, 0, 1, base, nil)
	task.StartAt("factors", 5)
	task.StartAt("numbers", 9)
	commit(task, 1)
	one := pipeline.New("scaling").Stage("scale")
	pipeline.Handle(one, numbers, func(*pipeline.Ctx, pipeline.Record[int64, int64]) error { return nil })
	for position := range int64(2) { // also once it is not of this process's making any more
		task = pipeline.NewTask(one, 0, 1, base, nil)
		task.Pass("numbers", 9+position)
		commit(task, 2+position)
	}
	if task = pipeline.NewTask(two, 0, 1, base, nil); task.Next("factors") != 5 || task.Next("numbers") != 11 {
		t.Errorf("the version with both inputs goes on at %d and %d, want 5 and 11", task.Next("factors"), task.Next("numbers"))
	}
}
