package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/ledger/generate"
)

// refusalsKept bounds the report: the first ones are shown, all are counted.
const refusalsKept = 20

// feedReport says what became of every record. Promises fill it from the client's goroutine.
type feedReport struct {
	Topic          string            `json:"topic"`
	Acknowledged   int64             `json:"acknowledged"`
	WithoutKey     int64             `json:"without_key"` // of the acknowledged
	Refused        int64             `json:"refused"`
	Unacknowledged int64             `json:"unacknowledged"` // sent or about to be: nobody knows
	Seconds        float64           `json:"seconds"`
	Partitions     []*fedPartition   `json:"partitions"`
	Refusals       []feedRefusal     `json:"refusals,omitempty"` // the first 20
	Expected       []expectedOutcome `json:"expected,omitempty"`

	mu    sync.Mutex
	start time.Time
	loss  error
}

// fedPartition is where acknowledged records went. Other producers may have written in between.
type fedPartition struct {
	Partition   int32 `json:"partition"`
	Records     int64 `json:"records"`
	FirstOffset int64 `json:"first_offset"`
	LastOffset  int64 `json:"last_offset"`
}

type feedRefusal struct {
	Number int64  `json:"number"` // of the line, record or event, from 1
	Bytes  int64  `json:"bytes"`
	Cause  string `json:"cause"`
}

// expectedOutcome is what a correct ledger that starts empty makes of a generated workload.
type expectedOutcome struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	Records int64  `json:"records"`
}

func newFeedReport(topic string) *feedReport {
	return &feedReport{Topic: topic, Partitions: []*fedPartition{}, start: time.Now()}
}

func (r *feedReport) acknowledge(rec *kgo.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Acknowledged++
	if rec.Key == nil {
		r.WithoutKey++
	}
	i := slices.IndexFunc(r.Partitions, func(p *fedPartition) bool { return p.Partition == rec.Partition })
	if i < 0 {
		i = len(r.Partitions)
		r.Partitions = append(r.Partitions, &fedPartition{Partition: rec.Partition, FirstOffset: rec.Offset})
	}
	p := r.Partitions[i]
	p.Records++
	p.LastOffset = max(p.LastOffset, rec.Offset)
}

func (r *feedReport) refuse(number, bytes int64, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Refused++
	if len(r.Refusals) < refusalsKept {
		r.Refusals = append(r.Refusals, feedRefusal{number, bytes, cause.Error()})
	}
}

// lose counts a record whose fate is unknown.
func (r *feedReport) lose(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Unacknowledged++
	if r.loss == nil {
		r.loss = err
	}
}

func (r *feedReport) expect(g *generated) {
	for _, class := range slices.SortedFunc(maps.Keys(g.expected), func(a, b generate.Class) int {
		return strings.Compare(string(a.Outcome)+string(a.Reason), string(b.Outcome)+string(b.Reason))
	}) {
		r.Expected = append(r.Expected, expectedOutcome{string(class.Outcome), string(class.Reason), g.expected[class]})
	}
}

// finish is called after the last promise.
func (r *feedReport) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Seconds = time.Since(r.start).Seconds()
	slices.SortFunc(r.Partitions, func(a, b *fedPartition) int { return int(a.Partition - b.Partition) })
	slices.SortFunc(r.Refusals, func(a, b feedRefusal) int { return int(a.Number - b.Number) })
}

// text is the report for people.
func (r *feedReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d acknowledged in %.1fs, %.0f/s\n", r.Topic, r.Acknowledged, r.Seconds, float64(r.Acknowledged)/max(r.Seconds, 1e-3))
	for _, p := range r.Partitions {
		fmt.Fprintf(&b, "  partition %d: %d, offsets %d to %d\n", p.Partition, p.Records, p.FirstOffset, p.LastOffset)
	}
	if r.WithoutKey > 0 {
		fmt.Fprintf(&b, "without a key: %d\n", r.WithoutKey)
	}
	if r.Refused > 0 {
		fmt.Fprintf(&b, "refused: %d\n", r.Refused)
	}
	for _, f := range r.Refusals {
		fmt.Fprintf(&b, "  number %d: %s\n", f.Number, f.Cause)
	}
	if r.Unacknowledged > 0 {
		fmt.Fprintf(&b, "not acknowledged, so written or not: %d\n", r.Unacknowledged)
	}
	for _, e := range r.Expected {
		fmt.Fprintf(&b, "expected %s: %d\n", strings.TrimSpace(e.Outcome+" "+e.Reason), e.Records)
	}
	return b.String()
}

// failure is the end of the command: what ended it early, else what was refused.
func (r *feedReport) failure(err error) error {
	switch {
	case err != nil:
		return err
	case r.Unacknowledged > 0:
		return fail(exitUnavailable, fmt.Errorf("%s not acknowledged: %w", recordsWere(r.Unacknowledged), r.loss), "feed them again: event ids make it harmless")
	case r.Refused > 0:
		return fail(exitFailed, fmt.Errorf("%s refused", recordsWere(r.Refused)), "the report names them; everything else was written")
	}
	return nil
}

func recordsWere(n int64) string {
	if n == 1 {
		return "1 record was"
	}
	return fmt.Sprintf("%d records were", n)
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// isRecordError says that the broker refused a batch for what is in it: others can still be written.
func isRecordError(err error) bool {
	return errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.InvalidTimestamp) || errors.Is(err, kerr.CorruptMessage) || errors.Is(err, kerr.PolicyViolation)
}
