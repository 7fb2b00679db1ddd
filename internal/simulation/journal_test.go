//go:build synctests

package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/simulation/worlds"
)

// journal keeps what happened in a world, in fake time. It is written down only when the world's judgement fails.
type journal struct {
	mu    sync.Mutex
	began time.Time
	logs  map[string]*bytes.Buffer // by file name
}

const maxLog = 16 << 20 // bytes of one file

func newJournal() *journal { return &journal{began: time.Now(), logs: map[string]*bytes.Buffer{}} }

// logf adds a line to a file, with the time since the world began.
func (j *journal) logf(file, format string, args ...any) {
	line := fmt.Sprintf("%12s ", time.Since(j.began).Round(100*time.Microsecond)) + fmt.Sprintf(format, args...)
	j.write(file, append([]byte(line), '\n'))
}

func (j *journal) write(file string, line []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.logs[file]
	if b == nil {
		b = &bytes.Buffer{}
		j.logs[file] = b
	}
	if b.Len() < maxLog {
		b.Write(line)
	}
}

// has reports whether a file holds a text.
func (j *journal) has(file, text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.logs[file]
	return b != nil && bytes.Contains(b.Bytes(), []byte(text))
}

// file is an io.Writer that adds to one file, each Write a line with the time in front.
func (j *journal) file(name string) journalFile { return journalFile{j, name} }

type journalFile struct {
	j    *journal
	name string
}

func (f journalFile) Write(b []byte) (int, error) {
	f.j.logf(f.name, "%s", strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// outcome keeps what a world came to, for who reads it by program.
func (j *journal) outcome(w worlds.World) {
	line, err := json.Marshal(w)
	if err != nil {
		line = []byte(err.Error())
	}
	j.write(outcomeFile, line)
}

// outcomeFile is read by replay.
const outcomeFile = "outcome.json"

// keep writes all files into dir.
func (j *journal) keep(dir string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, b := range j.logs {
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
