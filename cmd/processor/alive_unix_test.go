//go:build unix

package main

import "syscall"

// alive reports whether there is a process with this pid.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
