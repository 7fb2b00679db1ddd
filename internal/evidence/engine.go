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

const (
	command = "cmd/processor"
	checker = "internal/verify"
)

// bookkeeping are the packages that write down what came of a run and decide nothing of it.
var bookkeeping = []string{"internal/evidence", "internal/simulation/worlds", "integration/campaign/results"}

// Engine names the engine of the tree at root: a hash over the sources without tests of every package that the command is linked
// from, and over the versions of its libraries. The checker is left out: it belongs to the judge.
func Engine(root string) (string, error) {
	dirs, err := engineOf(root)
	if err != nil {
		return "", err
	}
	return name(root, dirs, "", "go.mod")
}

// SimulationJudge names what breaks and judges simulated worlds: the checker, the simulation's tests, and what these are linked from
// besides the engine.
func SimulationJudge(root string) (string, error) { return judge(root, "internal/simulation") }

// CampaignJudge names what breaks and judges processors on a real cluster: the checker, the campaign's tests, which hold its kinds of
// fault and their weights, what these are linked from besides the engine, and the version of the brokers.
func CampaignJudge(root string) (string, error) {
	return judge(root, "integration/campaign", "integration/go.mod", "integration/pom.xml")
}

func judge(root, tests string, files ...string) (string, error) {
	engine, err := engineOf(root)
	if err != nil {
		return "", err
	}
	dirs, err := linked(root, tests, true)
	if err != nil {
		return "", err
	}
	if !slices.Contains(dirs, checker) { // the campaign asks the command for its verdict
		dirs = append(dirs, checker)
	}
	dirs = slices.DeleteFunc(dirs, func(d string) bool { return slices.Contains(engine, d) || slices.Contains(bookkeeping, d) })
	return name(root, dirs, tests, files...)
}

func engineOf(root string) ([]string, error) {
	dirs, err := linked(root, command, false)
	return slices.DeleteFunc(dirs, func(d string) bool { return d == checker }), err
}

// name is a hash over the packages in dirs, of which the one in tested counts with its tests, and over other files.
func name(root string, dirs []string, tested string, files ...string) (string, error) {
	for _, dir := range slices.Sorted(slices.Values(dirs)) {
		sources, err := sourcesOf(root, dir, dir == tested)
		if err != nil {
			return "", err
		}
		files = append(files, sources...)
	}
	h := sha256.New()
	for _, file := range files {
		if err := add(h, root, file); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), nil
}

func add(h io.Writer, root, file string) error {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(h, "%s %d\n%s", file, len(text), text)
	return err
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
