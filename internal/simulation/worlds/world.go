package worlds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/evidence"
)

// World is what the world of one seed came to.
type World struct {
	evidence.Under // empty in a replay

	Commit   string           `json:"commit,omitempty"` // of the tree, see evidence.Commit; "" in a replay
	Job      string           `json:"job"`              // by the name of its test: "" is the ledger, else TwoInputs or TwoHops
	Seed     uint64           `json:"seed"`
	Counts   map[string]int64 `json:"counts"`            // by name, see Longest for the one that is no sum
	Faults   map[string]int64 `json:"faults"`            // faults injected, by kind
	Acted    map[string]int64 `json:"acted"`             // requests that a rule of the network met, by rule
	Problems []string         `json:"problems"`          // the verdict, line by line; none when the world was clean
	Began    time.Time        `json:"began,omitzero"`    // real time, as is Took; zero in a replay
	Took     time.Duration    `json:"took_ns,omitempty"` // other worlds live beside it
}

// Names of counts that others than the simulation go by.
const (
	Longest   = "seconds of the longest drain" // the only one of which a total keeps the largest instead of the sum
	Simulated = "simulated seconds"            // of the world's own clock
)

// Total adds up worlds. Its methods are safe for concurrent use; the zero value is empty.
type Total struct {
	mu     sync.Mutex
	worlds int
	counts map[string]int64
	faults map[string]int64
	acted  map[string]int64
}

// Add adds a world.
func (t *Total) Add(w World) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts, t.faults, t.acted = map[string]int64{}, map[string]int64{}, map[string]int64{}
	}
	t.worlds++
	longest := max(t.counts[Longest], w.Counts[Longest])
	sum(t.counts, w.Counts)
	t.counts[Longest] = longest
	sum(t.faults, w.Faults)
	sum(t.acted, w.Acted)
}

func sum(to, from map[string]int64) {
	for name, n := range from {
		to[name] += n
	}
}

// Worlds is how many were added.
func (t *Total) Worlds() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.worlds
}

// Count returns one of the counts.
func (t *Total) Count(name string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[name]
}

// Fault returns how often a kind of fault was injected.
func (t *Total) Fault(kind string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.faults[kind]
}

// Met returns how many requests a rule of the network met.
func (t *Total) Met(rule string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acted[rule]
}

// String lists everything, on a line a kind of number.
func (t *Total) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("counts: %s\nfaults: %s\nacted on: %s", List(t.counts), List(t.faults), List(t.acted))
}

// List writes numbers by name, in one line.
func List(m map[string]int64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
