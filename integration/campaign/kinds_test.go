package campaign

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/campaign/results"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

// A kind is one fault by name.
type kind struct {
	name   string
	expect string // what the processors are to do
	weight int    // how often it is in the bag
	// quick says that it is over at once, so that it can come just before another fault.
	quick bool
	do    func(t *testing.T, r *round, o *outcome)
}

// An outcome is what a fault says of itself.
type outcome struct {
	from    time.Time // from when recovery counts: the fault, or the end of one that lasts; set to its begin
	verdict string    // unless the test fails; set to survived
	detail  string
	// combined says that another fault came just before: what it did may come to light only now. first says that another one
	// comes right behind.
	combined, first bool
	musts           []func(context.Context) error // what must come true once the job has recovered
}

func (o *outcome) now() { o.from = time.Now() }

// alone says that no other fault is near: what is seen is its doing.
func (o *outcome) alone() bool { return !o.combined && !o.first }

// must adds what has to come true once the job has recovered, and is not asked of a fault that missed.
func (o *outcome) must(come func(context.Context) error) { o.musts = append(o.musts, come) }

// led waits until everything has come true that the fault is to lead to.
func (o *outcome) led(t *testing.T) {
	t.Helper()
	for _, come := range o.musts {
		if o.verdict != results.Missed {
			kafkatest.Within(t, patience, "what the fault is to lead to", come)
		}
	}
}

// missed says that what was to be broken never came by.
func (o *outcome) missed() { o.verdict = results.Missed }

// say adds to the detail of the line.
func (o *outcome) say(format string, args ...any) { o.detail += fmt.Sprintf(format, args...) }

// kinds is the bag: each kind is in it as often as its weight says.
func kinds() []kind {
	return slices.Concat(processKinds(), networkKinds(), brokerKinds(), contentKinds(), groupKinds())
}

// only are the kinds with these names; all of them when there is no name.
func only(kinds []kind, names []string) []kind {
	if len(names) == 0 {
		return kinds
	}
	return slices.DeleteFunc(kinds, func(k kind) bool { return !slices.Contains(names, k.name) })
}

// A plan is one fault of a seed, before it happens.
type plan struct {
	seed   uint64
	number int
	kind   kind
	with   *kind // comes just before
	rng    *rand.Rand
}

// combined says how many faults in a hundred have a second one just before them.
const combined = 20

// planOf is fault number n of a seed: always the same. Bag after bag is emptied in an order of its own.
func planOf(kinds []kind, seed uint64, n int) plan {
	bag := bagOf(kinds)
	order := rand.New(rand.NewPCG(seed, uint64(n/len(bag)))).Perm(len(bag))
	p := plan{seed: seed, number: n, kind: bag[order[n%len(bag)]], rng: rand.New(rand.NewPCG(seed, 1<<32+uint64(n)))}
	if quick := quickOnes(bag); len(quick) > 0 && p.rng.IntN(100) < combined {
		p.with = &quick[p.rng.IntN(len(quick))]
	}
	return p
}

func bagOf(kinds []kind) (bag []kind) {
	for _, k := range kinds {
		for range k.weight {
			bag = append(bag, k)
		}
	}
	return bag
}

func quickOnes(bag []kind) (quick []kind) {
	for _, k := range bag {
		if k.quick {
			quick = append(quick, k)
		}
	}
	return quick
}
