package pipelinetest

import (
	"github.com/tallystick/tallystick/state"
)

// Restart makes all tasks anew, with state replayed from the records that their transactions wrote, as after a crash. The
// test fails when a replayed state does not prove itself, also out of a compacted log.
func (d *Driver) Restart() {
	d.t.Helper()
	for _, k := range d.tasks {
		d.replay(k, compact(k.log))
		k.base = d.replay(k, k.log)
		k.core, k.stopped = d.newTask(k.stage, k.partition, k.base).core, false
	}
	d.run()
}

func (d *Driver) replay(k *task, log []state.Record) state.Base {
	d.t.Helper()
	base := state.NewMemory(k.stage.Stores())
	for i, r := range log {
		if err := base.Replay(r.Key, r.Value); err != nil {
			d.t.Fatalf("task %s: replay record %d of %d: %v", k, i, len(log), err)
		}
	}
	base.SetPosition(int64(len(k.log)))
	if m, ok := base.Marker(); ok && m.Digest != base.Digest() {
		d.t.Fatalf("task %s: I3: the replayed state has digest %016x, its marker says %016x", k, base.Digest(), m.Digest)
	}
	return base
}

// compact leaves the last record of each key, and no tombstones.
func compact(log []state.Record) (left []state.Record) {
	last := map[string]int{}
	for i, r := range log {
		last[string(r.Key)] = i
	}
	for i, r := range log {
		if last[string(r.Key)] == i && r.Value != nil {
			left = append(left, r)
		}
	}
	return left
}
