package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of /proc/stat and /proc/PID/stat on Linux: USER_HZ is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// usage is processor time used up to now: of all of the machine, what a hypervisor took from it included, of the broker, and
// of this process.
type usage struct{ machine, broker, own time.Duration }

func readUsage(broker int) (u usage, err error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	total, _, _ := bytes.Cut(stat, []byte("\n"))
	const idle, wait, guest = 4, 5, 9 // columns; a guest's time is in user's, too
	for i, f := range strings.Fields(string(total)) {
		if i == 0 || i == idle || i == wait || i >= guest {
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, fmt.Errorf("/proc/stat: %w", err)
		}
		u.machine += time.Duration(n) * tick
	}
	if u.broker, err = processTime(broker); err != nil {
		return u, err
	}
	var r syscall.Rusage
	err = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	u.own = cpuTime(&r)
	return u, err
}

func cpuTime(r *syscall.Rusage) time.Duration { return time.Duration(r.Utime.Nano() + r.Stime.Nano()) }

func processTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name before it may hold anything
	const utime, stime = 11, 12                 // counted behind the name
	f := strings.Fields(string(rest))
	if len(f) <= stime {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, stat)
	}
	u, err := strconv.ParseInt(f[utime], 10, 64)
	if err != nil {
		return 0, err
	}
	s, err := strconv.ParseInt(f[stime], 10, 64)
	return time.Duration(u+s) * tick, err
}

// peakMemory is the most that a living process has held at once, in bytes. The maxrss of rusage would begin with that of the
// process that started it.
func peakMemory(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), "\nVmHWM:")
	line, _, _ := strings.Cut(rest, " kB\n")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if !found || err != nil {
		return 0, fmt.Errorf("/proc/%d/status tells no VmHWM: %w", pid, err)
	}
	return n << 10, nil
}

// loadAverage is the machine's, over the last minute.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}
