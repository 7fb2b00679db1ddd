package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/topics"
)

// Processor runs a pipeline. Make it with NewProcessor and run it once; Status may be called from anywhere.
type Processor struct {
	pipe           *Pipeline
	cfg            Config
	admin          *kgo.Client
	instance       string
	started        time.Time
	partitions     map[string]int32 // by stage
	limits         Limits
	maxRecordBytes int // the smallest limit of all topics that are written
	maxIDs         int // new ids of one dedupe store in a transaction, so that they fit one packed record
	bases          *bases
	board          *board
	purger         *purger

	mu      sync.Mutex
	stops   map[TaskID]error
	workers []*worker // while they run
	growth  *growth   // from the first session on
}

// NewProcessor checks pipeline and configuration. It does no I/O.
func NewProcessor(cfg Config, p *Pipeline) (*Processor, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(p.Validate(), cfg.validate()); err != nil {
		return nil, err
	}
	processor := &Processor{pipe: p, cfg: cfg, board: newBoard(), bases: newBases(cfg.TransactionTimeout + closePatience), stops: map[TaskID]error{}}
	processor.purger = newPurger(cfg.RepartitionPurgeInterval, processor.sayPurge)
	return processor, nil
}

// Run processes until ctx ends (it commits what is processed, closes, and returns nil) or a fatal error. It blocks.
func Run(ctx context.Context, cfg Config, p *Pipeline) error {
	processor, err := NewProcessor(cfg, p)
	if err != nil {
		return err
	}
	return processor.Run(ctx)
}

// Run processes until ctx ends or a fatal error. At the start it waits ten seconds for a broker that answers, and as long for
// what one broker of several leaves unanswered; a later outage is
// not fatal, it is waited out. A task that stopped
// does not end the others; the error of each is joined to what Run returns. Run may be called once.
func (p *Processor) Run(ctx context.Context) (err error) {
	id, err := session.Identify(p.cfg.StateDir, p.pipe.app, p.cfg.InstanceID)
	if err != nil {
		return err
	}
	defer func() { _ = id.Close() }() // it frees the lock, as the end of the process does
	p.mu.Lock()
	p.instance, p.started = id.Instance, p.now()
	p.mu.Unlock()
	if p.admin, err = kgo.NewClient(p.clientOptions()...); err != nil {
		return fmt.Errorf("client options: %w", err)
	}
	defer p.admin.Close()
	if err := p.prepare(ctx, id); err != nil && ctx.Err() == nil {
		return err
	} else if err != nil { // told to stop before it had begun
		return nil
	}
	return p.runWorkers(ctx, id)
}

func (p *Processor) clientOptions() []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(p.cfg.Brokers...), kgo.ClientID(p.pipe.app), kgo.MetadataMinAge(100 * time.Millisecond)}, p.cfg.Client...)
}

func (p *Processor) now() time.Time { return p.cfg.Clock() }

func (p *Processor) runWorkers(ctx context.Context, id *session.Identity) error {
	tasks := 0
	for _, n := range p.partitions {
		tasks += int(n)
	}
	n := p.cfg.workers(tasks)
	if err := p.retire(ctx, id, n); err != nil && ctx.Err() == nil {
		return err
	} else if err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.startPurger(ctx)()
	defer p.watchGrowth(ctx)()
	failed, undrained := make(chan error, n), make(chan error, n)
	var all sync.WaitGroup
	var workers []*worker
	for i := range n {
		workers = append(workers, &worker{p: p, index: i, asks: make(chan *ask, maxAsks)})
	}
	p.serve(workers)
	defer p.serve(nil)
	for i, w := range workers {
		p.board.worker(i, func(*WorkerStatus) {}) // not ready before all have joined
		all.Go(func() {
			switch err := w.run(ctx); {
			case errors.Is(err, ErrNotDrained):
				undrained <- fmt.Errorf("worker %d: %w", i, err)
			case err != nil:
				failed <- fmt.Errorf("worker %d: %w", i, err)
				cancel()
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed: // the first; the others were only told to end
		return err
	default:
	}
	close(undrained)
	errs := []error{p.leave(n), p.stopErrors()}
	for err := range undrained {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// retire fences and removes the ids of this instance's workers that no longer run: their partitions would otherwise wait for
// the session to time out.
func (p *Processor) retire(ctx context.Context, id *session.Identity, workers int) error {
	before, err := id.Workers(workers)
	if err != nil {
		return err
	}
	var gone []string
	for i := workers; i < before; i++ {
		if err := session.Fence(ctx, p.admin, session.TransactionalID(p.pipe.app, id.Instance, i), p.cfg.TransactionTimeout); err != nil {
			return err
		}
		gone = append(gone, session.InstanceID(id.Instance, i))
	}
	if len(gone) == 0 || mutant.On("retired-workers-stay") {
		return nil
	}
	return session.Leave(ctx, p.admin, p.pipe.app, gone...)
}

// leave gives the partitions away for good, unless the user named the instance so that it keeps them for its return.
func (p *Processor) leave(workers int) error {
	if p.cfg.InstanceID != "" && !p.cfg.LeaveOnStop {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.DrainTimeout)
	defer cancel()
	var ids []string
	for i := range workers {
		ids = append(ids, session.InstanceID(p.instance, i))
	}
	if err := session.Leave(ctx, p.admin, p.pipe.app, ids...); err != nil {
		p.cfg.Logger.Warn("could not leave the group: the members' tasks wait for session.timeout.ms", "app", p.pipe.app, "err", err)
	}
	return nil
}

// stopped remembers a task that needs a person, for Run's error.
func (p *Processor) stopped(id TaskID, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stops[id] = err
}

func (p *Processor) runsAgain(id TaskID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.stops, id)
}

func (p *Processor) stopErrors() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, err := range p.stops {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Status returns a snapshot. It does not block on the brokers.
func (p *Processor) Status() Status {
	p.mu.Lock()
	s := Status{App: p.pipe.app, Instance: p.instance, Started: p.started}
	p.mu.Unlock()
	s.Workers, s.Tasks = p.board.snapshot()
	s.Grown = p.grown()
	for i := range s.Tasks {
		s.Tasks[i].Restore = s.Tasks[i].Restore.at(p.now())
	}
	return s
}

func (p *Processor) stage(name string) *Stage {
	for _, s := range p.pipe.stages {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (p *Processor) inputs() (names []string) {
	for _, s := range p.pipe.stages {
		names = append(names, s.Inputs()...)
	}
	return names
}

// ownTopics returns the topics that nobody but this application writes.
func (p *Processor) ownTopics() []string {
	names := []string{topics.DeadLetters(p.pipe.app)}
	for _, s := range p.pipe.stages {
		names = append(names, s.StateTopic())
		for _, in := range s.Inputs() {
			if p.pipe.repartitioned(in) != nil {
				names = append(names, in)
			}
		}
	}
	return names
}

func (p *Processor) topology() session.Topology {
	t := session.Topology{StageOf: map[string]string{}, Warm: p.board.warm}
	var text strings.Builder
	for _, s := range p.pipe.stages {
		for _, in := range s.Inputs() {
			t.StageOf[in] = s.name
		}
		text.WriteString(s.Fingerprint(p.partitions[s.name]))
	}
	t.Fingerprint = xxhash.Sum64String(text.String())
	return t
}

const (
	maxRebuilds   = 10          // without a commit in between …
	rebuildWindow = time.Minute // … within this time: it will not heal by itself
	fenceWindow   = 10 * time.Second
	firstBackoff  = 50 * time.Millisecond
	maxBackoff    = 5 * time.Second
)

// ErrDuplicateInstance says that another live process uses the same transactional ids.
var ErrDuplicateInstance = errors.New("another live process uses the same instance: give each its own group.instance.id or state.dir")

// run opens sessions, one after the other, until ctx ends or an error is fatal.
func (w *worker) run(ctx context.Context) error {
	backoff, fences := firstBackoff, 0
	for {
		began := w.p.now()
		err := w.serve(ctx)
		switch {
		case err == nil, errors.Is(err, ErrNotDrained):
			return err
		case ctx.Err() != nil: // it was told to end before its session was open
			return w.undrained(ctx, err)
		}
		if w.proven {
			backoff = firstBackoff
		}
		if lasted := w.p.now().Sub(began); lasted >= fenceWindow {
			fences = 0 // a commit alone proves nothing: two live processes commit in turn
		} else if session.IsFence(err) {
			if fences++; fences >= 2 && !mutant.On("fences-without-end") {
				return fmt.Errorf("%w (%w)", ErrDuplicateInstance, err)
			}
		}
		if err := w.rebuilding(err); err != nil {
			return err
		}
		pause(ctx, backoff+rand.N(backoff))
		backoff = min(2*backoff, maxBackoff)
	}
}

// rebuilding reports a rebuild, and returns an error when a new session cannot help.
func (w *worker) rebuilding(err error) error {
	fate := session.FateOf(err)
	if fate == session.Fatal {
		return err
	}
	w.p.cfg.Logger.Warn("the session is rebuilt", "app", w.p.pipe.app, "worker", w.index, "reason", err)
	w.p.board.worker(w.index, func(s *WorkerStatus) { s.Rebuilds++; s.LastError = err.Error() })
	if f := w.p.cfg.Events.Rebuilt; f != nil {
		f(w.index, err)
	}
	if fate == session.Unreachable {
		return w.p.missingTopics()
	}
	if n := w.rebuilt(w.p.now()); n > maxRebuilds && !mutant.On("rebuilds-without-end") {
		return fmt.Errorf("%d sessions failed within %s without one commit: %w", n, rebuildWindow, err)
	}
	return nil
}

// rebuilt counts the worker's rebuilds of the window since its last commit.
func (w *worker) rebuilt(now time.Time) int {
	w.rebuilds = slices.DeleteFunc(w.rebuilds, func(t time.Time) bool { return now.Sub(t) >= rebuildWindow })
	w.rebuilds = append(w.rebuilds, now)
	return len(w.rebuilds)
}
