//go:build synctests

package simulation

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// guard dumps all stacks and ends the test binary when a world takes longer than patience in real time: a bubble that hangs
// cannot be ended otherwise. Start it outside the bubble. The returned function ends it.
func guard(patience time.Duration, dir, repeat string) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
		case <-time.After(patience):
			stacks := make([]byte, 64<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			_ = os.MkdirAll(dir, 0o755)
			_ = os.WriteFile(filepath.Join(dir, "stacks.txt"), stacks, 0o644)
			fmt.Printf("--- STUCK for %s of real time: stacks are in %s\nrepeat: %s\n", patience, dir, repeat)
			os.Exit(3)
		}
	}()
	return func() { close(done) }
}
