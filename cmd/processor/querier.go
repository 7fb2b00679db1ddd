package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// querier answers out of a running processor, in terms of names and texts.
type querier struct {
	processor *pipeline.Processor
	stages    []*pipeline.Stage
}

// named finds a store by its name, or by stage/name when several stages have one.
func (q *querier) named(name string) (*pipeline.Stage, *state.Spec, error) {
	of, store, both := strings.Cut(name, "/")
	if !both {
		of, store = "", name
	}
	var stage *pipeline.Stage
	var spec *state.Spec
	var known []string
	for _, s := range q.stages {
		for _, sp := range s.Stores() {
			known = append(known, sp.Name)
			if sp.Name != store || both && s.Name() != of {
				continue
			}
			if spec != nil {
				return nil, nil, &queryError{Kind: queryUsage, Message: fmt.Sprintf("stages %s and %s both have a store %q", stage.Name(), s.Name(), store), Hint: "name it as <stage>/<store>"}
			}
			stage, spec = s, sp
		}
	}
	if spec == nil {
		return nil, nil, &queryError{Kind: queryNoStore, Message: fmt.Sprintf("the job has no store %q", name), Hint: "it has: " + strings.Join(known, ", ")}
	}
	return stage, spec, nil
}

// unreadTask says why a task was not read.
func unreadTask(id pipeline.TaskID, err error) missingTask {
	m := missingTask{Task: id.String(), Kind: queryFailed, Why: err.Error()}
	var elsewhere *pipeline.ElsewhereError
	var notReady *pipeline.NotReadyError
	switch {
	case errors.As(err, &elsewhere):
		m.Kind, m.Instance = queryElsewhere, elsewhere.Instance
	case errors.As(err, &notReady):
		m.Kind, m.Restore = queryNotReady, notReady.Restore
	}
	return m
}

// each reads every task that this process has, first before the others, until read says that it is enough; it returns those
// that it could not read.
func (q *querier) each(ctx context.Context, stage *pipeline.Stage, first pipeline.TaskID, read func(*pipeline.Snapshot) (enough bool)) ([]missingTask, error) {
	ids := q.processor.TasksOf(stage.Name())
	if len(ids) == 0 {
		return nil, &queryError{Kind: queryNotReady, Message: "the processor does not run yet: it starts, or it ends", Hint: "/readyz says what it waits for"}
	}
	if i := slices.Index(ids, first); i > 0 {
		ids = slices.Insert(slices.Delete(ids, i, i+1), 0, first)
	}
	absent := []missingTask{}
	for _, id := range ids {
		enough := false
		if err := q.processor.Query(ctx, id, func(s *pipeline.Snapshot) { enough = read(s) }); err != nil {
			absent = append(absent, unreadTask(id, err))
		}
		if enough {
			break
		}
	}
	return absent, nil
}

// find looks a key up. A table's row lies in the task of its key, if handlers store under the key of the record; since they
// need not, the other tasks of this process are looked at too. An id of a dedupe store can be in any task.
func (q *querier) find(ctx context.Context, stage *pipeline.Stage, spec *state.Spec, text string) (*queryRow, error) {
	key, err := encodeKey(spec.KeyCodec, text)
	if err != nil {
		return nil, &queryError{Kind: queryUsage, Message: err.Error()}
	}
	home, known := q.processor.TaskOf(stage.Name(), key)
	if spec.Kind == state.KindDedupe || !known {
		home = pipeline.TaskID{Partition: -1}
	}
	var found *queryRow
	absent, err := q.each(ctx, stage, home, func(s *pipeline.Snapshot) bool {
		found = lookUpRow(s, spec, key)
		return found != nil
	})
	switch {
	case err != nil:
		return nil, err
	case found != nil:
		return found, nil
	}
	return nil, notFound(spec, text, home, absent)
}

func lookUpRow(s *pipeline.Snapshot, spec *state.Spec, key []byte) *queryRow {
	if spec.Kind == state.KindDedupe {
		at, ok := spec.Dedupe().First(s, string(key))
		if !ok {
			return nil
		}
		return &queryRow{Store: spec.Name, Key: recordText(key).append(nil), First: &firstSeen{at.Topic, s.Task.Partition, at.Offset}, asOf: asOfSnapshot(s)}
	}
	value, ok := spec.Table().Get(s, key)
	if !ok {
		return nil
	}
	return newRow(s, spec, key, value)
}

func newRow(s *pipeline.Snapshot, spec *state.Spec, key, value []byte) *queryRow {
	return &queryRow{Store: spec.Name, Key: decoded(spec.KeyCodec, key), Value: decoded(spec.ValueCodec, value), asOf: asOfSnapshot(s)}
}

// notFound tells apart what is not there from what could not be looked at.
func notFound(spec *state.Spec, text string, home pipeline.TaskID, absent []missingTask) error {
	if spec.Kind != state.KindDedupe {
		i := slices.IndexFunc(absent, func(m missingTask) bool { return m.Task == home.String() })
		if i >= 0 {
			return unanswered(fmt.Sprintf("store %q, key %q", spec.Name, text), absent[i:i+1])
		}
		e := &queryError{Kind: queryNotFound, Message: fmt.Sprintf("store %q has no key %q (it would be in task %s, which this process has)", spec.Name, text, home)}
		if len(absent) > 0 {
			e.Hint, e.Tasks = "if handlers store it under another key than the record's, it can be in a task that this process does not have", absent
		}
		return e
	}
	if len(absent) > 0 {
		return unanswered(fmt.Sprintf("store %q, id %q: not in the tasks that could be read", spec.Name, text), absent)
	}
	return &queryError{Kind: queryNotFound, Message: fmt.Sprintf("store %q does not remember id %q: it was never seen, or %s of stream time have passed since", spec.Name, text, spec.Window)}
}

// unanswered is the error of an answer that needs tasks which could not be read: what waits is more urgent than what is elsewhere.
func unanswered(what string, absent []missingTask) error {
	e := &queryError{Kind: queryElsewhere, Hint: "run processor query on that instance's machine", Tasks: absent}
	lines := []string{what}
	for _, m := range absent {
		lines = append(lines, m.Why)
		switch {
		case m.Kind == queryFailed:
			e.Kind, e.Hint = queryFailed, ""
		case m.Kind == queryNotReady && e.Kind != queryFailed:
			e.Kind, e.Hint = queryNotReady, "try again later; /readyz and /status of the admin port say how far it is; a stopped one does not come back by itself, its error names the way out"
		}
	}
	e.Message = strings.Join(lines, "\n")
	if len(absent) == 1 {
		e.Message = what + ": " + absent[0].Why
	}
	return e
}

// rowRange is which rows of a table are wanted; texts are keys, empty for no bound.
type rowRange struct {
	limit            int
	prefix, from, to string
}

// list reads rows of all tasks of this process, each in the order of encoded keys.
func (q *querier) list(ctx context.Context, stage *pipeline.Stage, spec *state.Spec, want rowRange) (*queryRows, error) {
	if spec.Kind == state.KindDedupe {
		return nil, &queryError{Kind: queryUsage, Message: fmt.Sprintf("store %q holds hashes of ids: they cannot be listed", spec.Name), Hint: "ask for one id; without a store's name the sizes are shown"}
	}
	from, to, err := want.bounds(spec)
	if err != nil {
		return nil, &queryError{Kind: queryUsage, Message: err.Error()}
	}
	out := &queryRows{Rows: []queryRow{}}
	out.Missing, err = q.each(ctx, stage, pipeline.TaskID{Partition: -1}, func(s *pipeline.Snapshot) bool {
		for key, value := range spec.Table().From(s, from) {
			if !bytes.HasPrefix(key, []byte(want.prefix)) || to != nil && bytes.Compare(key, to) >= 0 {
				break
			}
			if out.More = len(out.Rows) == want.limit; out.More {
				break
			}
			out.Rows = append(out.Rows, *newRow(s, spec, key, value))
		}
		return out.More
	})
	return out, err
}

func (w rowRange) bounds(spec *state.Spec) (from, to []byte, err error) {
	if w.prefix != "" && spec.KeyCodec == record.Int64.ID() {
		return nil, nil, fmt.Errorf("prefix %q: the store's keys are whole numbers; use from and to", w.prefix)
	}
	from = []byte(w.prefix)
	if w.from != "" {
		key, err := encodeKey(spec.KeyCodec, w.from)
		if err != nil {
			return nil, nil, err
		}
		if bytes.Compare(key, from) > 0 {
			from = key
		}
	}
	if w.to != "" {
		to, err = encodeKey(spec.KeyCodec, w.to)
	}
	return from, to, err
}

// stores lists every store with its size in the tasks of this process.
func (q *querier) stores(ctx context.Context) (*queryStores, error) {
	status := q.processor.Status()
	out := &queryStores{App: status.App, Instance: status.Instance, Stores: []queryStore{}, Missing: []missingTask{}}
	for _, stage := range q.stages {
		var stores []queryStore
		for _, spec := range stage.Stores() {
			stores = append(stores, newQueryStore(stage, spec, len(q.processor.TasksOf(stage.Name()))))
		}
		absent, err := q.each(ctx, stage, pipeline.TaskID{Partition: -1}, func(s *pipeline.Snapshot) bool {
			for i, spec := range stage.Stores() {
				keys, bytes := s.View().Size(spec)
				stores[i].Keys += keys
				stores[i].Bytes += bytes
				stores[i].Tasks = append(stores[i].Tasks, s.Task.String())
			}
			return false
		})
		if err != nil {
			return nil, err
		}
		out.Stores, out.Missing = append(out.Stores, stores...), append(out.Missing, absent...)
	}
	return out, nil
}

func newQueryStore(stage *pipeline.Stage, spec *state.Spec, tasks int) queryStore {
	s := queryStore{Store: spec.Name, Stage: stage.Name(), Kind: string(spec.Kind), KeyCodec: spec.KeyCodec, ValueCodec: spec.ValueCodec, Tasks: []string{}, Of: tasks}
	if spec.Kind == state.KindDedupe {
		s.Window = spec.Window.String()
	}
	return s
}
