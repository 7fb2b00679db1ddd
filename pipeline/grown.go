package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/session"
)

// growthEvery is how often a processor counts the partitions of its inputs. The client itself looks every five minutes
// (metadata.max.age.ms), and until then nothing but dead letters would tell of partitions that were added.
const growthEvery = 10 * time.Second

// GrownInput is an input that has more partitions than when the processor started.
type GrownInput struct {
	Topic string `json:"topic"`
	Was   int32  `json:"was"` // at the start: the tasks of its stage
	Is    int32  `json:"is"`
}

// String returns what that means, and what to do.
func (g GrownInput) String() string {
	return fmt.Sprintf("topic %s has %d partitions, and had %d when this processor started: keys have moved, their state has not: events that go elsewhere now become dead letters (wrong_partition), "+
		"what is in the new partitions is not processed, and no processor starts again: stop the producers; `topics plan` says what is refused; the way out is a topic with %d partitions, or to %s", g.Topic, g.Is, g.Was, g.Was, startOver)
}

// growth watches the partition counts of inputs. It belongs to the process.
type growth struct {
	count func(context.Context) (map[string]int32, error) // partitions by input, as they are now
	was   map[string]int32                                // and as they were
	say   func(GrownInput)                                // told of changes only

	mu    sync.Mutex
	grown []GrownInput
}

// run counts until ctx ends.
func (g *growth) run(ctx context.Context) {
	t := time.NewTicker(growthEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.look(ctx)
		}
	}
}

// look counts once. What cannot be counted stays as it was: the sessions say that no broker answers.
func (g *growth) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, growthEvery)
	defer cancel()
	now, err := g.count(ctx)
	if err != nil {
		return
	}
	var grown []GrownInput
	for topic, was := range g.was {
		if is := now[topic]; is > was {
			grown = append(grown, GrownInput{topic, was, is})
		}
	}
	slices.SortFunc(grown, func(x, y GrownInput) int { return strings.Compare(x.Topic, y.Topic) })
	g.mu.Lock()
	before := g.grown
	g.grown = grown
	g.mu.Unlock()
	for _, in := range grown {
		if !slices.Contains(before, in) {
			g.say(in)
		}
	}
}

// inputs returns what has grown; it is the caller's.
func (g *growth) inputs() []GrownInput {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.grown)
}

// watchGrowth counts the partitions of the inputs until the returned function is called, which waits for it.
func (p *Processor) watchGrowth(ctx context.Context) (stop func()) {
	g := &growth{was: map[string]int32{}}
	for _, s := range p.pipe.stages {
		for _, in := range s.Inputs() {
			g.was[in] = p.partitions[s.name]
		}
	}
	g.count = func(ctx context.Context) (map[string]int32, error) {
		return session.PartitionCounts(ctx, p.admin, p.inputs()...)
	}
	g.say = func(in GrownInput) {
		p.cfg.Logger.Error("partitions were added", "app", p.pipe.app, "err", in.String())
	}
	p.mu.Lock()
	p.growth = g
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { g.run(ctx) })
	return func() { cancel(); running.Wait() }
}

// grown returns the inputs that have grown since the start.
func (p *Processor) grown() []GrownInput {
	p.mu.Lock()
	g := p.growth
	p.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.inputs()
}
