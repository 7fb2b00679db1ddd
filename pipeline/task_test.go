package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

const noon = int64(1_700_000_000_000)

var (
	numbers = topics.New("numbers", record.Int64, record.Int64)
	sums    = topics.New("sums", record.Int64, record.Int64)
	errOdd  = errors.New("odd")
)

// summing sums per key; what it does with odd numbers is the test's.
func summing(odd func(c *pipeline.Ctx) error, policy pipeline.Policy) *pipeline.Stage {
	s := pipeline.New("app").Stage("sum")
	s.OnError(policy)
	store := state.NewTable(s, "sums", record.Int64, record.Int64)
	out := pipeline.NewOutput(s, sums)
	pipeline.Handle(s, numbers, func(c *pipeline.Ctx, r pipeline.Record[int64, int64]) error {
		sum, _ := store.Get(c, r.Key)
		store.Put(c, r.Key, sum+r.Value)
		out.Send(c, r.Key, sum+r.Value)
		if r.Value%2 != 0 {
			return odd(c)
		}
		return nil
	})
	return s
}

func newTask(s *pipeline.Stage, limits pipeline.Limits) *pipeline.Task {
	return pipeline.NewTask(s, 0, 1, state.NewMemory(s.Stores()), limits)
}

func number(offset, key, value int64) *pipeline.Input {
	k, _ := record.Int64.Append(nil, key)
	v, _ := record.Int64.Append(nil, value)
	return &pipeline.Input{Position: record.Position{Topic: "numbers", Offset: offset}, Key: k, Value: v, Timestamp: noon, Clock: noon}
}

func process(t *testing.T, task *pipeline.Task, in *pipeline.Input) []pipeline.Out {
	t.Helper()
	outs, err := task.Process(in)
	if err != nil {
		t.Fatal(err)
	}
	return outs
}

func header(o pipeline.Out, key string) string {
	for _, h := range o.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func TestFailedRecordIsUndoneAndNothingElse(t *testing.T) {
	task := newTask(summing(func(*pipeline.Ctx) error { return pipeline.DeadLetter("odd", errOdd) }, pipeline.Fail), nil)
	process(t, task, number(0, 1, 10))
	outs := process(t, task, number(1, 1, 5))
	if len(outs) != 1 || outs[0].Topic != "app-dead-letters" || header(outs[0], pipeline.HeaderReason) != "odd" {
		t.Fatalf("got %+v, want one dead letter", outs)
	}
	outs = process(t, task, number(2, 1, 2))
	if got, _ := record.Int64.Decode(outs[0].Value); got != 12 {
		t.Errorf("sum is %d, want 12: the dead letter's 5 must not count", got)
	}
	if task.Next("numbers") != 3 {
		t.Errorf("next is %d, want 3: a dead letter is done", task.Next("numbers"))
	}
}

func TestDeadLetterKeepsTheOriginalAndReplacesOldErrorHeaders(t *testing.T) {
	task := newTask(summing(func(*pipeline.Ctx) error { return pipeline.DeadLetter("odd", errOdd) }, pipeline.Fail), nil)
	in := number(7, 1, 5)
	in.Headers = []record.Header{{Key: "trace", Value: []byte("abc")}, {Key: pipeline.HeaderReason, Value: []byte("old")}, {Key: "trace", Value: nil}}
	outs := process(t, task, in)
	o := outs[0]
	if !bytes.Equal(o.Key, in.Key) || !bytes.Equal(o.Value, in.Value) || o.Timestamp != pipeline.WhenWritten || o.Partition != 0 {
		t.Errorf("got %+v", o)
	}
	if o.Headers[0].Key != "trace" || o.Headers[1].Key != "trace" || o.Headers[1].Value != nil {
		t.Errorf("headers are not kept in order: %v", o.Headers)
	}
	for key, want := range map[string]string{pipeline.HeaderReason: "odd", pipeline.HeaderTopic: "numbers", pipeline.HeaderPartition: "0", pipeline.HeaderOffset: "7", pipeline.HeaderStage: "sum", pipeline.HeaderMessage: "odd: odd"} {
		if got := header(o, key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if n := strings.Count(fmt.Sprint(o.Headers), pipeline.HeaderReason); n != 1 {
		t.Errorf("%d reason headers, want 1", n)
	}
}

// A handler that was cancelled has not succeeded: what it wrote until then is undone.
func TestCancelledHandlerIsUndone(t *testing.T) {
	task := newTask(summing(func(*pipeline.Ctx) error { return fmt.Errorf("call: %w", context.Canceled) }, pipeline.Fail), nil)
	outs, err := task.Process(number(0, 1, 3))
	if !errors.Is(err, context.Canceled) || len(outs) > 0 {
		t.Errorf("a cancelled handler counts as success: %d outputs, %v", len(outs), err)
	}
}

func TestPolicyDecidesTheFateOfAnError(t *testing.T) {
	fails := func(*pipeline.Ctx) error { return errOdd }
	for _, c := range []struct {
		policy pipeline.Policy
		stops  bool
		outs   int
	}{{pipeline.Fail, true, 0}, {pipeline.Retry, true, 0}, {pipeline.Skip, false, 0}, {pipeline.ToDeadLetters, false, 1}} {
		outs, err := newTask(summing(fails, c.policy), nil).Process(number(0, 1, 1))
		if (err != nil) != c.stops || len(outs) != c.outs {
			t.Errorf("policy %d: %d outs, %v", c.policy, len(outs), err)
		}
		if c.stops && !errors.Is(err, errOdd) {
			t.Errorf("policy %d: %v does not wrap the handler's error", c.policy, err)
		}
	}
}

func TestRetryCallsThreeTimesFromTheSameState(t *testing.T) {
	calls := 0
	task := newTask(summing(func(*pipeline.Ctx) error {
		if calls++; calls < 3 {
			return errOdd
		}
		return nil
	}, pipeline.Retry), nil)
	outs := process(t, task, number(0, 1, 1))
	if got, _ := record.Int64.Decode(outs[0].Value); calls != 3 || got != 1 || len(outs) != 1 {
		t.Errorf("%d calls, %d outs, sum %d; want 3, 1, 1", calls, len(outs), got)
	}
}

func TestPanicStopsTheTaskUnderAnyPolicy(t *testing.T) {
	task := newTask(summing(func(*pipeline.Ctx) error { panic("boom") }, pipeline.ToDeadLetters), nil)
	_, err := task.Process(number(3, 1, 1))
	var p *pipeline.PanicError
	if !errors.As(err, &p) || p.At.Offset != 3 || !bytes.Contains(p.Stack, []byte("task_test.go")) {
		t.Errorf("got %v", err)
	}
	if task.Next("numbers") != 0 {
		t.Error("the record counts as processed")
	}
}

func TestRecordsThatNoHandlerMaySee(t *testing.T) {
	task := pipeline.NewTask(summing(func(*pipeline.Ctx) error { return nil }, pipeline.Fail), 0, 1, state.NewMemory(nil), nil)
	future := number(0, 1, 2)
	future.Timestamp = noon + 2*time.Hour.Milliseconds()
	nokey := number(1, 1, 2)
	nokey.Key = nil
	for _, c := range []struct {
		in     *pipeline.Input
		reason string
	}{{future, "future_timestamp"}, {nokey, "null_key"}} {
		outs := process(t, task, c.in)
		if len(outs) != 1 || header(outs[0], pipeline.HeaderReason) != c.reason {
			t.Errorf("got %+v, want a dead letter %s", outs, c.reason)
		}
	}
	if got := first(process(t, task, &pipeline.Input{Position: record.Position{Topic: "numbers", Offset: 2}, Key: []byte("x"), Value: []byte("y"), Clock: noon}), pipeline.HeaderReason); got != "malformed_int64" {
		t.Errorf("reason %q, want the codec's", got)
	}
}

func first(outs []pipeline.Out, key string) string { return header(outs[0], key) }

func TestKeyOfAnotherPartitionIsADeadLetterAndAHundredNameThePartitioner(t *testing.T) {
	s := summing(func(*pipeline.Ctx) error { return nil }, pipeline.Fail)
	task := pipeline.NewTask(s, 0, 2, state.NewMemory(s.Stores()), nil)
	var err error
	wrong := int64(0)
	for key := int64(0); err == nil && key < 10_000; key++ {
		in := number(wrong, key, 2)
		if pipeline.Murmur2.Partition(in.Key, 2) == 0 || pipeline.CRC32.Partition(in.Key, 2) != 0 {
			continue
		}
		var outs []pipeline.Out
		if outs, err = task.Process(in); err == nil {
			if first(outs, pipeline.HeaderReason) != "wrong_partition" {
				t.Fatalf("got %+v", outs)
			}
			wrong++
		}
	}
	if wrong != 99 || err == nil || !strings.Contains(err.Error(), "set partitioner=crc32") {
		t.Errorf("after %d: %v", wrong, err)
	}
}

func TestOffsetsThatGoBackAreRefused(t *testing.T) {
	task := newTask(summing(nil, pipeline.Fail), nil)
	process(t, task, number(5, 1, 2))
	_, err := task.Process(number(5, 1, 2))
	var order *pipeline.OrderError
	if !errors.As(err, &order) || order.Next != 6 {
		t.Errorf("got %v, want I5", err)
	}
}

func TestOversizedOutputFailsItsInputInTheSavepoint(t *testing.T) {
	task := newTask(summing(nil, pipeline.ToDeadLetters), pipeline.Limits{"sums": 50})
	outs := process(t, task, number(0, 1, 2))
	if len(outs) != 1 || outs[0].Topic != "app-dead-letters" || !strings.Contains(header(outs[0], pipeline.HeaderMessage), "max.message.bytes=50") {
		t.Errorf("got %+v", outs)
	}
}

func TestOversizedStateFailsItsInputInTheSavepoint(t *testing.T) {
	task := newTask(summing(nil, pipeline.ToDeadLetters), pipeline.Limits{"app-sum-state": 50})
	outs := process(t, task, number(0, 1, 2))
	if len(outs) != 1 || !strings.Contains(header(outs[0], pipeline.HeaderMessage), `max.message.bytes=50 of topic "app-sum-state"`) {
		t.Errorf("got %+v: a value that the state topic refuses must fail its record, not the commit", outs)
	}
}

func TestDeadLetterThatDoesNotFitDropsTheValueAndSaysSo(t *testing.T) {
	task := newTask(summing(nil, pipeline.Fail), pipeline.Limits{"app-dead-letters": 2000})
	in := number(0, 1, 2)
	in.Value = make([]byte, 5000)
	outs := process(t, task, in)
	if outs[0].Value != nil || !strings.HasPrefix(header(outs[0], pipeline.HeaderValue), "dropped size=5000 sha256=") {
		t.Errorf("got value of %d bytes, note %q", len(outs[0].Value), header(outs[0], pipeline.HeaderValue))
	}
	task = newTask(summing(nil, pipeline.Fail), pipeline.Limits{"app-dead-letters": 200})
	if _, err := task.Process(in); err == nil || !strings.Contains(err.Error(), "dead letter without its value") {
		t.Errorf("got %v: a dead letter that cannot be written must stop the task", err)
	}
}

func TestRefusedRecordFallsUnderThePolicyWithoutTheHandler(t *testing.T) {
	task := newTask(summing(func(*pipeline.Ctx) error { t.Error("the handler ran"); return nil }, pipeline.ToDeadLetters), nil)
	in := number(0, 1, 1)
	in.Refused = errors.New("message too large")
	outs := process(t, task, in)
	if first(outs, pipeline.HeaderReason) != "handler_error" || !strings.Contains(first(outs, pipeline.HeaderMessage), "message too large") {
		t.Errorf("got %+v", outs)
	}
}

func TestForeignOutputFailsByName(t *testing.T) {
	p := pipeline.New("app")
	foreign := pipeline.NewOutput(p.Stage("other"), sums)
	s := p.Stage("sum")
	pipeline.Handle(s, numbers, func(c *pipeline.Ctx, r pipeline.Record[int64, int64]) error {
		foreign.Send(c, 1, 1)
		return nil
	})
	_, err := newTask(s, nil).Process(number(0, 1, 1))
	if err == nil || !strings.Contains(err.Error(), `output "sums" belongs to another stage`) {
		t.Errorf("got %v", err)
	}
}

func TestStreamTimeMovesWithAppliedRecordsOnly(t *testing.T) {
	var seen []time.Time
	task := newTask(summing(func(c *pipeline.Ctx) error {
		seen = append(seen, c.StreamTime())
		return pipeline.DeadLetter("odd", nil)
	}, pipeline.Fail), nil)
	late := number(0, 1, 1)
	late.Timestamp = noon + 1000
	process(t, task, late)
	process(t, task, number(1, 1, 1))
	if !seen[0].Equal(time.UnixMilli(noon+1000)) || !seen[1].Equal(time.UnixMilli(noon)) {
		t.Errorf("saw %v: a failed record moved stream time", seen)
	}
}
