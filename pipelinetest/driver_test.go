package pipelinetest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

var (
	clicks  = topics.New("clicks", record.String, record.String)  // user → page
	byPage  = topics.New("by-page", record.String, record.String) // page → user
	counted = topics.New("counts", record.String, record.Int64)
)

// site counts clicks by page: one stage drops double clicks and re-keys, the next one counts.
type site struct {
	*pipeline.Pipeline
	inbox  state.Dedupe
	counts state.Table[string, int64]
	extra  func(c *pipeline.Ctx, page string) error // for tests that misbehave
}

func newSite() *site {
	s := &site{Pipeline: pipeline.New("site"), extra: func(*pipeline.Ctx, string) error { return nil }}
	unique := s.Stage("unique")
	s.inbox = state.NewDedupe(unique, "inbox", time.Hour)
	pages := pipeline.NewOutput(unique, byPage)
	pipeline.Handle(unique, clicks, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		switch s.inbox.Check(c, r.Key+r.Value, r.Time, state.Fingerprint{}) {
		case state.Duplicate:
			return nil
		case state.Expired:
			return pipeline.DeadLetter("expired", nil)
		}
		pages.Send(c, r.Value, r.Key)
		return nil
	})
	count := s.Stage("count")
	s.counts = state.NewTable(count, "counts", record.String, record.Int64)
	out := pipeline.NewOutput(count, counted)
	pipeline.Handle(count, byPage, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		n, _ := s.counts.Get(c, r.Key)
		s.counts.Put(c, r.Key, n+1)
		out.Send(c, r.Key, n+1)
		return s.extra(c, r.Key)
	})
	return s
}

// failing records what would fail the test.
type failing struct {
	testing.TB
	said     []string
	cleanups []func()
}

func (f *failing) Helper()             {}
func (f *failing) Logf(string, ...any) {}
func (f *failing) Cleanup(fn func())   { f.cleanups = append(f.cleanups, fn) }
func (f *failing) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}
func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(f)
}

// fails runs a test that must fail, and returns what it says.
func fails(t *testing.T, test func(tb testing.TB)) string {
	t.Helper()
	f := &failing{}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		test(f)
	}()
	for _, fn := range f.cleanups {
		fn()
	}
	if len(f.said) == 0 {
		t.Fatal("the test passed")
	}
	return strings.Join(f.said, "\n")
}

func counts(d *pipelinetest.Driver) (got []string) {
	for _, r := range pipelinetest.Read(d, counted) {
		got = append(got, fmt.Sprintf("%s=%d", r.Key, r.Value))
	}
	return got
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSendRunsAllStagesAndReadForgets(t *testing.T) {
	s := newSite()
	d := pipelinetest.New(t, s.Pipeline, 4)
	for _, user := range []string{"ann", "bob", "ann", "cy"} {
		pipelinetest.Send(d, clicks, user, "/home")
	}
	got := pipelinetest.Read(d, counted)
	if len(got) != 3 || got[2].Key != "/home" || got[2].Value != 3 || !got[2].Time.Equal(d.Now()) {
		t.Errorf("got %v", got)
	}
	want(t, counts(d))
	if n, ok := s.counts.Get(d.Committed("count", "/home"), "/home"); n != 3 || !ok {
		t.Errorf("committed %d %v", n, ok)
	}
}

func TestStateSurvivesRestartAndAbort(t *testing.T) {
	s := newSite()
	d := pipelinetest.New(t, s.Pipeline, 4)
	committed := d.Committed("count", "/home")
	for i := range 20 {
		d.Abort(i % 3)
		pipelinetest.Send(d, clicks, fmt.Sprint("user-", i%15), "/home")
		d.Restart()
		d.Advance(time.Second)
	}
	if got := counts(d); len(got) != 15 || got[14] != "/home=15" {
		t.Errorf("got %q", got)
	}
	if n, _ := s.counts.Get(committed, "/home"); n != 15 {
		t.Errorf("committed %d, want what the restarted task holds", n)
	}
}

func TestTimeIsTheTests(t *testing.T) {
	s := newSite()
	d := pipelinetest.New(t, s.Pipeline, 1)
	pipelinetest.SendAt(d, clicks, "ann", "/a", d.Now().Add(30*time.Minute))
	pipelinetest.SendAt(d, clicks, "ann", "/old", d.Now().Add(-time.Hour))
	pipelinetest.SendAt(d, clicks, "ann", "/ahead", d.Now().Add(61*time.Minute))
	d.Advance(2 * time.Minute)
	pipelinetest.SendAt(d, clicks, "ann", "/ahead", d.Now().Add(60*time.Minute))
	want(t, counts(d), "/a=1", "/ahead=1")
	var reasons []string
	for _, o := range pipelinetest.ReadRaw(d, topics.DeadLetters("site")) {
		reasons = append(reasons, header(o, pipeline.HeaderReason)+" "+header(o, pipeline.HeaderOffset))
	}
	want(t, reasons, "expired 1", "future_timestamp 2")
}

func header(o pipeline.Out, key string) string {
	for _, h := range o.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func TestRawRecordsGoWhereTheyAreSent(t *testing.T) {
	s := newSite()
	d := pipelinetest.New(t, s.Pipeline, 8)
	own := pipeline.Murmur2.Partition([]byte("ann"), 8)
	pipelinetest.SendRaw(d, "clicks", []byte("ann"), []byte("/home"), nil, d.Now())
	pipelinetest.SendRaw(d, "clicks", nil, []byte("/home"), nil, d.Now())
	pipelinetest.SendRawTo(d, "clicks", (own+1)%8, []byte("ann"), []byte("/home"), []record.Header{{Key: "h", Value: []byte("v")}}, d.Now())
	want(t, counts(d), "/home=1")
	dead := pipelinetest.ReadRaw(d, "site-dead-letters")
	if len(dead) != 2 || header(dead[0], pipeline.HeaderReason) != "null_key" || header(dead[1], pipeline.HeaderReason) != "wrong_partition" ||
		dead[1].Partition != (own+1)%8 || header(dead[1], "h") != "v" || dead[1].Timestamp != d.Now().UnixMilli() {
		t.Errorf("dead letters %+v", dead)
	}
}

func TestTransactionIsOneForAllItSends(t *testing.T) {
	s := newSite()
	d := pipelinetest.New(t, s.Pipeline, 1)
	d.Abort(1)
	d.Transaction(func() {
		pipelinetest.Send(d, clicks, "ann", "/a")
		pipelinetest.Send(d, clicks, "bob", "/a")
		want(t, counts(d))
		if _, ok := s.inbox.First(d.Committed("unique", "ann"), "ann/a"); ok {
			t.Error("committed before the end of the transaction")
		}
	})
	want(t, counts(d), "/a=1", "/a=2")
	if first, ok := s.inbox.First(d.Committed("unique", "bob"), "bob/a"); !ok || first.Offset != 1 {
		t.Errorf("first %v %v", first, ok)
	}
}

func TestTryReturnsWhatStopsATaskAndTheRecordStays(t *testing.T) {
	s := newSite()
	s.extra = func(_ *pipeline.Ctx, page string) error {
		if page == "/bad" {
			return errors.New("cannot count this")
		}
		return nil
	}
	d := pipelinetest.New(t, s.Pipeline, 1)
	err := d.Try(func() {
		pipelinetest.Send(d, clicks, "ann", "/bad")
		pipelinetest.Send(d, clicks, "ann", "/b")
	})
	if err == nil || !strings.Contains(err.Error(), "task count/0") || !strings.Contains(err.Error(), "cannot count this") {
		t.Errorf("got %v", err)
	}
	want(t, counts(d))
	s.extra = func(*pipeline.Ctx, string) error { return nil } // repaired
	d.Restart()
	want(t, counts(d), "/bad=1", "/b=1")
}

func TestMistakesFailTheTest(t *testing.T) {
	calls := int64(0)
	for words, test := range map[string]func(tb testing.TB){
		"no stage": func(tb testing.TB) { pipelinetest.New(tb, pipeline.New("empty"), 1) },
		`topic "counts" is no input`: func(tb testing.TB) {
			pipelinetest.Send(pipelinetest.New(tb, newSite().Pipeline, 1), counted, "/a", 1)
		},
		"wrote something else": func(tb testing.TB) {
			s := newSite()
			s.extra = func(c *pipeline.Ctx, page string) error { calls++; s.counts.Put(c, page, calls); return nil }
			d := pipelinetest.New(tb, s.Pipeline, 1)
			d.Abort(2)
			pipelinetest.Send(d, clicks, "ann", "/a")
		},
		"declared on another stage": func(tb testing.TB) {
			s := newSite()
			s.counts.Get(pipelinetest.New(tb, s.Pipeline, 1).Committed("unique", "ann"), "/a")
		},
		"task count/0 stopped": func(tb testing.TB) {
			s := newSite()
			s.extra = func(*pipeline.Ctx, string) error { return errors.New("no") }
			pipelinetest.Send(pipelinetest.New(tb, s.Pipeline, 1), clicks, "ann", "/a")
		},
		`no stage "counts"`: func(tb testing.TB) { pipelinetest.New(tb, newSite().Pipeline, 1).Committed("counts", "") },
		"come to rest": func(tb testing.TB) {
			p := pipeline.New("loop")
			s := p.Stage("loop")
			out := pipeline.NewOutput(s, clicks)
			pipeline.Handle(s, clicks, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
				out.Send(c, r.Key, r.Value)
				return nil
			})
			pipelinetest.Send(pipelinetest.New(tb, p, 1), clicks, "ann", "/a")
		},
		`value "ann"`: func(tb testing.TB) {
			d := pipelinetest.New(tb, newSite().Pipeline, 1)
			pipelinetest.SendRaw(d, "clicks", []byte("ann"), []byte("one"), nil, d.Now())
			pipelinetest.Read(d, topics.New("by-page", record.String, record.Int64))
		},
	} {
		t.Run(words, func(t *testing.T) {
			if said := fails(t, test); !strings.Contains(said, words) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

func TestLimitIsTheTopics(t *testing.T) {
	d := pipelinetest.New(t, newSite().Pipeline, 1)
	d.Limit("counts", 200)
	err := d.Try(func() { pipelinetest.Send(d, clicks, "ann", "/"+strings.Repeat("a", 200)) })
	if tooLarge := (*pipeline.TooLargeError)(nil); !errors.As(err, &tooLarge) || tooLarge.Topic != "counts" {
		t.Errorf("got %v", err)
	}
}
