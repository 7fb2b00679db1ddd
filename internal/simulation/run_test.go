//go:build synctests

package simulation

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tallystick/tallystick/internal/simulation/worlds"
)

// run is one call of the tests: some seeds, of which a file may hold some from an earlier call.
type run struct {
	file  *worlds.File // nil when none is kept
	total worlds.Total
	lived atomic.Int64 // now, not earlier
}

// openResults opens the file that RESULTS names, nil when it names none.
func openResults(t *testing.T) *worlds.File {
	name := os.Getenv("RESULTS")
	if name == "" {
		return nil
	}
	f, err := worlds.Open(name, "../..")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// seed lives one seed, unless an earlier run has.
func (r *run) seed(t *testing.T, pl plan) {
	if r.file == nil {
		r.total.Add(pl.try(t))
		r.lived.Add(1)
		return
	}
	if w, has := r.file.Has(string(pl.job), pl.seed); has {
		r.total.Add(w)
		if len(w.Problems) > 0 {
			t.Errorf("seed %d was not clean in an earlier run: %s\nrepeat: %s\nWhen the fault was the test's own, take the seed's line out of %s", pl.seed, strings.Join(w.Problems, "\n"), pl.repeat(), os.Getenv("RESULTS"))
		}
		return
	}
	w := pl.try(t)
	r.total.Add(w)
	r.lived.Add(1)
	if err := r.file.Add(w); err != nil {
		t.Error(err)
	}
}
