package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// One machine serves all: to compile the simulation takes longer than to live it.
func TestReplays(t *testing.T) {
	m, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.close(t.Context())
	t.Run("are the same twice, byte by byte", m.sameTwice)
	t.Run("differ by schedule", m.differBySchedule)
	t.Run("of the corpus are clean and still interesting", m.corpus)
}

func (m *machine) mustLive(t *testing.T, l life) outcome {
	t.Helper()
	o, err := m.live(t.Context(), l, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !o.passed {
		t.Errorf("%s FAILED: %s\n%s", l, o.problems(), exactly(l))
	}
	return o
}

func (m *machine) sameTwice(t *testing.T) {
	for _, job := range jobs {
		l := life{Job: job, Seed: 4, Schedule: 1}
		first, second := m.mustLive(t, l), m.mustLive(t, l)
		differs, err := difference(first.dir, second.dir)
		if err != nil {
			t.Fatal(err)
		}
		if differs != "" || first.digest != second.digest {
			t.Errorf("%s, digests %s and %s: %s", l, first.digest, second.digest, differs)
		}
		if first.world.Counts["commits"] == 0 || first.world.Seed != l.Seed {
			t.Errorf("%s came to %+v: it did nothing", l, first.world)
		}
	}
}

func (m *machine) differBySchedule(t *testing.T) {
	first, second := m.mustLive(t, life{Seed: 4, Schedule: 1}), m.mustLive(t, life{Seed: 4, Schedule: 2})
	if first.digest == second.digest {
		t.Errorf("schedules 1 and 2 of seed 4 both have digest %s: the schedule decides nothing", first.digest)
	}
}

func (m *machine) corpus(t *testing.T) {
	entries, err := readCorpus(corpusFile)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	problems, err := m.check(t.Context(), entries, t.TempDir(), func(outcome) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	t.Logf("%d lives in %s", len(entries), time.Since(began).Round(time.Second))
}

func TestDifferenceNamesTheFirstLineThatDiffers(t *testing.T) {
	folder := func(files ...string) string {
		dir := t.TempDir()
		for i := 0; i < len(files); i += 2 {
			if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	a := folder("a.log", "one\ntwo\n", "b.log", "x")
	for want, b := range map[string]string{
		"":                            folder("a.log", "one\ntwo\n", "b.log", "x"),
		"a.log line 2:":               folder("a.log", "one\n2\n", "b.log", "x"),
		"only the first run has b":    folder("a.log", "one\ntwo\n"),
		"only the second run has aa":  folder("a.log", "one\ntwo\n", "aa", "", "b.log", "x"),
		"a.log: 3 lines and 4 lines":  folder("a.log", "one\ntwo\n\n", "b.log", "x"),
		"only the first run has a.lo": folder("b.log", "x"),
	} {
		got, err := difference(a, b)
		if err != nil || !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		if da, _ := digest(a); want != "" {
			if db, _ := digest(b); da == db {
				t.Errorf("%q: both have digest %s", got, da)
			}
		}
	}
}

func TestOldCompiledModulesAreDropped(t *testing.T) {
	dir := t.TempDir()
	old, used := filepath.Join(dir, "v1", "old"), filepath.Join(dir, "v1", "used")
	if err := os.Mkdir(filepath.Join(dir, "v1"), 0o755); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, at := range map[string]time.Time{old: now.Add(-2 * keptFor), used: now} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := dropOld(dir, now.Add(-keptFor)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(used); err != nil {
		t.Errorf("the one that was used: %v", err)
	}
}

func TestAWrongJobIsRefused(t *testing.T) {
	if _, err := parse([]string{"-job", "TwoHop"}); err == nil || !strings.Contains(err.Error(), "TwoHops") {
		t.Errorf("got %v: the error names the jobs that there are", err)
	}
	if o, err := parse([]string{"-job", "ledger", "-seed", "9"}); err != nil || o.life.Job != "" || o.life.Seed != 9 {
		t.Errorf("got %+v, %v", o, err)
	}
}
