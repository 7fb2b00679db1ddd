package stream_test

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
	"github.com/tallystick/tallystick/stream"
	"github.com/tallystick/tallystick/topics"
)

var (
	in   = topics.New("in", record.String, record.Int64)
	also = topics.New("also", record.String, record.Int64)
	out  = topics.New("out", record.String, record.Int64)
	rest = topics.New("rest", record.String, record.Int64)
	rows = topics.New("rows", record.String, record.Int64)
	none = topics.New("rows", record.String, record.Nullable(record.Int64)) // writes the tombstones of rows
)

type (
	rec = pipeline.Record[string, int64]
	str = stream.Stream[string, int64]
)

func odd(r rec) bool { return r.Value%2 != 0 }

func add(n int64) func(rec) (int64, error) {
	return func(r rec) (int64, error) { return r.Value + n, nil }
}

// oneStage makes a pipeline of one stage whose stream begins at in.
func oneStage(build func(s str)) *pipeline.Pipeline {
	p := pipeline.New("app")
	build(stream.From(p.Stage("only"), in))
	return p
}

// send sends values under one key.
func send(d *pipelinetest.Driver, values ...int64) {
	for _, v := range values {
		pipelinetest.Send(d, in, "k", v)
	}
}

func read[V any](d *pipelinetest.Driver, from topics.Topic[string, V]) (got []string) {
	for _, r := range pipelinetest.Read(d, from) {
		got = append(got, fmt.Sprint(r.Key, "=", r.Value))
	}
	return got
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// reasons reads the dead letters.
func reasons(d *pipelinetest.Driver) (got []string) {
	for _, o := range pipelinetest.ReadRaw(d, "app-dead-letters") {
		for _, h := range o.Headers {
			if h.Key == pipeline.HeaderReason {
				got = append(got, string(h.Value))
			}
		}
	}
	return got
}

func TestFilterKeepsWhatItIsTold(t *testing.T) {
	d := pipelinetest.New(t, oneStage(func(s str) { s.Filter(odd).To(out) }), 2)
	send(d, 1, 2, 3)
	want(t, read(d, out), "k=1", "k=3")
}

func TestBranchSendsEachRecordOneWay(t *testing.T) {
	asked := 0
	d := pipelinetest.New(t, oneStage(func(s str) {
		match, other := s.Branch(func(r rec) bool { asked++; return odd(r) })
		match.To(out)
		other.To(rest)
	}), 2)
	send(d, 1, 2, 3)
	want(t, read(d, out), "k=1", "k=3")
	want(t, read(d, rest), "k=2")
	if asked != 3 {
		t.Errorf("asked %d times about 3 records", asked)
	}
}

func TestMergeTakesTwoInputsOfItsStageByTime(t *testing.T) {
	p := pipeline.New("app")
	s := p.Stage("only")
	stream.From(s, in).Merge(stream.From(s, also)).To(out)
	d := pipelinetest.New(t, p, 2)
	d.Transaction(func() {
		pipelinetest.SendAt(d, also, "k", 2, d.Now())
		pipelinetest.SendAt(d, in, "k", 1, d.Now())
		pipelinetest.SendAt(d, in, "k", 3, d.Now().Add(time.Second))
	})
	want(t, read(d, out), "k=1", "k=2", "k=3")
}

func TestMergeOfARecordsTwoWaysYieldsItTwice(t *testing.T) {
	d := pipelinetest.New(t, oneStage(func(s str) { s.Merge(stream.MapValues(s, add(10))).To(out) }), 2)
	send(d, 1)
	want(t, read(d, out), "k=11", "k=1")
}

func TestPeekSeesAndLetsThrough(t *testing.T) {
	var seen []int64
	d := pipelinetest.New(t, oneStage(func(s str) { s.Peek(func(r rec) { seen = append(seen, r.Value) }).To(out) }), 2)
	d.Abort(1)
	send(d, 1)
	want(t, read(d, out), "k=1")
	if !slices.Equal(seen, []int64{1, 1}) {
		t.Errorf("seen %v: an aborted transaction is run again, and seen again", seen)
	}
}

func TestMapMakesKeysAndToSendsThemWhereTheyBelong(t *testing.T) {
	d := pipelinetest.New(t, oneStage(func(s str) {
		stream.Map(s, func(r rec) (string, string, error) { return fmt.Sprint(r.Value), r.Key, nil }).To(topics.New("out", record.String, record.String))
	}), 8)
	send(d, 1, 2)
	for _, o := range pipelinetest.ReadRaw(d, "out") {
		if o.Partition != pipeline.Murmur2.Partition(o.Key, 8) || string(o.Value) != "k" {
			t.Errorf("%+v", o)
		}
	}
}

func TestTimeIsTheRecordsAndHeadersEnd(t *testing.T) {
	at := time.Date(2025, 1, 1, 0, 0, 0, 5e6, time.UTC)
	d := pipelinetest.New(t, oneStage(func(s str) {
		s.Filter(func(r rec) bool { return len(r.Headers) == 1 && r.Time.Equal(at) }).To(out)
		stream.Count(stream.MapValues(s, add(0)), "n").Filter(func(r rec) bool { return len(r.Headers) == 1 && r.Time.Equal(at) }).To(rest)
	}), 2)
	value, _ := record.Int64.Append(nil, 7)
	pipelinetest.SendRaw(d, "in", []byte("k"), value, []record.Header{{Key: "h"}}, at)
	for _, topic := range []string{"out", "rest"} {
		got := pipelinetest.ReadRaw(d, topic)
		if len(got) != 1 || got[0].Timestamp != at.UnixMilli() || len(got[0].Headers) != 0 {
			t.Errorf("%s: %+v", topic, got)
		}
	}
}

func TestDeduplicatePassesAnIdOnceWithinTheWindow(t *testing.T) {
	d := pipelinetest.New(t, oneStage(func(s str) {
		s.Deduplicate("seen", time.Hour, func(r rec) string {
			if r.Value == 0 {
				return ""
			}
			return fmt.Sprint(r.Value % 10)
		}).To(out)
	}), 2)
	send(d, 1, 11, 2, 0)
	d.Advance(3 * time.Hour)
	send(d, 21)
	pipelinetest.SendAt(d, in, "k", 3, d.Now().Add(-2*time.Hour))
	want(t, read(d, out), "k=1", "k=2", "k=21")
	want(t, reasons(d), "no_id", "outside_dedupe_window")
}

func TestCountAndAggregateKeepOneTotalForEachKey(t *testing.T) {
	p := oneStage(func(s str) {
		stream.Count(s, "n").To(out)
		stream.Aggregate(s, "sum", record.Int64, func(sum int64, r rec) (int64, error) { return sum + r.Value, nil }).To(rest)
	})
	d := pipelinetest.New(t, p, 3)
	send(d, 5, 6)
	d.Restart()
	pipelinetest.Send(d, in, "other", 1)
	send(d, 7)
	want(t, read(d, out), "k=1", "k=2", "other=1", "k=3")
	want(t, read(d, rest), "k=5", "k=11", "other=1", "k=18")
}

func TestATotalOfNullDeletesItsRow(t *testing.T) {
	total := record.Nullable(record.Int64)
	totals := topics.New("totals", record.String, total)
	d := pipelinetest.New(t, oneStage(func(s str) {
		stream.Aggregate(s, "sum", total, func(sum record.Optional[int64], r rec) (record.Optional[int64], error) {
			if r.Value == 0 {
				return record.Optional[int64]{}, nil
			}
			return record.Some(sum.Value + r.Value), nil
		}).To(totals)
	}), 2)
	send(d, 5, 0, 2)
	got := pipelinetest.ReadRaw(d, "totals")
	if len(got) != 3 || got[1].Value != nil {
		t.Fatalf("%+v, want a tombstone in the middle", got)
	}
	if n, err := total.Decode(got[2].Value); n.Value != 2 || err != nil {
		t.Errorf("%+v %v, want 2: the row was deleted", n, err)
	}
}

// joined has a table and both joins.
func joined() (*pipeline.Pipeline, stream.Table[string, int64]) {
	p := pipeline.New("app")
	s := p.Stage("only")
	table := stream.TableOf(s, "rows", rows)
	from := stream.From(s, in)
	stream.Join(from, table, func(r rec, row int64) (int64, error) { return r.Value * row, nil }).To(out)
	stream.LeftJoin(from, table, func(r rec, row record.Optional[int64]) (int64, error) {
		if !row.Set {
			return -1, nil
		}
		return r.Value * row.Value, nil
	}).To(rest)
	return p, table
}

func TestJoinsLookTheRowUpThatIsThereNow(t *testing.T) {
	p, table := joined()
	d := pipelinetest.New(t, p, 3)
	send(d, 2)
	pipelinetest.Send(d, rows, "k", 10)
	send(d, 3)
	pipelinetest.Send(d, rows, "k", 20)
	d.Restart()
	send(d, 4)
	if row, ok := table.Get(d.Committed("only", "k"), "k"); row != 20 || !ok {
		t.Errorf("row %d %v", row, ok)
	}
	pipelinetest.Send(d, none, "k", record.Optional[int64]{})
	send(d, 5)
	want(t, read(d, out), "k=30", "k=80")
	want(t, read(d, rest), "k=-1", "k=30", "k=80", "k=-1")
	if _, ok := table.Get(d.Committed("only", "k"), "k"); ok {
		t.Error("the tombstone left the row")
	}
}

func TestATablesChangeComesBeforeALookupOfTheSameTime(t *testing.T) {
	p, _ := joined()
	d := pipelinetest.New(t, p, 1)
	d.Transaction(func() {
		send(d, 2)
		pipelinetest.Send(d, rows, "k", 10)
	})
	want(t, read(d, out), "k=20")
}

func TestATablesTopicMayBeCompactedAndAStreamsMayNot(t *testing.T) {
	p, _ := joined()
	for _, w := range p.Topics() {
		if w.Role == topics.RoleInput && w.Compacted != (w.Name == "rows") {
			t.Errorf("%s: compacted %v", w.Name, w.Compacted)
		}
	}
}

// TestALaterOperatorsErrorUndoesAllOfItsRecord has the error after a dedupe store, a total and an output were written.
func TestALaterOperatorsErrorUndoesAllOfItsRecord(t *testing.T) {
	build := func(fails func(rec) error) *pipeline.Pipeline {
		return oneStage(func(s str) {
			once := s.Deduplicate("seen", time.Hour, func(r rec) string { return fmt.Sprint(r.Value) })
			once.To(rest)
			counted := stream.Count(once, "n")
			counted.To(out)
			stream.MapValues(counted, func(r rec) (int64, error) { return 0, fails(r) })
		})
	}
	down := true
	d := pipelinetest.New(t, build(func(rec) error {
		if down {
			return errors.New("not now")
		}
		return nil
	}), 1)
	err := d.Try(func() { send(d, 5) })
	if err == nil || !strings.Contains(err.Error(), "KSTREAM-MAPVALUES-0000000005: not now") {
		t.Errorf("%v does not name the operator", err)
	}
	want(t, read(d, out))
	want(t, read(d, rest))
	down = false
	send(d, 6) // 5 is tried again first
	want(t, read(d, out), "k=1", "k=2")
	want(t, read(d, rest), "k=5", "k=6")

	d = pipelinetest.New(t, build(func(r rec) error {
		if r.Value == 2 {
			return pipeline.DeadLetter("second", nil)
		}
		return nil
	}), 1)
	send(d, 7, 8, 8, 9) // the total stays at 1, and 8 was never seen
	want(t, read(d, out), "k=1")
	want(t, read(d, rest), "k=7")
	want(t, reasons(d), "second", "second", "second")
}

// TestAnErrorOfAFunctionNamesItsOperator covers those that the test above does not.
func TestAnErrorOfAFunctionNamesItsOperator(t *testing.T) {
	no := errors.New("no")
	for name, build := range map[string]func(s str, table stream.Table[string, int64]){
		"KSTREAM-MAP-0000000003: no": func(s str, _ stream.Table[string, int64]) {
			stream.Map(s, func(r rec) (string, int64, error) { return "", 0, no })
		},
		"KSTREAM-AGGREGATE-0000000003: no": func(s str, _ stream.Table[string, int64]) {
			stream.Aggregate(s, "sum", record.Int64, func(int64, rec) (int64, error) { return 0, no })
		},
		"KSTREAM-JOIN-0000000003: no": func(s str, table stream.Table[string, int64]) {
			stream.Join(s, table, func(rec, int64) (int64, error) { return 0, no })
		},
	} {
		p := pipeline.New("app")
		stage := p.Stage("only")
		table := stream.TableOf(stage, "rows", rows)
		build(stream.From(stage, in), table)
		d := pipelinetest.New(t, p, 1)
		pipelinetest.Send(d, rows, "k", 1)
		err := d.Try(func() { send(d, 5) })
		if err == nil || !strings.Contains(err.Error(), name) || !errors.Is(err, no) {
			t.Errorf("%v does not say %q", err, name)
		}
	}
}

// TestAHopIsATransactionOfItsOwn has an error behind GroupBy: it undoes what its own stage did, and not what sent the record.
func TestAHopIsATransactionOfItsOwn(t *testing.T) {
	p := pipeline.New("app")
	from := stream.From(p.Stage("first"), in)
	from.To(rest)
	grouped := stream.GroupBy(from, p.Stage("second"), record.String, record.Int64, newKey)
	counted := stream.Count(grouped, "n")
	counted.To(out)
	stream.MapValues(counted, func(r rec) (int64, error) {
		if r.Value == 2 {
			return 0, pipeline.DeadLetter("second", nil)
		}
		return r.Value, nil
	})
	d := pipelinetest.New(t, p, 3)
	send(d, 3, 6, 4)
	want(t, read(d, rest), "k=3", "k=6", "k=4")
	want(t, read(d, out), "g0=1", "g1=1")
	want(t, reasons(d), "second")
}

func TestANullKeyBehindGroupByIsADeadLetter(t *testing.T) {
	p := pipeline.New("app")
	key := record.Nullable(record.String)
	stream.GroupBy(stream.From(p.Stage("first"), in), p.Stage("second"), key, record.Int64,
		func(rec) record.Optional[string] { return record.Optional[string]{} }).To(topics.New("out", key, record.Int64))
	d := pipelinetest.New(t, p, 3)
	send(d, 1)
	want(t, reasons(d), "null_key")
	if got := pipelinetest.ReadRaw(d, "out"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestNullsAreWhatTheCodecMakesOfThem(t *testing.T) {
	d := pipelinetest.New(t, oneStage(func(s str) { s.To(out) }), 1)
	pipelinetest.SendRaw(d, "in", []byte("k"), nil, nil, d.Now())
	pipelinetest.SendRaw(d, "in", nil, []byte("12345678"), nil, d.Now())
	want(t, reasons(d), "malformed_int64", "null_key")

	maybe := topics.New("in", record.String, record.Nullable(record.Int64))
	p := pipeline.New("app")
	s := stream.From(p.Stage("only"), maybe)
	s.To(topics.New("out", record.String, record.Nullable(record.Int64)))
	stream.Count(s, "n").To(rest)
	d = pipelinetest.New(t, p, 1)
	pipelinetest.SendRaw(d, "in", []byte("k"), nil, nil, d.Now())
	if got := pipelinetest.ReadRaw(d, "out"); len(got) != 1 || got[0].Value != nil {
		t.Errorf("%+v, want a null", got)
	}
	want(t, read(d, rest), "k=1")
}

func TestASameStageHasOperatorsAndHandlers(t *testing.T) {
	p := pipeline.New("app")
	s := p.Stage("only")
	table := stream.TableOf(s, "rows", rows)
	output := pipeline.NewOutput(s, out)
	pipeline.Handle(s, in, func(c *pipeline.Ctx, r rec) error {
		row, _ := table.Get(c, r.Key)
		output.Send(c, r.Key, row+r.Value)
		return nil
	})
	d := pipelinetest.New(t, p, 2)
	pipelinetest.Send(d, rows, "k", 10)
	send(d, 1)
	want(t, read(d, out), "k=11")
}
