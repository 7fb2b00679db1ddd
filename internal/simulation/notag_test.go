//go:build !synctests

package simulation

import "testing"

func TestSimulation(t *testing.T) {
	t.Skip("the simulation needs the client's bubble-safe mutexes: go test -tags synctests ./internal/simulation")
}
