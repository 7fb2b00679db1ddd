//go:build mutants

package mutant

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMutants shows for each mutant that its test passes without it and convicts it with it, with the same seed.
//
// Guarantee: G1, G2, G3, G4, G5, G6, G7, G10, G11, G12, G13
func TestMutants(t *testing.T) {
	only := os.Getenv("MUTANT")
	l := newLab(t)
	began := time.Now()
	t.Run("caught", func(t *testing.T) {
		for _, s := range sabotages() {
			if only == "" || slices.Contains(strings.Fields(only), s.mutant) {
				t.Run(s.mutant, func(t *testing.T) {
					t.Parallel()
					l.try(t, s)
				})
			}
		}
	})
	slices.Sort(l.rows)
	if len(l.rows) == 0 {
		t.Fatalf("there is no mutant %q", only)
	}
	t.Logf("mutant → verdict ← test, seed, time\n%s", strings.Join(l.rows, "\n"))
	t.Logf("counts: mutants=%d, seconds=%d", len(l.rows), int(time.Since(began).Seconds()))
}

const (
	storySeeds = 10               // a story may need several: goroutines are scheduled by the machine
	oneRun     = 90 * time.Second // of one test; beyond it nothing is proven
)

// lab builds each package's tests once and remembers which of them pass without a mutant.
type lab struct {
	dir    string
	mu     sync.Mutex
	binary map[string]func() (string, error) // by package
	clean  map[string]func() result          // by test and seed
	rows   []string
}

func newLab(t *testing.T) *lab {
	return &lab{dir: t.TempDir(), binary: map[string]func() (string, error){}, clean: map[string]func() result{}}
}

// result is what a test did.
type result struct {
	passed bool
	output string
	err    error // it could not be run
}

// once returns what do returns, having called it once for each key.
func once[T any](l *lab, m map[string]T, key string, make func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := m[key]; !ok {
		m[key] = make()
	}
	return m[key]
}

func (l *lab) build(dir string) (string, error) {
	return once(l, l.binary, dir, func() func() (string, error) {
		return sync.OnceValues(func() (string, error) {
			binary := filepath.Join(l.dir, strings.ReplaceAll(dir, "/", "-")+".test")
			out, err := exec.Command("go", "test", "-c", "-tags", "synctests mutants", "-o", binary, "../../"+dir).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("build %s: %w\n%s", dir, err, out)
			}
			return binary, err
		})
	})()
}

// try looks for a seed that convicts a mutant.
func (l *lab) try(t *testing.T, s sabotage) {
	began, seeds := time.Now(), 1
	if s.catcher.story {
		seeds = storySeeds
	}
	var with result
	for seed := 1; seed <= seeds; seed++ {
		if r := l.withoutMutant(t, s.catcher, seed); !r.passed || r.err != nil {
			t.Fatalf("%s (%s) fails without the mutant, seed %d: %v\n%s", s.catcher.test, s.catcher.dir, seed, r.err, r.output)
		}
		with = l.run(t, s.catcher, seed, s.mutant)
		if with.err != nil {
			t.Fatal(with.err)
		}
		if verdict := s.catcher.convicts(with); verdict != "" {
			l.note(fmt.Sprintf("%-34s → %-24s ← %s (%s), seed %d, %s", s.mutant, verdict, s.catcher.test, s.catcher.dir, seed, time.Since(began).Round(time.Millisecond)))
			return
		}
		t.Logf("seed %d of %s does not convict %s", seed, s.catcher.test, s.mutant)
	}
	l.note("SURVIVED " + s.mutant)
	t.Errorf("mutant %s survived %d seeds of %s: none of %q in\n%s", s.mutant, seeds, s.catcher.test, s.catcher.verdicts, with.output)
}

func (l *lab) note(row string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, row)
}

func (l *lab) withoutMutant(t *testing.T, c catcher, seed int) result {
	return once(l, l.clean, fmt.Sprint(c.dir, c.test, seed), func() func() result {
		return sync.OnceValue(func() result { return l.run(t, c, seed, "") })
	})()
}

// run runs a test under a mutant, "" for none, in a process of its own.
func (l *lab) run(t *testing.T, c catcher, seed int, mutant string) result {
	binary, err := l.build(c.dir)
	if err != nil {
		return result{err: err}
	}
	ctx, cancel := context.WithTimeout(t.Context(), oneRun+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run", exactly(c.test), "-test.v", "-test.timeout", oneRun.String())
	cmd.Dir = filepath.Join("../..", c.dir)
	// What fails under a mutant is no counterexample to keep in the tree: rapid writes none.
	cmd.Env = append(os.Environ(), Variable+"="+mutant, fmt.Sprint("SEED=", seed), "RAPID_NOFAILFILE=1")
	out, err := cmd.CombinedOutput()
	r := result{passed: err == nil, output: string(out)}
	if err == nil && !bytes.Contains(out, []byte("--- PASS: "+c.test+" ")) {
		r.err = fmt.Errorf("%s (%s) did not run:\n%s", c.test, c.dir, out)
	}
	return r
}

// exactly makes a pattern of a test's name that matches nothing else.
func exactly(test string) string {
	return "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
}

var marks = regexp.MustCompile(`marks: \[([^\]]*)\]`)

// convicts returns the verdict of a failed run, "" if it is none: a crash and a time-out prove nothing.
func (c catcher) convicts(r result) string {
	if r.passed || strings.Contains(r.output, "panic: ") || strings.Contains(r.output, "fatal error: ") {
		return ""
	}
	_, complaint, _ := strings.Cut(r.output, "_test.go:") // what the test says, not what is logged before
	said := []string{complaint}
	if c.story {
		said = nil
		for _, m := range marks.FindAllStringSubmatch(r.output, -1) {
			said = append(said, strings.Split(m[1], ", ")...)
		}
	}
	for _, v := range c.verdicts {
		for _, text := range said {
			if text == v || !c.story && strings.Contains(text, v) {
				return v
			}
		}
	}
	return ""
}
