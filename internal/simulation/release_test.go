package simulation

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var sabotageName = regexp.MustCompile(`mutant\.On\("([^"]+)"\)`)

// sabotagesInSource returns the names that the engine asks the switch for, with the file of each.
func sabotagesInSource(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range []string{"../../pipeline", "../../state", "../session", "../../topics", "../../record"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range sabotageName.FindAllSubmatch(text, -1) {
				found[string(m[1])] = file
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("the engine asks for no mutant at all: has the switch another name?")
	}
	return found
}

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
	for name, file := range sabotagesInSource(t) {
		if bytes.Contains(image, []byte(name)) {
			t.Errorf("the binary holds the name of mutant %q (%s)", name, file)
		}
	}
}
