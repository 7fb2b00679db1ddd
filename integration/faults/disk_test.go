package faults

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/topics"
)

const (
	diskMiB    = 128
	diskEvents = 30_000
)

// The broker that leads the state of a task has no room left, and ends. The job goes on with the others, and with the broker once
// that has room again; the processors run all the time, and nothing is lost or doubled.
func TestLedgerSurvivesAFullDisk(t *testing.T) {
	w := newWorkload(t, diskEvents)
	r := start(t, w, kafkatest.Options{Brokers: 3, DiskMiB: diskMiB})
	r.scaleUp(t, "p2")
	r.advance(t)
	full := r.kafka.Leader(t, topics.StateTopic(jobtest.App, "post"), 0)
	began := time.Now()
	full.FillDisk(t)
	kafkatest.Within(t, time.Minute, "the broker whose disk is full ends", func(context.Context) error {
		if !full.Ended() {
			return errors.New("it runs")
		}
		return nil
	})
	ended := time.Now()
	if log := full.Log(t); !strings.Contains(log, "No space left on device") {
		t.Fatalf("broker %d ended for another reason:\n%s", full.ID, log)
	}
	without := r.awaitAll(t, ended, "without the broker")
	r.kafka.Lose(t, full) // nobody waits for it any more
	full.FreeDisk(t)
	if err := full.Start(); err != nil {
		t.Fatal(err)
	}
	r.kafka.Ready(t)
	whole := time.Now()
	with := r.awaitAll(t, whole, "with the broker")
	r.over(t, "disk of broker %d full  ended after %v  all partitions committed %v later  broker back and in sync after %v, all partitions committed %v later", full.ID,
		ended.Sub(began).Round(time.Millisecond), without.Sub(ended).Round(time.Millisecond), whole.Sub(began).Round(time.Millisecond), with.Sub(whole).Round(time.Millisecond))
	r.advance(t)
	r.judge(t, w, "--raw")
}

// awaitAll waits until every partition has committed what was written after a moment, and no processor has ended.
func (r *run) awaitAll(t *testing.T, after time.Time, when string) (at time.Time) {
	t.Helper()
	kafkatest.Within(t, recovery, "all partitions commit "+when, func(context.Context) (err error) {
		for _, i := range r.instances {
			i.Running(t)
		}
		at, err = r.commits.Recovered(partitions, after)
		return err
	})
	return at
}
