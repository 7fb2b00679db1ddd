package main

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestMemoryLimitIsHalfOfTheSmallerOfMachineAndCgroup(t *testing.T) {
	meminfo := &fstest.MapFile{Data: []byte("MemTotal:        8388608 kB\nMemFree: 1 kB\n")}
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		configured int64
		files      fstest.MapFS
		want       int64
	}{
		"configured":   {1234, fstest.MapFS{"proc/meminfo": meminfo}, 1234},
		"machine":      {0, fstest.MapFS{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": text("max\n")}, 4 << 30},
		"cgroup v2":    {0, fstest.MapFS{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": text("1073741824\n")}, 512 << 20},
		"cgroup v1":    {0, fstest.MapFS{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": text("2147483648\n")}, 1 << 30},
		"unlimited v1": {0, fstest.MapFS{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": text("9223372036854771712\n")}, 4 << 30},
		"unknown":      {0, fstest.MapFS{}, 0},
	} {
		if got := memoryLimit(c.configured, c.files); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestEstimateRefusesWhatDoesNotFitAndNamesWhatWould(t *testing.T) {
	const window = 14 * 24 * time.Hour
	if e := newEstimate(100, window, 0); e.check() != nil || e.Bytes != 100*1209600*90 {
		t.Errorf("unknown memory: %+v, %v", e, e.check())
	}
	if err := newEstimate(100, window, 11<<30).check(); err != nil {
		t.Error(err)
	}
	err := newEstimate(100, window, 4<<30).check()
	if err == nil {
		t.Fatal("accepted")
	}
	wantHint(t, err, exitFailed, "dedupe.window: 5d fits")
	if want := "dedupe.window: 336h0m0s at 100 events a second needs about 10.1 GiB of memory; state.memory.max.bytes is 4.0 GiB"; err.Error() != want {
		t.Errorf("says %q", err)
	}
	if err := newEstimate(1e6, window, 1<<30).check(); !strings.Contains(err.(*failure).hint, "11s fits") {
		t.Errorf("hint %q", err.(*failure).hint)
	}
}
