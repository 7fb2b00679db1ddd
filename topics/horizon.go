package topics

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// horizon is how long after its record time a record can still be read again: the broker deletes whole segments, so a record
// lives for the retention plus the time that its segment stayed open. Negative = for ever; false = the broker did not say.
func (h Have) horizon() (time.Duration, bool) {
	if policy := h.Config[keyCleanup]; policy != "" && !strings.Contains(policy, "delete") {
		return -1, true
	}
	retention, ok := h.number(keyRetention)
	if !ok {
		return 0, false
	}
	if retention < 0 {
		return -1, true
	}
	segment, ok := h.number(keySegment)
	if !ok {
		return 0, false
	}
	if segment > math.MaxInt64-retention {
		segment = math.MaxInt64 - retention
	}
	return clampMillis(retention + segment), true
}

// keepsAtMost says whether nothing older than ms stays in the topic. What the broker does not report is not held against anyone.
func (h Have) keepsAtMost(ms int64) bool {
	retention, ok := h.number(keyRetention)
	if !ok || ms < 0 {
		return true
	}
	if policy := h.Config[keyCleanup]; policy != "" && !strings.Contains(policy, "delete") {
		return ms == math.MaxInt64
	}
	if retention < 0 {
		return ms == math.MaxInt64
	}
	return retention <= ms
}

// bounded says that time or size deletes records.
func (h Have) bounded() bool {
	ms, timed := h.number(keyRetention)
	bytes, sized := h.number(keyRetentionBytes)
	return timed && ms >= 0 || sized && bytes >= 0
}

// createTime says that records keep the time that their producer gave them; under LogAppendTime the broker's clock replaces it.
func (h Have) createTime() bool { return h.Config[keyTimestampType] == "CreateTime" }

func (h Have) duration(key string) string {
	ms, ok := h.number(key)
	switch {
	case !ok:
		return "an unknown time"
	case ms < 0:
		return "for ever"
	}
	return days(clampMillis(ms))
}

// clampMillis is a number of milliseconds as a duration; what does not fit (Kafka's limits are 64-bit milliseconds) is the longest.
func clampMillis(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// days prints a duration as people write retention times: 14d, 36h, 90s.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == math.MaxInt64:
		return "any time"
	case d >= day && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.String()
}
