package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tallystick/tallystick/internal/simulation/worlds"
)

// outcome is what a life came to.
type outcome struct {
	life   life
	passed bool
	world  worlds.World // empty when the life ended before its judgement
	digest string       // of all files that it left: logs, schedule, what it printed
	dir    string       // where they are
}

// live lives a life in a new folder below dir.
func (m *machine) live(ctx context.Context, l life, dir string) (outcome, error) {
	dir, err := os.MkdirTemp(dir, fmt.Sprintf("%s-%d-%d-", l.test(), l.Seed, l.Schedule))
	if err != nil {
		return outcome{}, err
	}
	passed, err := m.run(ctx, l, dir)
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w: see %s", l, err, filepath.Join(dir, printed))
	}
	o := outcome{life: l, passed: passed, dir: dir}
	if o.world, err = readWorld(dir); err != nil {
		return outcome{}, fmt.Errorf("%s: %w: see %s", l, err, filepath.Join(dir, printed))
	}
	o.digest, err = digest(dir)
	return o, err
}

// readWorld finds what the simulation has written down of its world.
func readWorld(dir string) (w worlds.World, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "tallystick-simulation", "*", "outcome.json"))
	if err != nil || len(names) == 0 { // it panicked, or all its goroutines stood still
		return w, err
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		return w, err
	}
	return w, json.Unmarshal(text, &w)
}

// digest is a hash over the names and contents of all files in dir.
func digest(dir string) (string, error) {
	h := sha256.New()
	files, err := read(dir)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		fmt.Fprintf(h, "%s %d\n%s", f.name, len(f.text), f.text)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

type file struct {
	name string // relative
	text []byte
}

// read returns all files in dir by name.
func read(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		files = append(files, file{name, text})
		return err
	})
	return files, err
}

// difference names the first line in which two folders differ, "" when they are the same byte by byte.
func difference(a, b string) (string, error) {
	left, err := read(a)
	if err != nil {
		return "", err
	}
	right, err := read(b)
	if err != nil {
		return "", err
	}
	for i := range max(len(left), len(right)) {
		switch {
		case i == len(left) || i < len(right) && right[i].name < left[i].name:
			return fmt.Sprintf("only the second run has %s", right[i].name), nil
		case i == len(right) || left[i].name < right[i].name:
			return fmt.Sprintf("only the first run has %s", left[i].name), nil
		case !bytes.Equal(left[i].text, right[i].text):
			return left[i].name + lineOf(string(left[i].text), string(right[i].text)), nil
		}
	}
	return "", nil
}

func lineOf(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return fmt.Sprintf(" line %d:\nfirst:  %s\nsecond: %s", i+1, left[i], right[i])
		}
	}
	return fmt.Sprintf(": %d lines and %d lines", len(left), len(right))
}

// verdict is one word or two of what came.
func (o outcome) verdict() string {
	if o.passed {
		return "clean"
	}
	return "FAILED"
}

// problems is why it failed.
func (o outcome) problems() string {
	if len(o.world.Problems) > 0 {
		return strings.Join(o.world.Problems, "\n")
	}
	text, err := os.ReadFile(filepath.Join(o.dir, printed))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
