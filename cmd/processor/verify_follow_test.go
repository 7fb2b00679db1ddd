package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/internal/verify"
	"github.com/tallystick/tallystick/ledger/topology"
)

// follower is verify --follow in this process; stop is what a first Ctrl-C does.
type follower struct {
	out, log *lockedBuffer
	stop     func()
	ended    chan exitCode
}

func startFollower(t *testing.T, cfg Config, flags ...string) *follower {
	t.Helper()
	c, _, _ := newTestCLI()
	f := &follower{out: &lockedBuffer{}, log: &lockedBuffer{}, ended: make(chan exitCode, 1)}
	c.stdout, c.stderr = f.out, f.log
	ctx, cancel := context.WithCancelCause(t.Context())
	f.stop = func() { cancel(interruptedError{syscall.SIGINT}) }
	args := append([]string{"verify", "--follow", "--interval", "1s", "--metrics-listen", "127.0.0.1:0", "--bootstrap-servers", strings.Join(cfg.BootstrapServers, ",")}, flags...)
	go func() { f.ended <- c.execute(ctx, args) }()
	return f
}

func (f *follower) wait(t *testing.T, want exitCode) {
	t.Helper()
	select {
	case code := <-f.ended:
		if code != want {
			t.Errorf("exit %d, want %d:\n%s%s", code, want, f.out, f.log)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("it does not end:\n%s%s", f.out, f.log)
	}
}

var metricsAt = regexp.MustCompile(`http://[^ ]+/metrics`)

func (f *follower) scrape(t *testing.T, path string) string {
	t.Helper()
	url := metricsAt.FindString(f.log.String())
	resp, err := http.Get(strings.TrimSuffix(url, "/metrics") + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFollowAuditsARunningJobUntilASignal(t *testing.T) {
	_, cfg := startJob(t)
	processSome(t, cfg, 200)
	f := startFollower(t, cfg)
	eventually(t, "the first round", func() bool { return strings.Contains(f.out.String(), "round 1 ok: 200 inputs judged (200 new)") })
	processSome(t, cfg, 100)
	eventually(t, "what came since", func() bool { return strings.Contains(f.out.String(), "ok: 300 inputs judged (") })
	metrics := f.scrape(t, "/metrics")
	for _, want := range []string{"\ntallystick_verify_inputs_judged_total 300\n", `tallystick_verify_violations_total{verdict="double-credit"} 0`, "tallystick_verify_undecided_partitions 0\n", "# TYPE tallystick_verify_rounds_total counter\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in\n%s", want, metrics)
		}
	}
	if ready := f.scrape(t, "/readyz"); ready != "ready\n" {
		t.Error(ready)
	}
	f.stop()
	f.wait(t, exitOK)
	if !strings.Contains(f.out.String(), "OK: every event has exactly one outcome") {
		t.Error(f.out)
	}
}

func TestFollowTellsAViolationAtOnceAndExitsThree(t *testing.T) {
	for _, fast := range []bool{false, true} {
		_, cfg := startJob(t)
		processSome(t, cfg, 200)
		f := startFollower(t, cfg, "-o", "jsonl", fmt.Sprintf("--fail-fast=%v", fast))
		eventually(t, "the first round", func() bool { return strings.Contains(f.out.String(), `"round":1,"result":"ok"`) })
		forge(t, cfg)
		if !fast {
			eventually(t, "the violation", func() bool { return strings.Contains(f.out.String(), `"new_violations":[{"verdict":"duplicate"`) })
			if m := f.scrape(t, "/metrics"); !strings.Contains(m, `violations_total{verdict="duplicate"} 1`) {
				t.Error(m)
			}
			f.stop()
		}
		f.wait(t, exitCheckFailed)
		lines := strings.Split(strings.TrimSpace(f.out.String()), "\n")
		var last struct{ Result string }
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Result != "violated" {
			t.Errorf("%v: %s", err, lines[len(lines)-1])
		}
		if n := strings.Count(f.out.String(), `"new_violations"`); n != 1 {
			t.Errorf("told %d times", n)
		}
	}
}

// execVerify runs verify and returns what it prints.
func execVerify(t *testing.T, cfg Config, flags ...string) (exitCode, string) {
	t.Helper()
	c, stdout, stderr := newTestCLI()
	code := c.execute(t.Context(), append([]string{"verify", "--bootstrap-servers", strings.Join(cfg.BootstrapServers, ",")}, flags...))
	return code, stdout.String() + stderr.String()
}

func TestABaselineCarriesVerifyOverRetention(t *testing.T) {
	_, cfg := startJob(t)
	processSome(t, cfg, 200)
	file := filepath.Join(t.TempDir(), "ledger.baseline")
	if code, text := execVerify(t, cfg, "--write-baseline", file); code != exitOK {
		t.Fatal(code, text)
	}
	retainNothing(t, cfg)
	processSome(t, cfg, 100)
	if code, text := execVerify(t, cfg); code != exitUnavailable || !strings.Contains(text, "retention took inputs that were processed") {
		t.Error(code, text)
	}
	// The file is replaced by the newer one.
	code, text := execVerify(t, cfg, "--baseline", file, "--write-baseline", file)
	if code != exitOK || !strings.Contains(text, "300 in ") || !strings.Contains(text, "200 by the baseline of ") {
		t.Error(code, text)
	}
	if code, text := execVerify(t, cfg, "--baseline", file, "--dedupe-window", "1h"); code != exitUnavailable || !strings.Contains(text, "written with dedupe.window") {
		t.Error(code, text)
	}
	if code, text := execVerify(t, cfg, "--baseline", file+"x"); code != exitUnavailable || !strings.Contains(text, "hint: without --baseline") {
		t.Error(code, text)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	forge(t, cfg)
	if code, text := execVerify(t, cfg, "--baseline", file, "--write-baseline", file); code != exitCheckFailed || !strings.Contains(text, "no baseline was written") {
		t.Error(code, text)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Error("a baseline was written of a violated history", err)
	}
	if code, text := execVerify(t, cfg, "--write-baseline", file, "--raw"); code != exitUsage {
		t.Error(code, text)
	}
}

// retainNothing deletes all inputs.
func retainNothing(t *testing.T, cfg Config) {
	t.Helper()
	client, err := cfg.newClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(t.Context(), topology.Credits.Name)
	if err != nil {
		t.Fatal(err)
	}
	if deleted, err := admin.DeleteRecords(t.Context(), ends.Offsets()); err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
}

func TestUndecidedPartitionsAreCounted(t *testing.T) {
	one := &verify.UndecidedError{Partition: 1, Reason: "x"}
	for n, err := range []error{nil, one, fmt.Errorf("%w", one)} {
		if got := undecidedPartitions(err); got != min(n, 1) {
			t.Errorf("%v counts %d", err, got)
		}
	}
}

// Each metric on the page exists, and each one that exists is on the page, also as it is used in the alert rules.
func TestThePageOfVerifyKnowsItsMetrics(t *testing.T) {
	text, page := newFollowMetrics().text(), page(t, "docs/verify.md")
	served := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(text, -1) {
		served[m[1]] = true
		if !strings.Contains(page, "| `"+m[1]) {
			t.Errorf("docs/verify.md does not explain %s", m[1])
		}
	}
	for _, name := range regexp.MustCompile(`tallystick_verify_\w+`).FindAllString(page, -1) {
		if !served[name] {
			t.Errorf("docs/verify.md names %s, which is not served", name)
		}
	}
	for _, v := range verify.Verdicts(true, false) {
		if !strings.Contains(page, "| `"+string(v)+"`") {
			t.Errorf("docs/verify.md does not explain the verdict %s", v)
		}
	}
}
