//go:build unix

package verify

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkMerge judges one partition of 100,000 events with 5 % duplicates over 1,000 accounts, from memory: what is left is
// decoding, the models and the join. The claim is 200,000 records a second.
func BenchmarkMerge(b *testing.B) {
	w := newWorld(1)
	for i := range 100_000 {
		e := in{id: fmt.Sprintf("8f14e45f-ceea-467f-9a0b-%012d", i), kind: "credit", account: fmt.Sprintf("ACC-%07d", i*7919%1000), cents: int64(i%500 + 1)}
		w.feed(0, e)
		if i%20 == 0 {
			w.feed(0, e)
		}
		if i%5000 == 4999 {
			w.jobs[0].commit()
		}
	}
	w.commit()
	records, began := int64(0), cpu(b)
	b.ReportAllocs()
	for b.Loop() {
		r, err := w.audit(b)
		if err != nil || !r.OK() {
			b.Fatal(err, r.Violations)
		}
		records += r.Records
	}
	b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(records)/(cpu(b)-began).Seconds(), "records/cpu-s") // what a busy machine leaves comparable
}

// cpu is the time that this process has had, garbage collection included.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
