package pipeline

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/session"
)

// bytesPerID bounds what a remembered id costs in memory: its packed record, its index entry, and the map's slack.
const bytesPerID = 95

// checkMemory estimates what the dedupe stores will hold when their windows are full, prints it, and refuses what memory
// cannot hold, naming the window that would fit.
func (p *Processor) checkMemory(ctx context.Context) error {
	limit := p.cfg.MaxStateBytes
	if limit == 0 {
		limit = memoryOfMachine() / 2
	}
	var total float64
	var longest time.Duration
	for _, s := range p.pipe.stages {
		window, _ := s.windows()
		if window == 0 {
			continue
		}
		rate, err := p.rate(ctx, s)
		if err != nil {
			return err
		}
		bytes := rate * window.Seconds() * bytesPerID
		p.cfg.Logger.Info("dedupe memory when the window is full", "app", p.pipe.app, "stage", s.name, "rate", math.Round(rate*10)/10, "window", window, "bytes", int64(bytes))
		total, longest = total+bytes, max(longest, window)
	}
	if limit <= 0 || total <= float64(limit) {
		return nil
	}
	fits := time.Duration(float64(longest) * float64(limit) / total).Truncate(time.Minute)
	return fmt.Errorf("dedupe.window=%s needs about %d MiB when it is full, state.memory.max.bytes allows %d MiB: a window of %s would fit, or raise the limit, or set dedupe.expected.rate if the last hour was unusual",
		longest, int64(total)>>20, limit>>20, fits)
}

// rate returns the records per second of the inputs that feed a stage: configured, or of the last hour. A repartition topic
// would not tell: what was processed is deleted.
func (p *Processor) rate(ctx context.Context, s *Stage) (float64, error) {
	if p.cfg.ExpectedRate > 0 {
		return p.cfg.ExpectedRate, nil
	}
	records, err := session.RecordsSince(ctx, p.admin, p.now().Add(-time.Hour), s.origins()...)
	return float64(records) / time.Hour.Seconds(), err
}

// memoryOfMachine returns the memory of the cgroup or the machine, 0 if neither says.
func memoryOfMachine() int64 {
	total := int64(math.MaxInt64)
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			total = n
		}
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if fields := strings.Fields(string(b)); len(fields) > 1 && fields[0] == "MemTotal:" {
			if kb, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				total = min(total, kb<<10)
			}
		}
	}
	if total == math.MaxInt64 {
		return 0
	}
	return total
}
