package worlds

import (
	"fmt"
	"sync"

	"github.com/tallystick/tallystick/internal/evidence"
)

// File is a file of worlds of one engine and one judge, to which a run adds. Its methods are safe for concurrent use by one process.
type File struct {
	name   string
	under  evidence.Under
	commit string

	mu   sync.Mutex
	done map[key]World
}

type key struct {
	job  string
	seed uint64
}

// Open reads a file, which may be missing, for worlds of the tree at root. It refuses a file that holds worlds of another engine or
// judge.
func Open(name, root string) (*File, error) {
	engine, err := evidence.Engine(root)
	if err != nil {
		return nil, err
	}
	judge, err := evidence.SimulationJudge(root)
	if err != nil {
		return nil, err
	}
	worlds, err := evidence.Read[World](name)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, under: evidence.Under{Engine: engine, Judge: judge}, commit: evidence.Commit(root), done: map[key]World{}}
	for _, w := range worlds {
		if differs := w.Differs(f.under); differs != "" {
			return nil, fmt.Errorf("%s and the tree are of %s: name another file, or check out commit %s", name, differs, w.Commit)
		}
		f.done[key{w.Job, w.Seed}] = w
	}
	return f, nil
}

// Has returns the world of a seed that an earlier run added.
func (f *File) Has(job string, seed uint64) (World, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, ok := f.done[key{job, seed}]
	return w, ok
}

// Add adds a world, and names its engine, judge and commit.
func (f *File) Add(w World) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Under, w.Commit = f.under, f.commit
	f.done[key{w.Job, w.Seed}] = w
	return evidence.Append(f.name, w)
}
