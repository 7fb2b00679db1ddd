//go:build unix

package main

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// writable asks the kernel, and tries nothing.
func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// lives reports whether a process with this pid exists.
func lives(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && unix.Kill(n, 0) != unix.ESRCH
}
