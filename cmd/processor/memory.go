package main

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// idBytes is what one remembered event id takes in memory: 60 to 90 bytes, measured; the estimate takes the upper end.
const idBytes = 90

// rateSample is how much of the input's past tells its rate.
const rateSample = time.Hour

// estimate is what the dedupe store will need once a whole window of events has passed.
type estimate struct {
	Rate   float64 // new ids a second
	Window time.Duration
	Bytes  int64
	Limit  int64 // 0: unknown, nothing is refused
}

func newEstimate(rate float64, window time.Duration, limit int64) estimate {
	return estimate{rate, window, int64(min(rate*window.Seconds()*idBytes, math.MaxInt64/2)), limit}
}

// check refuses a window that will not fit, and names the one that would.
func (e estimate) check() error {
	if e.Limit == 0 || e.Bytes <= e.Limit {
		return nil
	}
	fits := time.Duration(float64(e.Limit) / (e.Rate * idBytes) * float64(time.Second))
	return fail(exitFailed,
		fmt.Errorf("dedupe.window: %s at %.0f events a second needs about %s of memory; state.memory.max.bytes is %s", e.Window, e.Rate, humanBytes(e.Bytes), humanBytes(e.Limit)),
		fmt.Sprintf("dedupe.window: %s fits; or raise state.memory.max.bytes, or correct dedupe.expected.rate", wholeUnits(fits)))
}

// wholeUnits rounds down to days, hours or seconds, so that the value can be pasted.
func wholeUnits(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d >= 2*day:
		return fmt.Sprintf("%dd", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%ds", max(1, d/time.Second))
	}
}

// humanBytes prints a size as people read it.
func humanBytes(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// inputRate is how many records a second the topic took in the last hour.
func inputRate(ctx context.Context, adm *kadm.Client, topic string, now time.Time) (float64, error) {
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("rate of %s: %w", topic, err)
	}
	since, err := adm.ListOffsetsAfterMilli(ctx, now.Add(-rateSample).UnixMilli(), topic)
	if err != nil {
		return 0, fmt.Errorf("rate of %s: %w", topic, err)
	}
	records := int64(0)
	ends.Each(func(end kadm.ListedOffset) {
		if then, ok := since.Lookup(end.Topic, end.Partition); ok && end.Err == nil && then.Err == nil {
			records += max(0, end.Offset-then.Offset)
		}
	})
	return float64(records) / rateSample.Seconds(), nil
}

// memoryLimit is what state may take: the configured bytes, else half of what the machine or the cgroup has. root is the
// file system to ask; 0 means that it does not say.
func memoryLimit(configured int64, root fs.FS) int64 {
	if configured > 0 {
		return configured
	}
	total := int64(0)
	for _, n := range []int64{
		wholeFile(root, "sys/fs/cgroup/memory.max"),
		wholeFile(root, "sys/fs/cgroup/memory/memory.limit_in_bytes"),
		machineMemory(root),
	} {
		if n > 0 && (total == 0 || n < total) {
			total = n
		}
	}
	return total / 2
}

// wholeFile is the number in a file, 0 when there is none ("max" means no limit).
func wholeFile(root fs.FS, name string) int64 {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

func machineMemory(root fs.FS) int64 {
	b, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
