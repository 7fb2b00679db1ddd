package pipelinetest

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// task is one task and its partition of the state topic.
type task struct {
	stage     *pipeline.Stage
	partition int32
	base      state.Base
	core      *pipeline.Task
	log       []state.Record
	stopped   bool // until something is sent to it
}

func (k *task) String() string { return fmt.Sprintf("%s/%d", k.stage.Name(), k.partition) }

func (d *Driver) newTask(s *pipeline.Stage, partition int32, base state.Base) *task {
	return &task{stage: s, partition: partition, base: base, core: pipeline.NewTask(s, partition, d.partitions, base, d.limits)}
}

// maxRounds is far above what a chain of stages needs.
const maxRounds = 10_000

// run processes until no task has work.
func (d *Driver) run() {
	d.t.Helper()
	for range maxRounds {
		worked := false
		for _, k := range d.tasks {
			worked = d.transact(k) || worked
		}
		if !worked {
			return
		}
	}
	d.t.Fatalf("the pipeline does not come to rest: does a stage write its own input?")
}

// attempt is what one run of a transaction wrote.
type attempt struct {
	Outs   []pipeline.Out
	Sealed state.Sealed
}

// transact processes what a task has not processed yet as one transaction, and commits it. It reports whether there was
// work that was done.
func (d *Driver) transact(k *task) bool {
	d.t.Helper()
	pending := d.pending(k)
	if len(pending) == 0 || k.stopped {
		return false
	}
	a, err := d.attempt(k, pending)
	if err == nil && d.aborts > 0 {
		a, err = d.again(k, pending, a)
	}
	if err != nil {
		d.stop(k, err)
		return false
	}
	d.commit(k, a)
	return true
}

// pending returns what a task has not processed of its inputs, in the order in which it takes them.
func (d *Driver) pending(k *task) (pending []pipeline.Input) {
	inputs := k.stage.Inputs()
	unread, heads := make([][]pipeline.Input, len(inputs)), make([]int64, len(inputs))
	for i, name := range inputs {
		unread[i] = d.unread(k, name)
	}
	for {
		for i := range heads {
			heads[i] = pipeline.NoHead
			if len(unread[i]) > 0 {
				heads[i] = unread[i][0].Timestamp
			}
		}
		i := pipeline.Choose(heads)
		if i < 0 {
			return pending
		}
		pending, unread[i] = append(pending, unread[i][0]), unread[i][1:]
	}
}

// unread returns what a task has not processed of one input.
func (d *Driver) unread(k *task, name string) (unread []pipeline.Input) {
	t := d.topic(name)
	offsets := t.partitions[k.partition]
	for offset := k.core.Next(name); offset < int64(len(offsets)); offset++ {
		r := clone(t.records[offsets[offset]])
		unread = append(unread, pipeline.Input{Position: record.Position{Topic: name, Partition: k.partition, Offset: offset},
			Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp, Clock: d.now.UnixMilli()})
	}
	return unread
}

func (d *Driver) attempt(k *task, pending []pipeline.Input) (a attempt, err error) {
	for i := range pending {
		outs, err := k.core.Process(&pending[i])
		if err != nil {
			return a, err
		}
		for _, o := range outs {
			a.Outs = append(a.Outs, clone(o))
		}
	}
	sealed, err := k.core.Seal(d.p.App() + "-test-0")
	a.Sealed = state.Sealed{Marker: sealed.Marker}
	for _, r := range sealed.Records {
		a.Sealed.Records = append(a.Sealed.Records, state.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
	}
	return a, err
}

// again aborts the transaction and repeats it.
func (d *Driver) again(k *task, pending []pipeline.Input, first attempt) (attempt, error) {
	d.t.Helper()
	d.aborts--
	k.core.Drop()
	second, err := d.attempt(k, pending)
	if err != nil {
		return second, fmt.Errorf("after an abort: %w", err)
	}
	if !reflect.DeepEqual(first, second) {
		d.t.Fatalf("task %s: a transaction that was aborted and repeated wrote something else: handlers must depend on record, stores and record time alone\n%s\nfirst:\n%s\nthen:\n%s",
			k, suspect(permuted(first.lines(), second.lines())), first, second)
	}
	return second, nil
}

// String shows the outputs, and the state when it tells the difference.
func (a attempt) String() string {
	return "  " + strings.Join(a.lines(), "\n  ")
}

func (a attempt) lines() (lines []string) {
	for _, o := range a.Outs {
		lines = append(lines, fmt.Sprintf("%s/%d %q %q", o.Topic, o.Partition, o.Key, o.Value))
	}
	for _, r := range a.Sealed.Records[:len(a.Sealed.Records)-1] {
		lines = append(lines, fmt.Sprintf("state %q %q", r.Key, r.Value))
	}
	return lines
}

func (d *Driver) commit(k *task, a attempt) {
	d.t.Helper()
	k.log = append(k.log, a.Sealed.Records...)
	if err := k.core.Merge(a.Sealed, int64(len(k.log))); err != nil {
		d.t.Fatalf("task %s: merge: %v", k, err)
	}
	for _, o := range a.Outs {
		if o = d.append(o); d.wrote != nil {
			d.wrote(k, o)
		}
	}
}
