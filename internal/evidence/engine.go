package evidence

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// enginePackages are what stands between a record of the input and its effect: results under one state of these are results of
// one engine, whatever else the tree holds.
var enginePackages = []string{"internal/mutant", "internal/session", "ledger", "ledger/money", "ledger/topology", "pipeline", "record", "state", "topics"}

// Engine names the engine of the tree at root: a hash over its sources without tests, and over the versions of the Kafka client.
func Engine(root string) (string, error) {
	h := sha256.New()
	for _, dir := range enginePackages {
		if err := addPackage(h, root, dir); err != nil {
			return "", err
		}
	}
	versions, err := clientVersions(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	fmt.Fprint(h, versions)
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), nil
}

func addPackage(h io.Writer, root, dir string) error {
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no Go files in %s: give the root of the tree", filepath.Join(root, dir))
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s/%s %d\n%s", dir, filepath.Base(name), len(text), text)
	}
	return nil
}

// clientVersions are the lines of go.mod that name the Kafka client.
func clientVersions(gomod string) (string, error) {
	text, err := os.ReadFile(gomod)
	if err != nil {
		return "", err
	}
	var found strings.Builder
	for l := range strings.Lines(string(text)) {
		if strings.Contains(l, "github.com/twmb/franz-go") {
			found.WriteString(strings.TrimSpace(l) + "\n")
		}
	}
	return found.String(), nil
}

// Commit names the commit of the tree at root, shortened, with "-dirty" behind it when the tree has changes. It is "unknown"
// outside a git checkout.
func Commit(root string) string {
	head, err := exec.Command("git", "-C", root, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes, err := exec.Command("git", "-C", root, "status", "--porcelain").Output()
	name := strings.TrimSpace(string(head))
	if err != nil || len(changes) > 0 {
		name += "-dirty"
	}
	return name
}
