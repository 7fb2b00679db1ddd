package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// buildSimulation compiles the simulation of the tree at root for wasip1, into dir.
func buildSimulation(ctx context.Context, root, dir string) (module []byte, err error) {
	file := filepath.Join(dir, "simulation.wasm")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-tags", "synctests", "-ldflags", "-s -w", "-o", file, "./internal/simulation")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the simulation for wasip1: %w\n%s", err, out)
	}
	return os.ReadFile(file)
}

// findRoot is the folder of the main module, above the working directory.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/tallystick/tallystick\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no source tree above the working directory: run it in a checkout")
		}
	}
}
