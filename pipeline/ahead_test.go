package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// remembering is a stage of two inputs that share a dedupe store of one hour. Each record leaves its input and its verdict.
func remembering() *pipeline.Pipeline {
	p := pipeline.New("ahead")
	s := p.Stage("s")
	seen := state.NewDedupe(s, "seen", time.Hour)
	out := pipeline.NewOutput(s, topics.New("verdicts", record.String, record.String))
	for _, in := range []string{"quick", "slow"} {
		pipeline.Handle(s, topics.New(in, record.String, record.String), func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
			verdict := seen.Check(c, r.Value, r.Time, state.Fingerprint{}.String(r.Value))
			if verdict == state.Expired {
				return pipeline.DeadLetter("outside_dedupe_window", fmt.Errorf("%s is older than the window", r.Value))
			}
			out.Send(c, r.Key, fmt.Sprintf("%s %v", in, verdict == state.New))
			return nil
		})
	}
	return p
}

// The window is measured back from the highest record time of all inputs: one that runs ahead by more leaves the other's backlog
// outside. A task that waits for the other input, as max.task.idle.ms says, takes it first.
func TestInputThatRunsAheadLeavesTheOthersBacklogOutsideTheWindow(t *testing.T) {
	for name, c := range map[string]struct {
		idle   time.Duration
		topic  string // where the backlog's fate is
		header string // of it
	}{
		"it waits for nothing that is not there": {0, "ahead-dead-letters", "outside_dedupe_window"},
		"it waits for the slow producer":         {time.Minute, "verdicts", ""},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 5
			p := remembering()
			w := bareWorld(t)
			if _, err := topics.NewAdmin(w.client).Apply(t.Context(), p.Topics(), deployRules()); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			commits, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1, MaxTaskIdle: c.idle, TopicRules: deployRules()})
			now := time.Now()
			w.stamped("quick", n, now)
			if c.idle == 0 {
				w.waitInputs(commits, n, 20*time.Second)
			}
			w.stamped("slow", n, now.Add(-3*time.Hour))
			for _, r := range w.read(c.topic, n) {
				if c.header == "" && string(r.Value) != "slow true" {
					t.Errorf("%q comes before the backlog", r.Value)
				}
				if c.header != "" && headerOf(r, pipeline.HeaderReason) != c.header {
					t.Errorf("dead letter of %q", headerOf(r, pipeline.HeaderReason))
				}
			}
			stop()
			if err := wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// stamped writes n records of one key with a record time.
func (w *world) stamped(topic string, n int, at time.Time) {
	w.t.Helper()
	for i := range n {
		w.client.Produce(w.t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: fmt.Appendf(nil, "%s-%d", topic, i), Timestamp: at}, nil)
	}
	if err := w.client.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func headerOf(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
