//go:build unix

package session

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes an exclusive lock that ends with the process, kill -9 included. It does not wait.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
