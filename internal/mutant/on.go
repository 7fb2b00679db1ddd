//go:build mutants

package mutant

import (
	"os"
	"sync/atomic"
)

// Variable names, in the environment of a process, the mutant that is switched on from its start.
const Variable = "TALLYSTICK_MUTANT"

var name atomic.Pointer[string]

// On reports whether the named mutant is the one that is switched on.
func On(n string) bool {
	p := name.Load()
	if p == nil {
		Switch(os.Getenv(Variable))
		p = name.Load()
	}
	return *p == n
}

// Switch turns the named mutant on for the whole process and any other off; "" turns all off.
func Switch(n string) { name.Store(&n) }
