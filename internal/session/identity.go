package session

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Identity is the name under which a process takes part, and the lock that keeps a second process from taking it. It lives
// in <state.dir>/<app>/<slot>: "lock" holds the owner's pid, "name" the instance name, "workers" the highest worker count.
type Identity struct {
	Instance string // stable across restarts: the base of transactional and group instance ids
	Fresh    bool   // made just now: an earlier incarnation with another folder is a stranger to us
	dir      string
	lock     *os.File
}

// maxSlots bounds the search for a free slot: more processes of one application on one host are a mistake.
const maxSlots = 1000

// Identify takes an identity. With an instance name (group.instance.id) it takes that one or fails with the pid of its owner;
// with "" it takes the first slot that no process holds. Close gives it back; so does the end of the process.
func Identify(stateDir, app, instance string) (*Identity, error) {
	base := filepath.Join(stateDir, app)
	if instance != "" {
		id, err := takeSlot(filepath.Join(base, instance))
		var held *heldError
		if errors.As(err, &held) {
			return nil, fmt.Errorf("group.instance.id %q is in use by process %s (state.dir %s): stop it, or give this one another id", instance, held.pid, stateDir)
		}
		if err != nil {
			return nil, err
		}
		id.Instance = instance
		return id, nil
	}
	for slot := range maxSlots {
		id, err := takeSlot(filepath.Join(base, strconv.Itoa(slot)))
		if errors.As(err, new(*heldError)) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return id, id.loadName()
	}
	return nil, fmt.Errorf("state.dir %s: all %d slots of %q are taken: remove unused folders or use another state.dir", stateDir, maxSlots, app)
}

type heldError struct{ pid string }

func (e *heldError) Error() string { return "held by process " + e.pid }

func takeSlot(dir string) (*Identity, error) {
	_, err := os.Stat(dir)
	fresh := errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("state.dir: %w: make it writable or name another", err)
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("state.dir: %w: make it writable or name another", err)
	}
	if err := lockFile(f); err != nil {
		pid, _ := os.ReadFile(path)
		_ = f.Close()
		return nil, &heldError{strings.TrimSpace(string(pid))}
	}
	if err := rewrite(f, strconv.Itoa(os.Getpid())+"\n"); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("state.dir: %w", err)
	}
	return &Identity{Fresh: fresh, dir: dir, lock: f}, nil
}

func rewrite(f *os.File, text string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

func (id *Identity) loadName() error {
	path := filepath.Join(id.dir, "name")
	if b, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(b))) > 0 {
		id.Instance = strings.TrimSpace(string(b))
		return nil
	}
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	id.Instance, id.Fresh = hex.EncodeToString(b[:]), true
	return replaceFile(path, id.Instance+"\n")
}

// Workers raises the highest worker count that ran under this identity to n and returns what it was before. A process that
// starts with fewer must fence and remove the ids of the workers that it no longer runs.
func (id *Identity) Workers(n int) (before int, err error) {
	path := filepath.Join(id.dir, "workers")
	if b, err := os.ReadFile(path); err == nil {
		before, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	if n <= before {
		return before, nil
	}
	return before, replaceFile(path, strconv.Itoa(n)+"\n")
}

// replaceFile writes a file so that a crash leaves the old one or the new one.
func replaceFile(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return fmt.Errorf("state.dir: %w", err)
	}
	return os.Rename(path+".new", path)
}

// Close gives the identity back.
func (id *Identity) Close() error { return id.lock.Close() }
