package verify

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// patient is a group over a recorded run whose job commits as told.
type patient struct {
	*recording
	joined    func() int
	processed func(p int32, after time.Duration) int64
	began     time.Time
}

func (p *patient) members(context.Context) (int, error) { return p.joined(), nil }

func (p *patient) stable(_ context.Context, partition int32) (int64, error) {
	log, open := p.visible(p.topics.Input, partition)
	if open != nil {
		return open.Stable, nil
	}
	return log[len(log)-1].Offset + 2, nil
}

func (p *patient) progress(_ context.Context, partition int32) (commit, error) {
	return newCommit(p.processed(partition, time.Since(p.began)), ""), nil
}

func (p *patient) after(_ context.Context, partition int32, offset int64) (*kgo.Record, error) {
	log, _ := p.visible(p.topics.Input, partition)
	for _, rec := range log {
		if rec.Offset >= offset {
			return rec, nil
		}
	}
	return nil, nil
}

func TestLivenessIsAskedOfAJobThatClaimsToRun(t *testing.T) {
	const bound = 30 * time.Second
	one := func() int { return 1 }
	for name, c := range map[string]struct {
		joined    func() int
		processed func(p int32, after time.Duration, end int64) int64
		late      []int32
	}{
		"all processed": {one, func(_ int32, _ time.Duration, end int64) int64 { return end }, nil},
		"processed in the bound": {one, func(_ int32, after time.Duration, end int64) int64 {
			return min(end, int64(after/time.Millisecond)/100)
		}, nil},
		"one partition stands": {one, func(p int32, _ time.Duration, end int64) int64 {
			if p == 2 {
				return end / 2
			}
			return end
		}, []int32{2}},
		"nothing was ever committed": {one, func(int32, time.Duration, int64) int64 { return -1 }, []int32{0, 1, 2, 3}},
		"nobody claims to run":       {func() int { return 0 }, func(int32, time.Duration, int64) int64 { return 0 }, nil},
		"too late": {one, func(p int32, after time.Duration, end int64) int64 {
			if p == 1 && after < bound+time.Second {
				return end - 3
			}
			return end
		}, []int32{1}},
		"at every look one commit is pending": {one, func(p int32, after time.Duration, end int64) int64 {
			if int64(after/beat)%4 == int64(p) {
				return -1
			}
			return end
		}, nil},
		"only a control record is left": {one, func(_ int32, _ time.Duration, end int64) int64 { return end - 1 }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			run := loadRecording(t, recordedRuns[0], true)
			p := &patient{recording: run, joined: c.joined, began: time.Now()}
			p.processed = func(partition int32, after time.Duration) int64 {
				end, _ := p.stable(t.Context(), partition)
				return c.processed(partition, after, end)
			}
			r := newReport(true)
			if err := liveness(t.Context(), p, run.topics.Input, run.partitions, bound, &r); err != nil {
				t.Fatal(err)
			}
			if r.Counts[Liveness] != int64(len(c.late)) || len(r.Violations) != len(c.late) || r.Alive.Members != c.joined() {
				t.Fatalf("%s: %v, %+v", name, r.Violations, r.Alive)
			}
			for i, v := range r.Violations {
				if v.Partition != c.late[i] || len(v.Evidence) != 1 || !strings.Contains(v.Text, "30s later") {
					t.Errorf("%s: %s", name, v)
				}
			}
			if took := time.Since(p.began); took > bound+beat {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// A job that is stopped while it is watched claims nothing any more.
func TestLivenessIsNotAskedOfAJobThatWasStoppedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := loadRecording(t, recordedRuns[0], true)
		began := time.Now()
		p := &patient{recording: run, began: began, processed: func(int32, time.Duration) int64 { return 0 }, joined: func() int {
			if time.Since(began) > 10*time.Second {
				return 0
			}
			return 2
		}}
		r := newReport(true)
		if err := liveness(t.Context(), p, run.topics.Input, run.partitions, 30*time.Second, &r); err != nil || !r.OK() || r.Alive.Members != 2 {
			t.Errorf("error %v, %v, %+v", err, r.Violations, r.Alive)
		}
	})
}

// The group of a job that stands still, on a broker: one member, and input that nobody processes.
func TestRunFindsAJobThatStandsStill(t *testing.T) {
	b := filled(t)
	idle := b.client(kgo.ConsumerGroup(testApp), kgo.ConsumeTopics(b.w.topics.Input), kgo.DisableAutoCommit())
	b.upstream(b.producer("up"), 2, b.events(2, 4))
	idle.PollFetches(t.Context()) // which commits nothing
	cfg := b.config()
	cfg.Liveness = time.Second
	r, err := Run(t.Context(), cfg)
	if err != nil || r.Counts[Liveness] != 1 || len(r.Counts) != 1 || r.Alive == nil || r.Alive.Members != 1 {
		t.Fatalf("error %v, %v, %+v", err, r.Violations, r.Alive)
	}
	if v := r.Violations[0]; v.Partition != 2 || !strings.Contains(v.Evidence[0].String(), `"event_id":"2-0"`) {
		t.Error(v)
	}
	cfg.Raw, cfg.Baseline = false, t.TempDir()+"/none"
	if r, err := Run(t.Context(), cfg); !errors.As(err, new(*BaselineError)) || r.Counts[Liveness] != 1 {
		t.Errorf("without its baseline: error %v, %v", err, r.Violations)
	}
	cfg.Baseline, cfg.WriteBaseline = "", t.TempDir()+"/new"
	if r, err := Run(t.Context(), cfg); err != nil || r.Counts[Liveness] != 1 {
		t.Errorf("with a baseline to write: error %v, %v", err, r.Violations)
	}
	if _, err := os.Stat(cfg.WriteBaseline); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a baseline was written although inputs wait: %v", err)
	}
	cfg.Raw, cfg.WriteBaseline = true, ""
	if n, err := (&kafka{client: b.client(), app: "nobody", patience: time.Second}).members(t.Context()); err != nil || n != 0 {
		t.Errorf("a group that never was has %d members, %v", n, err)
	}
	idle.Close()
	if r, err := Run(t.Context(), cfg); err != nil || !r.OK() || r.Alive.Members != 0 {
		t.Errorf("error %v, %v, %+v", err, r.Violations, r.Alive)
	}
}
