package pipelinetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// Driver runs all stages of a pipeline in the goroutine that calls it.
type Driver struct {
	t          testing.TB
	p          *pipeline.Pipeline
	partitions int32
	now        time.Time
	limits     pipeline.Limits
	topics     map[string]*topic
	tasks      []*task
	aborts     int
	batching   bool
	trying     bool
	failures   []error
	wrote      func(*task, pipeline.Out) // may be nil: sees what is committed, with its partition
}

// New returns a driver whose topics all have so many partitions. It fails the test when the pipeline's declaration is wrong.
// t may be nil, in an Example: then what would fail the test panics. The driver's clock begins at 2026-01-01 00:00 UTC.
func New(t testing.TB, p *pipeline.Pipeline, partitions int32) *Driver {
	if t == nil {
		t = panics{}
	}
	t.Helper()
	d := &Driver{t: t, p: p, partitions: partitions, now: beginning(),
		limits: pipeline.Limits{}, topics: map[string]*topic{}}
	if err := p.Validate(); err != nil {
		t.Fatalf("pipeline %q: %v", p.App(), err)
	}
	for _, s := range p.Stages() {
		for i := range partitions {
			d.tasks = append(d.tasks, d.newTask(s, i, state.NewMemory(s.Stores())))
		}
	}
	return d
}

// Now returns the driver's time: the wall clock that a task is told, the time of records that Send makes, and the time of
// writing of those that carry none.
func (d *Driver) Now() time.Time { return d.now }

// Advance moves the test's clock on. Stream time follows with the next record that a task takes, and fires the timers that this
// makes due: a timer that waits for a quiet input to wake it waits for ever, here as in the cluster.
func (d *Driver) Advance(by time.Duration) { d.now = d.now.Add(by) }

// Limit sets max.message.bytes of a topic. Topics have no limit without it.
func (d *Driver) Limit(topic string, bytes int) { d.limits[topic] = bytes }

// Transaction makes one transaction of everything that f sends to a task, instead of one for each record.
func (d *Driver) Transaction(f func()) {
	d.t.Helper()
	if d.batching {
		d.t.Fatalf("transactions do not nest")
	}
	d.batching = true
	f()
	d.batching = false
	d.run()
}

// Abort makes each of the next n transactions abort when it is ready to commit, and then runs it again. The test fails if
// the second run does not write the same bytes: then a handler depends on more than record, stores and record time, and after
// a crash it would do something else than it did before.
func (d *Driver) Abort(n int) { d.aborts += n }

// Try runs f and returns the errors that stopped a task, where it would fail the test otherwise. A task that stopped keeps its
// record: it is tried again when something is sent to the task, and after a Restart, as in production.
func (d *Driver) Try(f func()) error {
	d.trying, d.failures = true, nil
	f()
	d.trying = false
	return errors.Join(d.failures...)
}

func (d *Driver) stop(k *task, err error) {
	d.t.Helper()
	k.core.Drop()
	k.stopped = true
	if !d.trying {
		d.t.Fatalf("task %s stopped: %v", k, err)
	}
	d.failures = append(d.failures, fmt.Errorf("task %s: %w", k, err))
}

// Committed returns the committed contents of the task that owns the key (its encoded bytes), for reading with the stage's
// handles. It follows later commits. A read that fails, such as one with another stage's handle, fails the test at its end.
func (d *Driver) Committed(stage, key string) state.Scope {
	d.t.Helper()
	for _, k := range d.tasks {
		if k.stage.Name() == stage && k.partition == k.stage.Partitioner().Partition([]byte(key), d.partitions) {
			return d.lend(k)
		}
	}
	d.t.Fatalf("pipeline %q has no stage %q", d.p.App(), stage)
	return nil
}

func (d *Driver) lend(k *task) state.Scope {
	scope := &committed{k: k}
	d.t.Cleanup(func() {
		if scope.view != nil && scope.view.Err() != nil {
			d.t.Errorf("read of committed contents of task %s: %v", k, scope.view.Err())
		}
	})
	return scope
}

// committed reads a task's base, also the one that a Restart puts in its place.
type committed struct {
	k    *task
	base state.Base
	view *state.View
}

// View implements state.Scope.
func (c *committed) View() *state.View {
	if failed := c.view != nil && c.view.Err() != nil; c.base != c.k.base && !failed {
		c.base, c.view = c.k.base, state.NewView(c.k.stage.Stores(), c.k.base)
	}
	return c.view
}

// partition places a key as the topic's producers do.
func (d *Driver) partition(topic string, key []byte) int32 {
	return partitionOf(d.p, topic, key, d.partitions)
}

// partitionOf places a key with the partitioner of the stage that reads the topic, if stages of the pipeline hand it records through a
// repartition topic or nobody of the pipeline writes it, else of the stage that writes it.
func partitionOf(p *pipeline.Pipeline, topic string, key []byte, partitions int32) int32 {
	if key == nil {
		return 0
	}
	reads := func(s *pipeline.Stage) bool { return slices.Contains(s.Inputs(), topic) }
	writes := func(s *pipeline.Stage) bool { return slices.Contains(s.Outputs(), topic) }
	order := []func(*pipeline.Stage) bool{writes, reads}
	if repartitions(p, topic) {
		order = []func(*pipeline.Stage) bool{reads}
	}
	for _, uses := range order {
		if i := slices.IndexFunc(p.Stages(), uses); i >= 0 {
			return p.Stages()[i].Partitioner().Partition(key, partitions)
		}
	}
	return pipeline.Murmur2.Partition(key, partitions)
}

func repartitions(p *pipeline.Pipeline, topic string) bool {
	return slices.ContainsFunc(p.Topics(), func(w topics.Want) bool { return w.Name == topic && w.Role == topics.RoleRepartition })
}

// beginning is when a test's clock begins.
func beginning() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// panics stands in for a test in an Example.
type panics struct{ testing.TB }

func (panics) Helper()                           {}
func (panics) Logf(string, ...any)               {}
func (panics) Cleanup(func())                    {}
func (panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panics) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
