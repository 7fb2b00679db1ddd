package profile

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// Start begins a profile and returns what ends it; "" is no file and no profile.
func Start(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("profile to %s: %w", file, err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close() // pprof reports no error either
	}, nil
}
