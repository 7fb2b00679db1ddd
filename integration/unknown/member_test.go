package unknown

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// A member is one processor under its name, through all its incarnations.
type member struct {
	*kafkatest.Process
	settings settings
	binary   string
	log      string
	orders   io.WriteCloser
	diary    *diary
}

// A diary is what a member has told, of all incarnations.
type diary struct {
	mu    sync.Mutex
	lines []happening
}

func (d *diary) add(h happening) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, h)
}

// since returns what was told after the first n happenings.
func (d *diary) since(n int) []happening {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lines[n:len(d.lines):len(d.lines)]
}

func (d *diary) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.lines)
}

// member prepares a processor; start runs it.
func (s *site) member(s2 settings) *member {
	s2.Seeds, s2.StateDir = s.Seeds(), filepath.Join(s.dir, s2.Name)
	return &member{settings: s2, binary: s.binary(s2.Mutant), log: filepath.Join(s.dir, s2.Name+".log"), diary: &diary{}}
}

// start runs the next incarnation. It ends with the test.
func (m *member) start(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(m.settings)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the child has its own
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := exec.Command(m.binary)
	cmd.Env = append(os.Environ(), envJob+"="+string(text), envMutant+"="+m.settings.Mutant)
	cmd.Stdout, cmd.Stderr = w, log
	if m.orders, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if m.Process, err = kafkatest.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Process.Kill)
	go m.diary.read(r)
}

func (d *diary) read(r io.ReadCloser) {
	defer r.Close()
	for s := bufio.NewScanner(r); s.Scan(); {
		var h happening
		if json.Unmarshal(s.Bytes(), &h) == nil {
			d.add(h)
		}
	}
}

// order tells the member what to do at its next transaction.
func (m *member) order(t *testing.T, order string) {
	t.Helper()
	if _, err := io.WriteString(m.orders, order+"\n"); err != nil {
		t.Fatalf("%s: %v", m.settings.Name, err)
	}
}

// await returns the first happening after the first n that is wanted.
func (m *member) await(t *testing.T, limit time.Duration, what string, n int, wanted func(happening) bool) (found happening) {
	t.Helper()
	kafkatest.Within(t, limit, m.settings.Name+": "+what, func(context.Context) error {
		told := m.diary.since(n)
		for _, h := range told {
			if wanted(h) {
				found = h
				return nil
			}
		}
		return fmt.Errorf("told since: %+v", told)
	})
	return found
}

// is wants a happening of one kind.
func is(what string) func(happening) bool { return func(h happening) bool { return h.What == what } }

// leave ends the member as an operator does. One whose task has stopped says so with exit code 1, every other one ends with 0.
func (m *member) leave(t *testing.T, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := m.Terminate(ctx); err != nil {
		t.Fatalf("%s: %v", m.settings.Name, err)
	}
	if code := m.ExitCode(); code != want {
		t.Errorf("%s: exit code %d after SIGTERM, want %d", m.settings.Name, code, want)
	}
}
