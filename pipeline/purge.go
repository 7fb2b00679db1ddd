package pipeline

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// purger deletes from repartition topics what their readers have committed (KAFKA-17635: below committed offsets only, never
// below a position). It belongs to the process; workers tell it what is proven, and it asks the brokers in its own time.
type purger struct {
	trim  func(ctx context.Context, topic string, before map[int32]int64) error
	every time.Duration
	say   func(topic string, err error) // a trim failed, or works again (nil); told of changes only

	mu     sync.Mutex
	proven map[session.TopicPartition]int64 // committed next offsets of tasks that this process owns
	done   map[session.TopicPartition]int64 // as last trimmed; the purger's goroutine alone uses it
	failed map[string]string                // by topic: why the last trim failed; the purger's goroutine alone uses it
}

func newPurger(every time.Duration, say func(string, error)) *purger {
	return &purger{every: every, say: say, proven: map[session.TopicPartition]int64{}, done: map[session.TopicPartition]int64{}, failed: map[string]string{}}
}

// committed notes the committed next offset of a repartition input: of a commit that is proven, or of a restore's proof.
func (p *purger) committed(tp session.TopicPartition, next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proven[tp] = next
}

// lost forgets an input whose task is not ours any more: its next owner deletes.
func (p *purger) lost(tp session.TopicPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.proven, tp)
}

// run trims until ctx ends. What a broker refuses is tried again the next time: nothing but disk depends on it.
func (p *purger) run(ctx context.Context) {
	t := time.NewTicker(p.every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			p.purge(ctx)
		}
	}
}

// purge trims what moved since the last time.
func (p *purger) purge(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(p.every, closePatience))
	defer cancel()
	for topic, before := range p.due() {
		err := p.trim(ctx, topic, before)
		if mutant.On("failed-trim-forgotten") {
			err = nil
		}
		if ctx.Err() != nil && err != nil {
			return // told to end, or the brokers do not answer: the session says so
		}
		p.tell(topic, err)
		if err != nil {
			continue
		}
		for partition, next := range before {
			p.done[session.TopicPartition{Topic: topic, Partition: partition}] = next
		}
	}
}

// due returns by topic the offsets that have moved.
func (p *purger) due() map[string]map[int32]int64 {
	p.mu.Lock()
	proven := maps.Clone(p.proven)
	p.mu.Unlock()
	byTopic := map[string]map[int32]int64{}
	for tp, next := range proven {
		if next <= p.done[tp] {
			continue
		}
		if byTopic[tp.Topic] == nil {
			byTopic[tp.Topic] = map[int32]int64{}
		}
		byTopic[tp.Topic][tp.Partition] = next
	}
	return byTopic
}

// tell says that a topic cannot be trimmed, once for each reason, and that it can be again.
func (p *purger) tell(topic string, err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	if reason != p.failed[topic] {
		p.failed[topic] = reason
		p.say(topic, err)
	}
}

// sayPurge logs what becomes of trimming a repartition topic.
func (p *Processor) sayPurge(topic string, err error) {
	log := p.cfg.Logger.With("app", p.pipe.app, "topic", topic)
	if err != nil {
		log.Warn("a repartition topic is not trimmed: it grows until it is; nothing else depends on it", "err", err)
		return
	}
	log.Info("the repartition topic is trimmed again")
}

// startPurger trims repartition topics until the returned function is called, which waits for it. Without such topics it does
// nothing.
func (p *Processor) startPurger(ctx context.Context) (stop func()) {
	if !p.pipe.hasRepartitions() {
		return func() {}
	}
	p.purger.trim = topics.NewAdmin(p.admin).Trim
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { p.purger.run(ctx) })
	return func() { cancel(); running.Wait() }
}

func (p *Pipeline) hasRepartitions() bool {
	for _, s := range p.stages {
		if s.repartition != "" {
			return true
		}
	}
	return false
}

// purgeCommitted lets what tasks have committed of their repartition topics be deleted. Call it when the commit is proven: what is
// deleted never comes back.
func (w *worker) purgeCommitted(seals []sealed) {
	for _, s := range seals {
		if s.owner.token.Live() {
			w.purgeBelow(s.owner, s.state.Marker)
		}
	}
}

// purgeBelow does so for one task, by a marker that is proven committed.
func (w *worker) purgeBelow(o *ownedTask, m state.Marker) {
	if next, ok := m.NextOf(o.stage.repartition); ok && o.stage.repartition != "" {
		w.p.purger.committed(session.TopicPartition{Topic: o.stage.repartition, Partition: o.id.Partition}, next)
	}
}

// purgeNoMore ends that for a task that is lost.
func (w *worker) purgeNoMore(o *ownedTask) {
	for _, in := range o.inputs {
		w.p.purger.lost(in.TopicPartition)
	}
}
