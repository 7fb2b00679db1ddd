package main

import (
	"os"
	"path/filepath"
	"time"
)

// keptFor is how long the compiled code of a module stays: each has some 100 MB, and a changed engine is another module.
const keptFor = 3 * 24 * time.Hour

// openCache is the folder of compiled modules, rid of those that are old.
func openCache() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "tallystick", "replay")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, dropOld(dir, time.Now().Add(-keptFor))
}

func dropOld(dir string, before time.Time) error {
	versions, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		return err
	}
	for _, name := range versions {
		if info, err := os.Stat(name); err == nil && info.ModTime().Before(before) {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}
