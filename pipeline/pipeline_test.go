package pipeline_test

import (
	"strings"
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

func TestValidateNamesEveryMistake(t *testing.T) {
	p := pipeline.New("Bad App")
	p.Stage("a")
	s := p.Stage("a")
	state.NewTable(s, "x", record.String, record.String)
	state.NewTable(s, "x", record.String, record.String)
	err := p.Validate()
	for _, want := range []string{`application.id "Bad App"`, `stage "a" is declared twice`, `store "x" is declared twice`, `stage "a" has no input`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in %v", want, err)
		}
	}
}

func TestMurmur2PlacesKeysWhereKafkaDoes(t *testing.T) {
	// Vectors of org.apache.kafka.common.utils.UtilsTest.testMurmur2, as partitions of 1<<30.
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971} {
		if got, want := pipeline.Murmur2.Partition([]byte(key), 1<<30), (hash&0x7fffffff)%(1<<30); got != want {
			t.Errorf("%q: partition %d, want %d", key, got, want)
		}
	}
}

// An aborted transaction left nothing: its records come again, and what it put out of its way is there again.
func TestDroppedTransactionNeverWas(t *testing.T) {
	task := newTask(summing(nil, pipeline.Fail), nil)
	process(t, task, number(0, 1, 2))
	sealed, err := task.Seal("w")
	if err != nil {
		t.Fatal(err)
	}
	if sealed.Marker.TxnSeq != 1 {
		t.Errorf("the first transaction is %d", sealed.Marker.TxnSeq)
	}
	if err := task.Merge(sealed, 3); err != nil {
		t.Fatal(err)
	}
	process(t, task, number(1, 1, 40))
	task.Drop()
	if task.Next("numbers") != 1 || task.Touched() {
		t.Errorf("next is %d, touched %v: want 1, false", task.Next("numbers"), task.Touched())
	}
	outs := process(t, task, number(1, 1, 4))
	if got, _ := record.Int64.Decode(outs[0].Value); got != 6 {
		t.Errorf("sum is %d, want 6: the dropped 40 must not count", got)
	}
	if sealed, err = task.Seal("w"); err != nil || sealed.Marker.TxnSeq != 2 {
		t.Errorf("the second transaction is %d, %v: I2 wants it to grow by one", sealed.Marker.TxnSeq, err)
	}
}

func TestOffsetWithoutARecordIsProcessed(t *testing.T) {
	task := newTask(summing(nil, pipeline.Fail), nil)
	process(t, task, number(0, 1, 2))
	task.Pass("numbers", 1)
	if task.Next("numbers") != 2 || !task.Touched() {
		t.Errorf("next is %d: lag would never reach zero on transactional input", task.Next("numbers"))
	}
	task.Pass("numbers", 0)
	if task.Next("numbers") != 2 {
		t.Errorf("next went back to %d", task.Next("numbers"))
	}
}

// The hundred records that name a wrong partitioner are a stop whatever the policy, are counted anew after an abort, and are
// the partition's first alone.
func TestMisnamedPartitionerStopsAnyPolicyAndOnlyAtTheStart(t *testing.T) {
	s := summing(nil, pipeline.Skip)
	misplaced := func(task *pipeline.Task, from int64, n int) error {
		for key := int64(0); n > 0; key++ {
			in := number(from, key, 2)
			if pipeline.Murmur2.Partition(in.Key, 2) == 0 {
				continue
			}
			if _, err := task.Process(in); err != nil {
				return err
			}
			from, n = from+1, n-1
		}
		return nil
	}
	base := state.NewMemory(s.Stores())
	task := pipeline.NewTask(s, 0, 2, base, nil)
	for range 3 { // 180 records, none of which is committed
		if err := misplaced(task, 0, 60); err != nil {
			t.Fatalf("records of aborted transactions were counted: %v", err)
		}
		task.Drop()
	}
	if err := misplaced(task, 0, 100); err == nil || !strings.Contains(err.Error(), "the first 100 records") {
		t.Errorf("got %v under the policy skip, want a stop", err)
	}
	task.Drop()
	for next := int64(1); next < 3; next++ {
		task.StartAt("numbers", next)
		sealed, err := task.Seal("w")
		if err != nil {
			t.Fatal(err)
		}
		if err := task.Merge(sealed, next); err != nil {
			t.Fatal(err)
		}
	}
	if err := misplaced(pipeline.NewTask(s, 0, 2, base, nil), 2, 150); err != nil {
		t.Errorf("a restart counts as the partition's start: %v", err)
	}
}
