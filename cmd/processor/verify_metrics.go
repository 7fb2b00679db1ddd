package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/verify"
)

// followMetrics are the metrics of verify --follow, in Prometheus' text format. No label is ever a key, an account or a
// partition: the series are as many as there are verdicts, and a few. It is safe for concurrent use.
type followMetrics struct {
	mu   sync.Mutex
	last verify.Round
	at   time.Time
}

func newFollowMetrics() *followMetrics { return &followMetrics{} }

func (m *followMetrics) set(r verify.Round, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.at = r, at
}

func (m *followMetrics) rounds() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last.Number
}

// followMetric is one metric: its name without tallystick_verify_, and where its value comes from.
type followMetric struct {
	name, kind, help string
	value            func(m *followMetrics) float64
}

func followMetricsTable() []followMetric {
	return []followMetric{
		{"rounds_total", "counter", "Rounds that were brought to an end.", func(m *followMetrics) float64 { return float64(m.last.Number) }},
		{"last_round_timestamp_seconds", "gauge", "When the last round ended, in Unix time; 0 before the first.", func(m *followMetrics) float64 {
			if m.at.IsZero() {
				return 0
			}
			return float64(m.at.UnixMilli()) / 1000
		}},
		{"last_round_duration_seconds", "gauge", "How long the last round took.", func(m *followMetrics) float64 { return m.last.Took.Seconds() }},
		{"inputs_judged_total", "counter", "Inputs judged, with those of the baseline.", func(m *followMetrics) float64 { return float64(m.last.Report.Inputs) }},
		{"inputs_not_processed", "gauge", "Offsets of the input behind the job's markers.", func(m *followMetrics) float64 { return float64(m.last.Report.NotYetProcessed) }},
		{"accounts", "gauge", "Accounts that the updates tell of.", func(m *followMetrics) float64 { return float64(m.last.Report.Accounts) }},
		{"open_transactions", "gauge", "Partitions whose end was hidden by an open transaction.", func(m *followMetrics) float64 { return float64(len(m.last.Report.OpenTransactions)) }},
		{"undecided_partitions", "gauge", "Partitions that the last round could not judge.", func(m *followMetrics) float64 { return float64(undecidedPartitions(m.last.Undecided)) }},
	}
}

const metricPrefix = "tallystick_verify_"

// text is what /metrics answers.
func (m *followMetrics) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, f := range followMetricsTable() {
		metricHead(&b, f.name, f.kind, f.help)
		fmt.Fprintf(&b, "%s%s %v\n", metricPrefix, f.name, f.value(m))
	}
	metricHead(&b, "violations_total", "counter", "Violations found, by verdict; each verdict has a series from the start.")
	for _, v := range slices.Sorted(slices.Values(verify.Verdicts(false, false))) {
		fmt.Fprintf(&b, "%sviolations_total{verdict=%q} %d\n", metricPrefix, v, m.last.Report.Counts[v])
	}
	return b.String()
}

func metricHead(b *strings.Builder, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s%s %s\n# TYPE %s%s %s\n", metricPrefix, name, help, metricPrefix, name, kind)
}

// undecidedPartitions counts the partitions that an error is about.
func undecidedPartitions(err error) int {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		n := 0
		for _, e := range joined.Unwrap() {
			n += undecidedPartitions(e)
		}
		return n
	}
	if errors.As(err, new(*verify.UndecidedError)) {
		return 1
	}
	return 0
}
