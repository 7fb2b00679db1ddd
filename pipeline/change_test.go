package pipeline_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// release is a version of one program: it sums clicks per key, and forgets a key's sum at a click of 0.
type release struct {
	table  string               // name of the store
	key    record.Codec[string] // of the store
	value  record.Codec[sum]    // of the store
	window time.Duration        // of the dedupe store "seen", 0 = without
	more   bool                 // a further store, in use
	late   bool                 // a second input, "late"
	stage  bool                 // a second stage, that reads the totals
}

// sum is what the program keeps; older forms of it knew less.
type sum struct {
	Total int64  `json:"total"`
	Note  string `json:"note"`
}

type sumV1 struct {
	Total int64 `json:"total"`
}

// aliased is a key codec of another name with the same bytes.
type aliased struct{ record.Codec[string] }

func (aliased) ID() string { return "text" }

// firstForm is the form of the first release, as a codec of the form of today.
type firstForm struct{ codec record.Codec[sumV1] }

func (f firstForm) ID() string { return f.codec.ID() }

func (f firstForm) Append(dst []byte, v sum) ([]byte, error) {
	return f.codec.Append(dst, sumV1{v.Total})
}

func (f firstForm) Decode(src []byte) (sum, error) {
	v, err := f.codec.Decode(src)
	return sum{Total: v.Total}, err
}

func (f firstForm) MayBegin(b byte) bool { return f.codec.(record.Beginner).MayBegin(b) }

func codecs() (v1, v2, v3, other record.Codec[sum]) {
	v1 = firstForm{record.JSON[sumV1]()}
	v2 = record.Versioned(2, record.JSON[sum](), v1, func(v sum) sum { return v })
	v3 = record.Versioned(3, record.JSON[sum](), v2, func(v sum) sum { return v })
	return v1, v2, v3, avro{v1}
}

type avro struct{ record.Codec[sum] }

func (avro) ID() string { return "avro" }

var late = topics.New("late", record.String, record.Int64)

func (r release) pipeline() *pipeline.Pipeline {
	p := pipeline.New("change")
	s := p.Stage("s")
	sums := state.NewTable(s, r.table, r.key, r.value)
	out := pipeline.NewOutput(s, totals)
	var seen state.Dedupe
	if r.window > 0 {
		seen = state.NewDedupe(s, "seen", r.window)
	}
	var more state.Table[string, int64]
	if r.more {
		more = state.NewTable(s, "more", record.String, record.Int64)
	}
	add := func(c *pipeline.Ctx, rec pipeline.Record[string, int64]) error {
		if r.window > 0 {
			seen.Check(c, fmt.Sprint(c.Source()), rec.Time, state.Fingerprint{})
		}
		if r.more {
			more.Put(c, rec.Key, rec.Value)
		}
		if rec.Value == 0 {
			sums.Delete(c, rec.Key)
			return nil
		}
		total, _ := sums.Get(c, rec.Key)
		total.Total += rec.Value
		sums.Put(c, rec.Key, total)
		out.Send(c, rec.Key, total.Total)
		return nil
	}
	pipeline.Handle(s, clicks, add)
	if r.late {
		pipeline.Handle(s, late, add)
	}
	if r.stage {
		pipeline.Handle(p.Stage("after"), totals, func(*pipeline.Ctx, pipeline.Record[string, int64]) error { return nil })
	}
	return p
}

// change is a deploy: one release runs and is killed, something may happen, another one starts.
type change struct {
	from, to  func(r *release)
	feed      []int64          // clicks of every key under the first release
	meanwhile func(w *changed) // between the two
	totals    map[string]int64 // what the second release's next click of 1 leads to; nil = refused
	refused   []string         // what the refusal says
}

func changes() map[string]change {
	_, v2, v3, other := codecs()
	same := func(*release) {}
	with := func(f func(r *release)) func(*release) { return f }
	window := func(d time.Duration) func(*release) { return func(r *release) { r.window = d } }
	value := func(c record.Codec[sum]) func(*release) { return func(r *release) { r.value = c } }
	goesOn := map[string]int64{"a": 4, "b": 4, "c": 4}
	ways := func(says ...string) []string {
		return append(says, "revert", "processor reset plan", "new application.id")
	}
	return map[string]change{
		"nothing":              {from: same, to: same, totals: goesOn},
		"store added":          {from: same, to: with(func(r *release) { r.more = true }), totals: goesOn},
		"dedupe store added":   {from: same, to: window(time.Hour), totals: goesOn},
		"stage added":          {from: same, to: with(func(r *release) { r.stage = true }), totals: goesOn},
		"input added":          {from: same, to: with(func(r *release) { r.late = true }), totals: goesOn},
		"window widened":       {from: window(time.Hour), to: window(2 * time.Hour), totals: goesOn},
		"json to json+v2":      {from: same, to: value(v2), totals: goesOn},
		"json+v2 to json+v3":   {from: value(v2), to: value(v3), totals: goesOn},
		"json to json+v3":      {from: same, to: value(v3), totals: goesOn},
		"input read and gone":  {from: with(func(r *release) { r.late = true }), to: same, totals: goesOn},
		"store emptied, gone":  {from: same, feed: []int64{3, 0}, to: with(func(r *release) { r.table = "balances" }), totals: map[string]int64{"a": 1, "b": 1, "c": 1}},
		"stage gone":           {from: with(func(r *release) { r.stage = true }), to: same, totals: goesOn},
		"store removed":        {from: with(func(r *release) { r.more = true }), to: same, refused: ways(`was "store more table`, `is "(gone)"`, `store "more" was removed or renamed`)},
		"dedupe store removed": {from: window(time.Hour), to: same, refused: ways(`was "store seen dedupe`, "keys would be orphaned")},
		"store renamed":        {from: same, to: with(func(r *release) { r.table = "balances" }), refused: ways(`was "store sums table`, "keys would be orphaned")},
		"another key codec":    {from: same, to: with(func(r *release) { r.key = aliased{record.String} }), refused: ways("key=string", "key=text", "another key codec")},
		"another value codec":  {from: same, to: value(other), refused: ways("value=json ", "value=avro", `called "json+v2"`)},
		"window narrowed":      {from: window(2 * time.Hour), to: window(time.Hour), refused: ways("window=2h0m0s", "window=1h0m0s", "narrower window")},
		"json+v2 back to json": {from: value(v2), to: same, refused: ways("value=json+v2", "a newer version of the program wrote")},
		"json+v3 back to v2":   {from: value(v3), to: value(v2), refused: ways("value=json+v3", "a newer version of the program wrote")},
		"input gone, unread":   {from: with(func(r *release) { r.late = true }), to: same, meanwhile: func(w *changed) { w.send("late", 1) }, refused: ways("inputs=clicks,late", `input "late" was dropped with`)},
		"offsets moved back":   {from: same, to: same, meanwhile: func(w *changed) { w.moveOffsets(-1) }, refused: []string{"I1", "another tool", "processor reset apply --to-marker"}},
		"offsets moved ahead":  {from: same, to: same, meanwhile: func(w *changed) { w.moveOffsets(1) }, refused: []string{"I1", "another tool", "processor reset apply --to-marker"}},
		"offset set by a tool": {from: same, to: same, meanwhile: func(w *changed) { w.moveOffsets(0) }, refused: []string{"I2", "set by another tool", "processor reset apply --to-marker"}},
		"offset without state": {from: same, to: same, meanwhile: (*changed).dropState, refused: ways("I1", "has no marker", "the stage gained state")},
		"input partitioned":    {from: same, to: same, meanwhile: func(w *changed) { w.addPartitions("clicks") }, refused: []string{"topic change-s-state: partitions", "stage s has 6"}},
		"all partitioned":      {from: same, to: same, meanwhile: func(w *changed) { w.addPartitions("clicks", "change-s-state", "change-dead-letters") }, refused: ways("I1", "written for 4 partitions", "keys have moved")},
	}
}

// A deploy changes what it may, over state that a killed process left; what it may not is refused with the line that changed
// and the way out, before anything is processed, and the version before goes on as if nothing had been.
//
// Guarantee: G14
// Sabotage: changed-between-runs
func TestDeployGoesOnOrIsRefusedWithTheWayOut(t *testing.T) {
	for name, c := range changes() {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

func (c change) release(f func(*release)) release {
	v1, _, _, _ := codecs()
	r := release{table: "sums", key: record.String, value: v1}
	f(&r)
	return r
}

func (c change) test(t *testing.T) {
	w := &changed{bareWorld(t), []string{"a", "b", "c"}}
	before, after := c.release(c.from), c.release(c.to)
	w.make(before)
	if c.feed == nil {
		c.feed = []int64{1, 2}
	}
	for _, value := range c.feed {
		w.send("clicks", value)
	}
	w.untilKilled(before)
	if c.meanwhile != nil {
		c.meanwhile(w)
	} else {
		w.make(after)
	}
	w.send("clicks", 1)
	if c.refused == nil {
		w.goesOn(after, c.totals)
		return
	}
	w.refuses(after, c.refused)
	if c.meanwhile == nil {
		w.goesOn(before, map[string]int64{"a": 4, "b": 4, "c": 4})
	}
}

// A deploy that added an input is rolled back, and comes again: what was applied of the input before is not applied once more, and
// what came of it meanwhile is.
func TestInputThatComesBackGoesOnWhereItWas(t *testing.T) {
	w := &changed{bareWorld(t), []string{"a", "b", "c"}}
	without, with := change{}.release(func(*release) {}), change{}.release(func(r *release) { r.late = true })
	w.make(with)
	total := func(r release, topic string, value, want int64) {
		t.Helper()
		w.send(topic, value)
		stop, wait := w.start(r, &cable{}, pipeline.Events{})
		w.until(fmt.Sprintf("%d more of %s make a total of %d", value, topic, want), func() bool {
			return maps.Equal(w.lastTotals(), map[string]int64{"a": want, "b": want, "c": want})
		})
		stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	total(with, "late", 10, 10)
	total(without, "clicks", 1, 11)
	w.send("late", 5)
	total(with, "clicks", 1, 17)
	total(with, "late", 100, 117)
}
