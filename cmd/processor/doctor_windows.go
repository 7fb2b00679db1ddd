package main

// writable is not asked on Windows: whether a folder can be written shows when it is.
func writable(string) error { return nil }

// lives is not known on Windows: the lock's holder is named only where it is.
func lives(string) bool { return false }
