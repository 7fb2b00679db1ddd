//go:build synctests

package simulation

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

const (
	pricesTopic = "prices"
	ordersTopic = "orders"
	pricedTopic = "priced"
	pairState   = "ledger-price-state"
	pairKeys    = 40
	ghostNumber = int64(1) << 40 // records of aborted transactions have numbers from here on
)

// pairJob is a stage with two inputs: the last price of each key is kept, and each order leaves with it. Both handlers move a
// counter of the key that they share, and each record leaves one output, so that a key's outputs tell the whole of its history.
func pairJob() job {
	return job{
		inputs: []string{pricesTopic, ordersTopic}, output: pricedTopic, state: pairState,
		topics:   []string{pricesTopic, ordersTopic, pricedTopic, deadTopic, pairState},
		pipeline: func(*world) *pipeline.Pipeline { return pairs(true) },
		source:   func(f *feeder) source { return &pairSource{f: f, books: newPairBooks()} },
		judge:    judgePairs,
	}
}

// pairs is the job, or the version of it that does not know prices yet.
func pairs(priced bool) *pipeline.Pipeline {
	p := pipeline.New(app)
	s := p.Stage("price")
	last := state.NewTable(s, "last", record.String, record.Int64)
	count := state.NewTable(s, "count", record.String, record.Int64)
	out := pipeline.NewOutput(s, topics.New(pricedTopic, record.String, record.String))
	tell := func(c *pipeline.Ctx, key, kind string, number, price int64) error {
		n, _ := count.Get(c, key)
		count.Put(c, key, n+1)
		out.Send(c, key, fmt.Sprintf("%d %s %d %d", n+1, kind, number, price))
		return nil
	}
	if priced {
		pipeline.Handle(s, topics.New(pricesTopic, record.String, record.Int64), func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
			last.Put(c, r.Key, r.Value)
			return tell(c, r.Key, "price", r.Value, r.Value)
		})
	}
	pipeline.Handle(s, topics.New(ordersTopic, record.String, record.Int64), func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		price, _ := last.Get(c, r.Key)
		return tell(c, r.Key, "order", r.Value, price)
	})
	return p
}

// pairBooks is how many records of each kind were fed to stay, by key.
type pairBooks map[string]map[string]int64

func newPairBooks() pairBooks { return pairBooks{"price": {}, "order": {}} }

// pairSource numbers the records of each key and input from 1.
type pairSource struct {
	f     *feeder
	books pairBooks
}

func (s *pairSource) draw() (kind, key string) {
	return oneOfTwo(s.f.rng.IntN(3) == 0, "price", "order"), fmt.Sprintf("key-%d", s.f.rng.IntN(pairKeys))
}

func oneOfTwo(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

func (s *pairSource) event() *kgo.Record {
	kind, key := s.draw()
	s.books[kind][key]++
	return pairRecord(kind, key, s.books[kind][key])
}

func (s *pairSource) ghost() *kgo.Record {
	kind, key := s.draw()
	return pairRecord(kind, key, ghostNumber)
}

func pairRecord(kind, key string, number int64) *kgo.Record {
	value, _ := record.Int64.Append(nil, number)
	return &kgo.Record{
		Topic: oneOfTwo(kind == "price", pricesTopic, ordersTopic), Key: []byte(key), Value: value,
		Partition: pipeline.Murmur2.Partition([]byte(key), partitions),
	}
}

// taskMoves adds a process to one that runs, and takes the first away: tasks move twice, whole.
func taskMoves(w *world) {
	p := w.begin()
	w.enter(w.prepare(1, 1, ""))
	time.Sleep(20 * time.Second)
	w.give(200)
	w.give(200)
	w.remove(p)
	p.leave()
	time.Sleep(5 * time.Second)
	w.give(100)
}

// foreignHandle writes in one stage with a handle of another: the task must stop before anything is written.
func foreignHandle(w *world) (marks []string) {
	defer w.close()
	close(w.feeder.orders)
	<-w.feeder.done
	p := pipeline.New(app)
	foreign := state.NewTable(p.Stage("other"), "balances", record.String, record.Int64)
	s := p.Stage("own")
	own := state.NewTable(s, "own", record.String, record.Int64)
	pipeline.Handle(s, topics.New(ordersTopic, record.String, record.Int64), func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		foreign.Put(c, r.Key, r.Value)
		return nil
	})
	task := pipeline.NewTask(s, 0, 1, state.NewMemory(s.Stores()), nil)
	rec, now := pairRecord("order", "k", 7), time.Now().UnixMilli()
	_, err := task.Process(&pipeline.Input{Position: record.Position{Topic: ordersTopic}, Key: rec.Key, Value: rec.Value, Timestamp: now, Clock: now})
	if n, found := own.Get(task.View(), "k"); found {
		marks = append(marks, "foreign")
		w.fail("the handle of another stage's store wrote %d into this stage's", n)
	}
	if err == nil || !strings.Contains(err.Error(), "declared on another stage") {
		w.fail("the task went on with a foreign handle: %v", err)
	}
	return marks
}
