//go:build transcript

package lint

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReadmeTranscript runs the commands of README.md, without a network and with a state folder of their own, and compares.
func TestReadmeTranscript(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := transcripts(string(page))
	if len(all) == 0 {
		t.Fatalf("README.md has no command in a fenced block under %s", transcriptMark)
	}
	state := t.TempDir()
	for _, x := range all {
		t.Run(x.command, func(t *testing.T) {
			out, err := offline(t, x.command, state)
			if err != nil {
				t.Fatalf("README.md:%d: %v", x.line, err)
			}
			if why := differs(x.shown, out); why != "" {
				t.Errorf("README.md:%d: %s: %s\nprinted:\n%s", x.line, x.command, why, strings.Join(out, "\n"))
			}
		})
	}
}

// offline runs one command at the root of the tree and returns the lines of its standard output.
func offline(t *testing.T, command, state string) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "XDG_STATE_HOME="+state, "NO_COLOR=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", command, err, stdout.String(), stderr.String())
	}
	return strings.Split(strings.TrimRight(stdout.String(), "\n"), "\n"), nil
}
