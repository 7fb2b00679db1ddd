package pipelinetest

import (
	"fmt"
	"math"
	"time"

	"github.com/tallystick/tallystick/pipeline"
)

// writers says which tasks wrote a topic's partitions and keys when the inputs were rehearsed on a Driver. Where one task wrote,
// and what it reads comes in an order that does not change, the order of its records does not change either.
type writers struct {
	partitions map[partition]map[*task]bool
	keys       map[partition]map[string]map[*task]bool
	external   map[string]bool // inputs that the test feeds
	tasks      []*task
}

type partition struct {
	topic  string
	number int32
}

// rehearse runs the inputs on a Driver, one transaction each, which aborts once before it commits. It returns what would fail
// a test: a handler that does not do twice what it did once.
func (k *kit) rehearse() (failure string) {
	defer func() {
		if r := recover(); r != nil {
			failure = fmt.Sprint(r)
		}
	}()
	d := New(nil, k.build(), k.cfg.Partitions)
	d.now = k.clock()
	d.Abort(math.MaxInt)
	d.wrote = k.writers.note
	k.writers.tasks = d.tasks
	for _, in := range k.inputs {
		SendRawTo(d, in.topic, in.partition, in.key, in.value, in.headers, time.UnixMilli(in.at))
	}
	return ""
}

func newWriters(inputs []put) *writers {
	w := &writers{partitions: map[partition]map[*task]bool{}, keys: map[partition]map[string]map[*task]bool{}, external: map[string]bool{}}
	for _, in := range inputs {
		w.external[in.topic] = true
	}
	return w
}

func (w *writers) note(k *task, o pipeline.Out) {
	at := partition{o.Topic, o.Partition}
	if w.partitions[at] == nil {
		w.partitions[at], w.keys[at] = map[*task]bool{}, map[string]map[*task]bool{}
	}
	if w.keys[at][string(o.Key)] == nil {
		w.keys[at][string(o.Key)] = map[*task]bool{}
	}
	w.partitions[at][k] = true
	w.keys[at][string(o.Key)][k] = true
}

// ordered reports whether a partition's records come in the same order in each run.
func (w *writers) ordered(at partition) bool { return w.settled(w.partitions[at], 0) }

// keyOrdered reports whether the records of a key do.
func (w *writers) keyOrdered(at partition, key string) bool { return w.settled(w.keys[at][key], 0) }

// timed reports whether the records of a partition have the same times in each run: they inherit them from what was read, and a
// task that reads in another order may write the same values with other times.
func (w *writers) timed(at partition) bool {
	for k := range w.partitions[at] {
		if !w.steady(k, 0) {
			return false
		}
	}
	return true
}

// settled reports whether it was one task that wrote, and this task reads everything in the same order in each run.
func (w *writers) settled(by map[*task]bool, depth int) bool {
	if len(by) != 1 || depth > len(w.tasks) {
		return false
	}
	for k := range by {
		return w.steady(k, depth)
	}
	return false
}

// steady reports whether what a task reads comes in the same order in each run. (Of several inputs the lowest record time comes
// first; the kit feeds such pipelines so that this is always the same one.)
func (w *writers) steady(k *task, depth int) bool {
	for _, name := range k.stage.Inputs() {
		by := w.partitions[partition{name, k.partition}]
		if len(by) == 0 {
			continue // the test's own, or empty
		}
		if w.external[name] || !w.settled(by, depth+1) {
			return false
		}
	}
	return true
}

// unsteady returns the names of stages that read what several tasks write.
func (w *writers) unsteady() (stages []string) {
	seen := map[string]bool{}
	for _, k := range w.tasks {
		if name := k.stage.Name(); !w.steady(k, 0) && !seen[name] {
			seen[name] = true
			stages = append(stages, name)
		}
	}
	return stages
}
