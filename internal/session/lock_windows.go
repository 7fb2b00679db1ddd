package session

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes an exclusive lock that ends with the process. It does not wait. It locks one byte far behind the pid, which
// others must be able to read.
func lockFile(f *os.File) error {
	at := &windows.Overlapped{OffsetHigh: 1}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
}
