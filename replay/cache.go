package main

import (
	"os"
	"path/filepath"
	"time"
)

// unused is how long compiled code of a module stays that nobody has run: each has some 100 MB.
const unused = 3 * 24 * time.Hour

// openCache is the folder of compiled modules. It is rid of those that are old: a changed engine is another module.
func openCache() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "tallystick", "replay")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, dropOld(dir, time.Now().Add(-unused))
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
