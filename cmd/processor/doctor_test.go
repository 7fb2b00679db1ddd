package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDoctorMakesNothingInTheStateDir(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{ApplicationID: "app", StateDir: filepath.Join(dir, "a", "b")}
	if f := checkStateDir(cfg); len(f) != 1 || f[0].Result != isOK {
		t.Errorf("got %+v", f)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	cfg.StateDir = writeFile(t, "file", "x")
	if f := checkStateDir(cfg); len(f) != 1 || f[0].Result != isFail || !strings.Contains(f[0].Remedy, "state.dir") {
		t.Errorf("a file in its place: %+v", f)
	}
}

func TestDoctorExitsByTheWorst(t *testing.T) {
	ok, warn := finding{Result: isOK}, finding{Result: isWarn}
	failed, down := finding{Result: isFail}, finding{Result: isFail, passes: true}
	for _, c := range []struct {
		found []finding
		code  exitCode
	}{
		{[]finding{ok, warn}, exitOK},
		{[]finding{ok, down, warn}, exitUnavailable},
		{[]finding{failed, down}, exitCheckFailed},
		{[]finding{ok, failed}, exitCheckFailed},
	} {
		if code := classify(t.Context(), orNil(diagnosisOf(c.found))).code; code != c.code {
			t.Errorf("%v exits %d, want %d", c.found, code, c.code)
		}
	}
}

// orNil lets classify see no error as exit 0.
func orNil(err error) error {
	if err == nil {
		return silent(exitOK)
	}
	return err
}

func TestDoctorSaysWhatFailedFirst(t *testing.T) {
	cli, stdout, stderr := newTestCLI("PROCESSOR_BOOTSTRAP_SERVERS=127.0.0.1:1", "PROCESSOR_STATE_DIR="+t.TempDir())
	if code := cli.execute(t.Context(), []string{"doctor"}); code != exitUnavailable || stderr.Len() > 0 {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{"ok      config", "ok      dns", "FAIL    tcp        127.0.0.1:1", "nothing listens there (connection refused); start the broker"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
}
