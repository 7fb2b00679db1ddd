//go:build mutants

package state

import (
	"testing"

	"github.com/tallystick/tallystick/internal/mutant"
)

func TestMutantsAreCaught(t *testing.T) {
	for name, claim := range claims {
		t.Run(name, func(t *testing.T) {
			mutant.Switch(name)
			defer mutant.Switch("")
			err := claim()
			if err == nil {
				t.Fatal("survived")
			}
			t.Log("caught:", err)
		})
	}
}
