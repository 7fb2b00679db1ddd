package main

import "os"

// alive reports whether there is a process with this pid: on Windows it is found only then.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	return p.Release() == nil
}
