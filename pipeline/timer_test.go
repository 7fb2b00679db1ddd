package pipeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// clockwork is a stage whose timers the test declares. A record "k" adds one to what is open of k.
type clockwork struct {
	*pipeline.Pipeline
	stage  *pipeline.Stage
	open   state.Table[string, int64]
	closed pipeline.Output[string, int64]
	calls  []string
}

var (
	beats  = topics.New("beats", record.String, record.String)
	closed = topics.New("closed", record.String, record.Int64)
)

func newClockwork(policy pipeline.Policy) *clockwork {
	w := &clockwork{Pipeline: pipeline.New("clock")}
	w.stage = w.Stage("s")
	w.stage.OnError(policy)
	w.open = state.NewTable(w.stage, "open", record.String, record.Int64)
	w.closed = pipeline.NewOutput(w.stage, closed)
	pipeline.Handle(w.stage, beats, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		n, _ := w.open.Get(c, r.Key)
		w.open.Put(c, r.Key, n+1)
		w.say(c, "record %s", r.Time.Format(clockFormat))
		if r.Value == "bad" {
			return errOdd
		}
		return nil
	})
	return w
}

const clockFormat = "15:04:05"

func (w *clockwork) say(c *pipeline.Ctx, format string, args ...any) {
	w.calls = append(w.calls, fmt.Sprintf(format+" at %s", append(args, c.StreamTime().Format(clockFormat))...))
}

// closeEvery sends what is open of every key, and closes it.
func (w *clockwork) closeEvery(d time.Duration) {
	w.stage.Every(d, func(c *pipeline.Ctx, boundary time.Time) error {
		w.say(c, "every %s at %s, time %s, source %d", d, boundary.Format(clockFormat), c.Time().Format(clockFormat), c.Source().Offset)
		for key, n := range w.open.All(c) {
			w.closed.Send(c, key, n)
			w.open.Delete(c, key)
		}
		return nil
	})
}

func (w *clockwork) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if !slices.Equal(w.calls, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, w.calls, want)
	}
	w.calls = nil
}

// beat sends a record of a time of the driver's first day, 2026-01-01.
func beat(d *pipelinetest.Driver, clock, value string) {
	at, err := time.Parse(time.DateTime, "2026-01-01 "+clock)
	if err != nil {
		panic(err)
	}
	if at.After(d.Now()) {
		d.Advance(at.Sub(d.Now()))
	}
	pipelinetest.SendAt(d, beats, "k", value, at)
}

func TestTimerFiresBeforeTheRecordThatPassesItsBoundary(t *testing.T) {
	w := newClockwork(pipeline.Fail)
	w.closeEvery(time.Minute)
	d := pipelinetest.New(t, w.Pipeline, 1)
	beat(d, "10:00:30", "")
	w.expect(t, "the first record has no time before it", "record 10:00:30 at 10:00:30")
	beat(d, "10:00:59", "")
	w.expect(t, "no boundary passed", "record 10:00:59 at 10:00:59")
	beat(d, "10:01:00", "")
	w.expect(t, "on the boundary", "every 1m0s at 10:01:00, time 10:01:00, source 2 at 10:01:00", "record 10:01:00 at 10:01:00")
	beat(d, "10:01:00", "")
	beat(d, "10:00:10", "")
	w.expect(t, "time does not go back", "record 10:01:00 at 10:01:00", "record 10:00:10 at 10:01:00")
	beat(d, "13:07:20", "")
	w.expect(t, "many boundaries are one call, with the last", "every 1m0s at 13:07:00, time 13:07:00, source 5 at 13:07:00", "record 13:07:20 at 13:07:20")
	var got []string
	for _, r := range pipelinetest.Read(d, closed) {
		got = append(got, fmt.Sprintf("%s=%d at %s", r.Key, r.Value, r.Time.Format(clockFormat)))
	}
	if want := []string{"k=2 at 10:01:00", "k=3 at 13:07:00"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: each record is closed by the first boundary after it, and that is the output's time", got, want)
	}
}

func TestSeveralTimersFireInTheOrderOfTheirBoundaries(t *testing.T) {
	w := newClockwork(pipeline.Fail)
	for _, every := range []time.Duration{time.Minute, time.Hour, 20 * time.Minute} {
		w.stage.Every(every, func(c *pipeline.Ctx, boundary time.Time) error { w.say(c, "%s", every); return nil })
	}
	d := pipelinetest.New(t, w.Pipeline, 1)
	beat(d, "10:50:00", "")
	beat(d, "11:25:30", "")
	w.expect(t, "35 minutes", "record 10:50:00 at 10:50:00", "1h0m0s at 11:00:00", "20m0s at 11:20:00", "1m0s at 11:25:00", "record 11:25:30 at 11:25:30")
	beat(d, "12:00:00", "")
	w.expect(t, "a tie goes by declaration", "1m0s at 12:00:00", "1h0m0s at 12:00:00", "20m0s at 12:00:00", "record 12:00:00 at 12:00:00")
}

// A record that fails does not move time: what it fired never was, and comes with the next one.
func TestFiringIsUndoneWithTheRecordThatFails(t *testing.T) {
	for _, policy := range []pipeline.Policy{pipeline.Skip, pipeline.ToDeadLetters} {
		w := newClockwork(policy)
		w.closeEvery(time.Minute)
		d := pipelinetest.New(t, w.Pipeline, 1)
		beat(d, "10:00:30", "")
		beat(d, "10:01:10", "bad")
		if got := pipelinetest.Read(d, closed); len(got) != 0 {
			t.Errorf("policy %d: the failed record's firing sent %v", policy, got)
		}
		beat(d, "10:00:40", "")
		w.calls = nil
		beat(d, "10:01:20", "")
		w.expect(t, "after it", "every 1m0s at 10:01:00, time 10:01:00, source 3 at 10:01:00", "record 10:01:20 at 10:01:20")
		if got := pipelinetest.Read(d, closed); len(got) != 1 || got[0].Value != 2 {
			t.Errorf("policy %d: closed %v, want both good records before the boundary", policy, got)
		}
	}
}

func TestRecordThatNoHandlerSeesFiresNothing(t *testing.T) {
	w := newClockwork(pipeline.Fail)
	w.closeEvery(time.Minute)
	d := pipelinetest.New(t, w.Pipeline, 2)
	own := pipeline.Murmur2.Partition([]byte("k"), 2)
	beat(d, "10:00:30", "")
	w.calls = nil
	pipelinetest.SendRawTo(d, "beats", own, nil, []byte("x"), nil, d.Now().Add(time.Minute))
	pipelinetest.SendRawTo(d, "beats", 1-own, []byte("k"), []byte("x"), nil, d.Now().Add(time.Minute))
	pipelinetest.SendRawTo(d, "beats", own, []byte("k"), []byte("x"), nil, d.Now().Add(2*time.Hour))
	w.expect(t, "dead letters")
	if dead := pipelinetest.ReadRaw(d, "clock-dead-letters"); len(dead) != 3 {
		t.Errorf("%d dead letters, want 3", len(dead))
	}
}

// Each is the timer's fault, and no record pays for it, whatever the policy for records is.
func TestTimerThatFailsStopsTheTaskUnderAnyPolicy(t *testing.T) {
	for want, f := range map[string]func(w *clockwork, c *pipeline.Ctx) error{
		"timer of 1m0s at boundary 2026-01-01T10:01:00Z: odd": func(*clockwork, *pipeline.Ctx) error { return errOdd },
		"a timer has no record to send there":                 func(*clockwork, *pipeline.Ctx) error { return pipeline.DeadLetter("odd", errOdd) },
		"panicked at beats/0/1: odd":                          func(*clockwork, *pipeline.Ctx) error { panic("odd") },
		`of topic "closed"`:                                   func(w *clockwork, c *pipeline.Ctx) error { w.closed.Send(c, strings.Repeat("k", 500), 1); return nil },
		`of topic "clock-s-state"`:                            func(w *clockwork, c *pipeline.Ctx) error { w.open.Put(c, strings.Repeat("k", 500), 1); return nil },
	} {
		for _, policy := range []pipeline.Policy{pipeline.Fail, pipeline.Retry, pipeline.Skip, pipeline.ToDeadLetters} {
			w, calls := newClockwork(policy), 0
			w.stage.Every(time.Minute, func(c *pipeline.Ctx, _ time.Time) error { calls++; return f(w, c) })
			d := pipelinetest.New(t, w.Pipeline, 1)
			d.Limit("closed", 300)
			d.Limit("clock-s-state", 300)
			beat(d, "10:00:30", "")
			err := d.Try(func() { beat(d, "10:01:10", "") })
			if err == nil || !strings.Contains(err.Error(), want) || calls != 1 && policy != pipeline.Retry {
				t.Errorf("policy %d: got %v after %d calls, want %s", policy, err, calls, want)
			}
			if dead := pipelinetest.ReadRaw(d, "clock-dead-letters"); len(dead) != 0 {
				t.Errorf("policy %d: a record became a dead letter for the timer: %v", policy, dead)
			}
			if n, _ := w.open.Get(d.Committed("s", "k"), "k"); n != 1 {
				t.Errorf("policy %d: %d records applied, want the first alone", policy, n)
			}
		}
	}
}

// What a dedupe store still remembers is decided by the time at which it is asked: in a timer, the boundary.
func TestTimerSeesADedupeStoreAsOfItsBoundary(t *testing.T) {
	p := pipeline.New("clock")
	s := p.Stage("s")
	seen := state.NewDedupe(s, "seen", time.Minute)
	var verdicts []state.Verdict
	pipeline.Handle(s, beats, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		if r.Value == "first" {
			seen.Check(c, "id", r.Time, state.Fingerprint{})
		}
		return nil
	})
	ask := time.Date(2026, 1, 1, 10, 0, 30, 0, time.UTC)
	s.Every(time.Minute, func(c *pipeline.Ctx, boundary time.Time) error {
		verdicts = append(verdicts, seen.Check(c, "id", ask, state.Fingerprint{}))
		return nil
	})
	d := pipelinetest.New(t, p, 1)
	beat(d, "10:00:30", "first")
	beat(d, "10:01:00", "")
	d.Restart()
	beat(d, "10:05:00", "")
	if want := []state.Verdict{state.Duplicate, state.Expired}; !slices.Equal(verdicts, want) {
		t.Errorf("got %v, want %v", verdicts, want)
	}
}

func TestTimerDeclarationThatCannotWorkIsRefused(t *testing.T) {
	nothing := func(*pipeline.Ctx, time.Time) error { return nil }
	for want, declare := range map[string]func(*pipeline.Stage){
		"timer of 0s: use whole milliseconds":      func(s *pipeline.Stage) { s.Every(0, nothing) },
		"timer of 1.5ms: use whole milliseconds":   func(s *pipeline.Stage) { s.Every(1500*time.Microsecond, nothing) },
		"the function of its timer of 1m0s is nil": func(s *pipeline.Stage) { s.Every(time.Minute, nil) },
	} {
		w := newClockwork(pipeline.Fail)
		declare(w.stage)
		if err := w.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// One record stamped far ahead would fire every timer at once: the plan holds the input to a limit.
func TestInputsOfTimersAreTimed(t *testing.T) {
	p := perValue("app")
	p.Stages()[1].Every(time.Hour, func(*pipeline.Ctx, time.Time) error { return nil })
	for _, w := range p.Topics() {
		if w.Timed != (w.Name == "clicks") {
			t.Errorf("%s: timed is %v", w.Name, w.Timed)
		}
	}
}

// timerModel is what a timer should do, in the simplest way: boundaries are looked for one by one.
func timerModel(times []int64, every int64) (calls []int64) {
	now := times[0]
	for _, ms := range times[1:] {
		last := int64(-1)
		for b := (now/every - 2) * every; b <= ms; b += every {
			if b > now {
				last = b
			}
		}
		if last > now {
			calls = append(calls, last)
		}
		now = max(now, ms)
	}
	return calls
}

// Whatever the times, whatever aborts and restarts in between: the same calls, each once.
func TestTimersAreAFunctionOfTheRecords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		every := rapid.SampledFrom([]int64{1, 7, 1000, 60_000}).Draw(rt, "every")
		times := rapid.SliceOfN(rapid.Int64Range(0, 400), 1, 20).Draw(rt, "times")
		w := newClockwork(pipeline.Fail)
		fired := topics.New("fired", record.String, record.Int64)
		out := pipeline.NewOutput(w.stage, fired)
		w.stage.Every(time.Duration(every)*time.Millisecond, func(c *pipeline.Ctx, boundary time.Time) error {
			if c.StreamTime() != boundary || c.Time() != boundary {
				rt.Fatalf("time %s, stream time %s at boundary %s", c.Time(), c.StreamTime(), boundary)
			}
			out.Send(c, "k", boundary.UnixMilli())
			return nil
		})
		d := pipelinetest.New(t, w.Pipeline, 1)
		for i := range times {
			times[i] = times[i] * every / 3
			d.Abort(rapid.IntRange(0, 1).Draw(rt, "aborts"))
			pipelinetest.SendAt(d, beats, "k", "", time.UnixMilli(times[i]))
			if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
				d.Restart()
			}
		}
		var got []int64
		for _, r := range pipelinetest.Read(d, fired) {
			got = append(got, r.Value)
			if r.Time.UnixMilli() != r.Value {
				rt.Fatalf("an output of boundary %d has time %d", r.Value, r.Time.UnixMilli())
			}
		}
		if want := timerModel(times, every); !slices.Equal(got, want) {
			rt.Fatalf("times %v, every %d ms: fired at %v, want %v", times, every, got, want)
		}
	})
}

func TestTimerErrorIsFound(t *testing.T) {
	w := newClockwork(pipeline.Skip)
	w.stage.Every(time.Minute, func(*pipeline.Ctx, time.Time) error { return errOdd })
	d := pipelinetest.New(t, w.Pipeline, 1)
	beat(d, "10:00:30", "")
	if err := d.Try(func() { beat(d, "10:01:10", "") }); !errors.Is(err, errOdd) {
		t.Errorf("got %v", err)
	}
}
