package security

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// line is one finding of doctor.
type line struct {
	Check, On, Result, Said, Remedy, Kind string
}

func examine(t *testing.T, yaml string) ([]line, answer) {
	t.Helper()
	a := ask(t, 40*time.Second, yaml, nil, "doctor", "-o", "json")
	var lines []line
	if err := json.Unmarshal([]byte(a.stdout), &lines); err != nil {
		t.Fatalf("exit %d, %v: %s%s", a.code, err, a.stdout, a.stderr)
	}
	return lines, a
}

func failures(lines []line) (failed []line) {
	for _, l := range lines {
		if l.Result == "FAIL" {
			failed = append(failed, l)
		}
	}
	return failed
}

// isSeenByDoctor wants the same words as the commands have, on one line, and no other failure.
func (m mistake) isSeenByDoctor(t *testing.T) {
	t.Helper()
	lines, a := examine(t, m.yaml)
	failed := failures(lines)
	code := 3
	if m.code == 5 {
		code = 5
	}
	if a.code != code || len(failed) != 1 || failed[0].Kind == "" || !strings.Contains(failed[0].Remedy, m.hint) || a.took > patience {
		t.Fatalf("doctor exits %d after %v, want %d and %q: %+v", a.code, a.took, code, m.hint, failed)
	}
	_, cause, _ := strings.Cut(m.cause, ": ") // the address stands in a column of its own
	if !strings.Contains(failed[0].Said, m.cause) && !strings.Contains(failed[0].Said, cause) {
		t.Errorf("doctor says %q, want %q", failed[0].Said, m.cause)
	}
}

func TestDoctorExaminesAWholeJob(t *testing.T) {
	b := newBank(t)
	rights := b.printed(t, "run")
	b.grant(t, "run", rights...)
	must(t, b.admin, nil, "topics", "apply")
	dir := filepath.Join(t.TempDir(), "state")
	yaml := b.as("run") + "group.instance.id: one\nstate.dir: " + dir + "\n"

	healthy, a := examine(t, yaml)
	if a.code != 0 || len(failures(healthy)) > 0 {
		t.Errorf("exit %d: %+v", a.code, failures(healthy))
	}
	seen := map[string]bool{}
	for _, l := range healthy {
		seen[l.Check] = true
	}
	for _, check := range []string{"config", "state.dir", "dns", "tcp", "broker", "login", "advertised", "topics", "rights", "group"} {
		if !seen[check] {
			t.Errorf("nothing is said about %s", check)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("doctor made state.dir: %v", err)
	}

	r := start(t, yaml, nil)
	b.feed(t, 1)
	r.untilLagIsZero(t, b.admin)
	kafkatest.Within(t, 30*time.Second, "doctor to see the job", func(context.Context) error {
		running, a := examine(t, yaml)
		if a.code != 0 || !strings.Contains(a.stdout, "runs under this group.instance.id") || !strings.Contains(a.stdout, "Stable, ") {
			return fmt.Errorf("exit %d: %+v", a.code, running)
		}
		return nil
	})
	for _, right := range rights {
		if right.kind == "transactional-id" {
			continue // a broker tells nothing of WRITE on a transactional id
		}
		b.revoke(t, "run", right)
		lines, a := examine(t, yaml)
		found := false
		for _, l := range failures(lines) {
			found = found || l.Check == "rights" && strings.Contains(l.On, right.name) && strings.Contains(l.Said, right.op) && strings.Contains(l.Remedy, "acls")
		}
		if a.code != 3 || !found {
			t.Errorf("without %v: exit %d, %+v", right, a.code, failures(lines))
		}
		b.grant(t, "run", right)
	}
	r.Kill()
	_, a = examine(t, yaml)
	if strings.Contains(a.stdout, "runs under this group.instance.id") {
		t.Errorf("the process is dead: %s", a.stdout)
	}
}
