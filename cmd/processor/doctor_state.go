package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// checkStateDir looks whether run could keep its name there. It makes nothing: of a folder that does not exist it asks the
// nearest one that does.
func checkStateDir(cfg Config) []finding {
	f := finding{Check: "state.dir", On: cfg.StateDir, Result: isOK, Said: "can be written"}
	dir := filepath.Join(cfg.StateDir, cfg.ApplicationID)
	for {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir):
			dir = filepath.Dir(dir)
			continue
		case err == nil && !info.IsDir():
			err = fmt.Errorf("%s is no folder", dir)
		case err == nil:
			err = writable(dir)
		}
		if err != nil {
			f.Result, f.Said, f.Remedy = isFail, err.Error(), "make it writable for this user, or name another state.dir"
		}
		break
	}
	found := []finding{f}
	if pid := holderOfName(cfg); pid != "" {
		found = append(found, finding{Check: "state.dir", On: cfg.GroupInstanceID, Result: isWarn, Said: "process " + pid + " runs under this group.instance.id on this host",
			Remedy: "expected while the job runs; a second process needs another group.instance.id"})
	}
	return found
}

// holderOfName is the pid of the live process that has the configured instance name, empty if there is none or no name.
func holderOfName(cfg Config) string {
	if cfg.GroupInstanceID == "" {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(cfg.StateDir, cfg.ApplicationID, cfg.GroupInstanceID, "lock"))
	if err != nil {
		return ""
	}
	if pid := strings.TrimSpace(string(text)); lives(pid) {
		return pid
	}
	return ""
}
