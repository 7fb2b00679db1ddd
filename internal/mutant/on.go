//go:build mutants

package mutant

import "sync/atomic"

var name atomic.Pointer[string]

// On reports whether the named mutant is the one that is switched on.
func On(n string) bool {
	p := name.Load()
	return p != nil && *p == n
}

// Switch turns the named mutant on for the whole process and any other off; "" turns all off.
func Switch(n string) { name.Store(&n) }
