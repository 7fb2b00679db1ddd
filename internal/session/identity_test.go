package session

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func identify(t *testing.T, dir, instance string) *Identity {
	t.Helper()
	id, err := Identify(dir, "app", instance)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { id.Close() })
	return id
}

func TestIdentityIsStableAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	first := identify(t, dir, "")
	name := first.Instance
	if !first.Fresh || len(name) != 8 {
		t.Errorf("first start: %+v", first)
	}
	first.Close()
	again := identify(t, dir, "")
	if again.Instance != name || again.Fresh {
		t.Errorf("second start is %q, fresh %v, want %q", again.Instance, again.Fresh, name)
	}
}

func TestTwoLiveProcessesNeverShareAnIdentity(t *testing.T) {
	dir := t.TempDir()
	a, b := identify(t, dir, ""), identify(t, dir, "")
	if a.Instance == b.Instance {
		t.Errorf("both are %q", a.Instance)
	}
	identify(t, dir, "bank-1")
	_, err := Identify(dir, "app", "bank-1")
	if err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) || !strings.Contains(err.Error(), "give this one another id") {
		t.Errorf("got %v, want an error that names the pid and the way out", err)
	}
}

func TestWorkersRemembersTheHighestCount(t *testing.T) {
	id := identify(t, t.TempDir(), "")
	for _, step := range []struct{ n, before int }{{4, 0}, {1, 4}, {6, 4}, {2, 6}} {
		before, err := id.Workers(step.n)
		if err != nil || before != step.before {
			t.Errorf("Workers(%d) = %d, %v, want %d", step.n, before, err, step.before)
		}
	}
}

func TestIdentifyNamesAnUnusableStateDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Identify(file, "app", ""); err == nil || !strings.Contains(err.Error(), "state.dir") {
		t.Errorf("got %v", err)
	}
}
