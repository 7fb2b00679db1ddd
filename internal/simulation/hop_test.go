//go:build synctests

package simulation

import (
	"errors"
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
	visitsTopic = "visits"
	pagesTopic  = "pages"
	hopTopic    = "ledger-count-repartition"
	hopState    = "ledger-count-state"
	hopUsers    = 25
	hopPages    = 12
	closeEvery  = time.Second // of stream time
	purgeEvery  = 150 * time.Millisecond
)

// hopJob is two stages: visits come by user and are counted by page, so that they pass a repartition topic. A timer closes what
// was counted of each page since the last time. A page's outputs tell the whole of its history.
func hopJob() job {
	return job{
		inputs: []string{visitsTopic, hopTopic}, output: pagesTopic, state: hopState,
		topics:   []string{visitsTopic, hopTopic, pagesTopic, deadTopic, hopState},
		pipeline: func(*world) *pipeline.Pipeline { return hops() },
		source:   func(f *feeder) source { return &hopSource{f: f, books: map[visit]int64{}} },
		judge:    judgeHops,
	}
}

func hops() *pipeline.Pipeline {
	p := pipeline.New(app)
	byUser, byPage := p.Stage("rekey"), p.Stage("count")
	hop := pipeline.NewRepartition(byPage, record.String, record.String)
	hand := pipeline.NewOutput(byUser, hop)
	pipeline.Handle(byUser, topics.New(visitsTopic, record.String, record.String), func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		page, number, _ := strings.Cut(r.Value, " ")
		hand.Send(c, page, r.Key+" "+number)
		return nil
	})
	count := state.NewTable(byPage, "count", record.String, record.Int64)
	open := state.NewTable(byPage, "open", record.String, record.Int64)
	out := pipeline.NewOutput(byPage, topics.New(pagesTopic, record.String, record.String))
	pipeline.Handle(byPage, hop, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		n, _ := count.Get(c, r.Key)
		count.Put(c, r.Key, n+1)
		since, _ := open.Get(c, r.Key)
		open.Put(c, r.Key, since+1)
		out.Send(c, r.Key, fmt.Sprintf("visit %d %s", n+1, r.Value))
		if strings.HasSuffix(r.Value, " bad") {
			return pipeline.DeadLetter("bad", errors.New("bad"))
		}
		return nil
	})
	byPage.Every(closeEvery, func(c *pipeline.Ctx, boundary time.Time) error {
		for page, n := range open.All(c) {
			out.Send(c, page, fmt.Sprintf("closed %d", n))
			open.Delete(c, page)
		}
		return nil
	})
	return p
}

// visit is a user and a page: its records are numbered from 1.
type visit struct{ user, page string }

type hopSource struct {
	f     *feeder
	books map[visit]int64 // fed to stay
	bad   int64           // to be dead letters of the second stage
}

func (s *hopSource) draw() visit {
	return visit{fmt.Sprintf("user-%d", s.f.rng.IntN(hopUsers)), fmt.Sprintf("page-%d", s.f.rng.IntN(hopPages))}
}

func (s *hopSource) event() *kgo.Record {
	v := s.draw()
	if s.f.rng.IntN(10) == 0 {
		s.bad++
		return v.record("bad")
	}
	s.books[v]++
	return v.record(fmt.Sprint(s.books[v]))
}

func (s *hopSource) ghost() *kgo.Record { return s.draw().record(fmt.Sprint(ghostNumber)) }

func (v visit) record(number string) *kgo.Record {
	return &kgo.Record{Topic: visitsTopic, Key: []byte(v.user), Value: []byte(v.page + " " + number), Partition: pipeline.Murmur2.Partition([]byte(v.user), partitions)}
}

// killedWhileItPurges holds a commit of both stages up until the purge has had its turn, and kills the process: what the purge
// deleted must have been committed before.
func killedWhileItPurges(w *world) {
	p := w.begin()
	sprung := make(chan struct{})
	commits := 0
	trap := func(at string) {
		if at != "produced" {
			return
		}
		if commits++; commits == 3 {
			time.Sleep(4 * purgeEvery)
			p.kill()
			close(sprung)
		}
	}
	p.hold.Store(&trap)
	w.feeder.orders <- 60
	time.Sleep(time.Second)
	w.feeder.orders <- 60
	await(p, sprung)
	w.revive(p)
	time.Sleep(2 * time.Second)
	w.give(60)
}
