package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// TestASmallRoundIsRightAndReportsEveryProgram asserts no speed: whether each program's outputs are right is what compare
// checks.
func TestASmallRoundIsRightAndReportsEveryProgram(t *testing.T) {
	o := options{events: 20_000, accounts: 500, duplicates: 0.05, rounds: 2}
	r, err := o.compare(t.Context(), kafkatest.Start(t, kafkaOptions), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.print(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("too small to tell speeds:\n%s", text.String())
	for _, p := range programs() {
		if n := len(r.results[p.name]); n != o.rounds || !strings.Contains(text.String(), "\n"+p.name+"  ") {
			t.Errorf("%s ran %d of %d times, or is not in the report", p.name, n, o.rounds)
		}
		for _, x := range r.results[p.name] {
			if x.wall <= 0 || x.cpu <= 0 || x.broker <= 0 || x.peak <= 0 {
				t.Errorf("%s: %+v: something was not measured", p.name, x)
			}
		}
	}
}

// TestTheLoopGoesOnWhereItStopped keeps the comparison fair: the loop has state that it can read back.
func TestTheLoopGoesOnWhereItStopped(t *testing.T) {
	b, err := newBench(t.Context(), kafkatest.Start(t, kafkaOptions), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.client.Close()
	s, loop := newSource(500, 0.05), programs()[0]
	made, err := loop.prepare(t.Context(), b.client, "again")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if b.workload, err = s.feed(t.Context(), b.seeds, 5000); err != nil {
			t.Fatal(err)
		}
		if _, err := b.measure(t.Context(), loop, "again"); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.workload.check(t.Context(), b.seeds, loop.updates); err != nil {
		t.Error(err)
	}
	if err := remove(t.Context(), kadm.NewClient(b.client), made); err != nil {
		t.Error(err)
	}
}

func TestAWrongRunIsFound(t *testing.T) {
	update := func(account, amount, balance string, version int) *kgo.Record {
		value := fmt.Sprintf(`{"account_id":%q,"outcome":"applied","amount":%q,"balance":%q,"version":%d}`, account, amount, balance, version)
		return &kgo.Record{Key: []byte(account), Value: []byte(value)}
	}
	first, second, other := update("a", "1.00", "1.00", 1), update("a", "0.50", "1.50", 2), update("b", "2.00", "2.00", 1)
	w := &workload{unique: 3, balances: map[string]balance{"a": {150, 2}, "b": {200, 1}}}
	refused := &kgo.Record{Key: []byte("a"), Value: bytes.Replace(first.Value, []byte("applied"), []byte("rejected"), 1)}
	for name, c := range map[string]struct {
		updates []*kgo.Record
		right   bool
	}{
		"right":                  {[]*kgo.Record{first, other, second}, true},
		"nothing":                {nil, false},
		"one is lost":            {[]*kgo.Record{first, second}, false},
		"the last is lost":       {[]*kgo.Record{first, other}, false},
		"one comes twice":        {[]*kgo.Record{first, first, other, second}, false},
		"two change places":      {[]*kgo.Record{second, first, other}, false},
		"a balance is wrong":     {[]*kgo.Record{first, update("a", "0.50", "1.51", 2), other}, false},
		"an amount is wrong":     {[]*kgo.Record{update("a", "1.01", "1.01", 1), update("a", "0.50", "1.51", 2), other}, false},
		"a key is wrong":         {[]*kgo.Record{{Key: []byte("b"), Value: first.Value}}, false},
		"one was refused":        {[]*kgo.Record{refused}, false},
		"one cannot be read":     {[]*kgo.Record{{Key: []byte("a"), Value: []byte("{")}}, false},
		"an account is new":      {[]*kgo.Record{first, second, update("c", "2.00", "2.00", 1)}, false},
		"an amount has no cents": {[]*kgo.Record{update("a", "1", "1.00", 1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := judge{balances: map[string]balance{}}, error(nil)
			for _, u := range c.updates {
				if err == nil {
					err = j.add(u)
				}
			}
			if err == nil {
				err = j.end(w)
			}
			if (err == nil) != c.right {
				t.Errorf("right is %t: %v", c.right, err)
			}
		})
	}
}

func TestTheLoopIsALoopAndNotAnEngine(t *testing.T) {
	const most = 250 // lines
	text, err := os.ReadFile("loop/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > most {
		t.Errorf("%d lines, want at most %d: what is longer is not what one writes by hand", n, most)
	}
}

func TestAReportSaysWhenItIsNoMeasure(t *testing.T) {
	for cpu, valid := range map[time.Duration]bool{time.Second: true, 4 * time.Second: false} {
		r := &report{events: 1_000_000, results: map[string][]result{handLoop: {{cpu: cpu}}}}
		if got := r.valid() == ""; got != valid {
			t.Errorf("%v of CPU for a million records: valid is %t (%s)", cpu, got, r.valid())
		}
	}
}
