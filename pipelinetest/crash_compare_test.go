package pipelinetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// sketchWriters says which of two tasks wrote the records of topic "out", partition 0, by key: "a" one, "b" the other, "ab" both.
func sketchWriters(t *testing.T, byKey map[string]string) *writers {
	t.Helper()
	p := pipeline.New("sketch")
	s := p.Stage("s")
	pipeline.Handle(s, topics.New("in", record.String, record.String), func(*pipeline.Ctx, pipeline.Record[string, string]) error { return nil })
	tasks := map[rune]*task{'a': {stage: s}, 'b': {stage: s, partition: 1}}
	w := newWriters([]put{{topic: "in"}})
	w.tasks = []*task{tasks['a'], tasks['b']}
	for key, by := range byKey {
		for _, name := range by {
			w.note(tasks[name], pipeline.Out{Topic: "out", Key: []byte(key)})
		}
	}
	return w
}

// records makes a partition of "key:value" words.
func records(words string) outcome {
	out := outcome{records: map[partition][]written{}}
	for _, word := range strings.Fields(words) {
		key, _, _ := strings.Cut(word, ":")
		at := partition{"out", 0}
		out.records[at] = append(out.records[at], written{key: key, text: word})
	}
	return out
}

func TestOrderCountsAsFarAsThereIsOne(t *testing.T) {
	one := map[string]string{"k": "a", "l": "a"}   // one task wrote all
	each := map[string]string{"k": "a", "l": "b"}  // one task for each key
	both := map[string]string{"k": "ab", "l": "b"} // two wrote k
	for _, c := range []struct {
		writers    map[string]string
		want, got  string
		difference string // where | expected | got; "" = none
		permuted   bool
	}{
		{one, "k:1 l:2", "k:1 l:2", "", false},
		{one, "k:1 l:2", "l:2 k:1", `record 0 (2 records expected, 2 there)|k:1|l:2`, true},
		{one, "k:1 l:2", "k:1", `record 1 (2 records expected, 1 there)|l:2|nothing`, false},
		{one, "k:1", "k:1 k:1", `record 1 (1 records expected, 2 there)|nothing|k:1`, false},
		{each, "k:1 l:2 k:3", "l:2 k:1 k:3", "", false},
		{each, "k:1 l:2 k:3", "k:3 l:2 k:1", `record 0 of key "k" (3 records expected, 3 there)|k:1|k:3`, true},
		{each, "k:1 l:2", "k:1 l:2 l:2", `topic "out" partition 0 (2 records expected, 3 there)|nothing|l:2`, false},
		{both, "k:1 l:2 k:3", "k:3 l:2 k:1", "", false},
		{both, "l:1 l:2", "l:2 l:1", `record 0 of key "l" (2 records expected, 2 there)|l:1|l:2`, true},
		{both, "k:1 k:1", "k:1", `(2 records expected, 1 there)|k:1|nothing`, false},
	} {
		d := sketchWriters(t, c.writers).compare(records(c.want), records(c.got))
		said := ""
		if d != nil {
			said = fmt.Sprintf("%s|%s|%s", d.where, d.want, d.got)
		}
		if !strings.HasSuffix(said, c.difference) || (said == "") != (c.difference == "") || d != nil && d.permuted != c.permuted {
			t.Errorf("%v: %q against %q: %q, want %q", c.writers, c.want, c.got, said, c.difference)
		}
	}
}

func TestStateIsComparedByPlace(t *testing.T) {
	w := sketchWriters(t, nil)
	got := func(want, got map[string]string) string {
		d := w.compare(outcome{state: want}, outcome{state: got})
		if d == nil {
			return ""
		}
		return d.show("expected:", "got:")
	}
	a := map[string]string{"sums k": "1"}
	if said := got(a, map[string]string{"sums k": "1"}); said != "" {
		t.Error(said)
	}
	for _, other := range []map[string]string{{}, {"sums k": "2"}, {"sums k": "1", "sums l": "1"}} {
		if said := got(a, other); !strings.Contains(said, "expected:") || !strings.HasPrefix(said, "sums ") {
			t.Errorf("%v: %q", other, said)
		}
	}
}

// Every step has its first request struck, and no more than were sent.
func TestPointsCoverEveryStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	sent := map[kmsg.Key]int{kmsg.Metadata: 9}
	for _, key := range append(slices.Clone(commitSteps), startSteps...) {
		sent[key] = 11
	}
	seen := map[string]bool{}
	for _, p := range points(sent, rng) {
		if p.n < 1 || p.n > 11 || p.key == kmsg.Metadata {
			t.Errorf("no such request: %s", p)
		}
		if text := p.String(); seen[text] {
			t.Errorf("twice: %s", text)
		} else {
			seen[text] = true
		}
	}
	for _, key := range append(slices.Clone(commitSteps), startSteps...) {
		for _, words := range []string{"the process is killed before its %s no. 1 is sent, and restarted", "the process is killed when the broker has acted on its %s no. 1, and restarted"} {
			if text := fmt.Sprintf(words, step(key)); !seen[text] {
				t.Errorf("not struck: %s", text)
			}
		}
	}
	if none := points(map[kmsg.Key]int{}, rng); len(none) != 0 {
		t.Errorf("%d points where nothing was sent", len(none))
	}
}
