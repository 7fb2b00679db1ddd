package mutant

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A release binary has no switch: no symbol of it, and no name of a mutant.
func TestReleaseHasNoMutant(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "processor")
	build := exec.Command("go", "build", "-o", binary, "../../cmd/processor")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	symbols, err := exec.Command("go", "tool", "nm", binary).Output()
	if err != nil {
		t.Fatalf("nm: %v", err)
	}
	for line := range strings.Lines(string(symbols)) {
		if strings.Contains(line, "tallystick/internal/mutant.") {
			t.Errorf("the binary has the symbol %s", strings.TrimSpace(line))
		}
	}
	image, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range inSource(t) {
		if bytes.Contains(image, []byte(name)) {
			t.Errorf("the binary holds the name of mutant %q (%s)", name, file)
		}
	}
}
