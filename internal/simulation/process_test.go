//go:build synctests

package simulation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/faultnet"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/topics"
)

// process is one incarnation of a process of the job.
type process struct {
	w         *world
	slot      int
	name      string // of this incarnation
	named     bool   // has a group.instance.id; else the state directory names it
	workers   int
	pipeline  func() *pipeline.Pipeline
	net       *faultnet.Network
	dir       string // state.dir
	stop      context.CancelFunc
	done      chan struct{}
	killed    atomic.Bool
	processor atomic.Pointer[pipeline.Processor]
	ended     atomic.Pointer[error]             // what Run returned; nil while it runs
	hold      atomic.Pointer[func(step string)] // may block or kill at a step of the commit
}

// prepare makes a process for a slot. What an earlier incarnation left in its state directory is copied from dir: the kernel
// would have freed its lock.
func (w *world) prepare(slot, workers int, dir string) *process {
	w.incarnations++
	p := &process{
		w: w, slot: slot, name: fmt.Sprintf("p%d.%d", slot, w.incarnations), named: slot%2 == 0, workers: workers,
		net: faultnet.New(w.stack.DialContext), done: make(chan struct{}),
	}
	p.pipeline = func() *pipeline.Pipeline { return w.job.pipeline(w) }
	p.net.Latency, p.net.Lag = w.latency, &faultnet.MarkerLag{Topic: w.job.state, ID: w.stateID}
	p.dir = filepath.Join(w.dir, p.name)
	if dir != "" {
		if err := copyDir(dir, p.dir); err != nil {
			w.fail("state directory: %v", err)
		}
	}
	w.all = append(w.all, p)
	return p
}

// start runs a prepared process.
func (p *process) start() {
	ctx, cancel := context.WithCancel(p.w.ctx)
	p.stop = cancel
	p.w.journal.logf("schedule.txt", "start %s, %d workers, named %v", p.name, p.workers, p.named)
	go p.run(ctx)
}

func copyDir(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
}

// run is the process and its supervisor, which starts it again when no broker answered at its start.
func (p *process) run(ctx context.Context) {
	defer close(p.done)
	for {
		err := p.runOnce(ctx)
		p.w.journal.logf("schedule.txt", "end %s: %v", p.name, err)
		p.ended.Store(&err)
		switch {
		case err == nil || p.killed.Load() || p.w.expect != nil && errors.Is(err, p.w.expect):
			return
		case errors.Is(err, pipeline.ErrNotDrained): // an honest end: the next start, or the next owner, decides
			p.w.tally.undrained.Add(1)
			return
		case !errors.Is(err, pipeline.ErrUnreachable):
			p.w.fail("process %s ended: %v", p.name, err)
			return
		}
		p.w.tally.restarts.Add(1)
		time.Sleep(time.Second)
	}
}

func (p *process) runOnce(ctx context.Context) error {
	processor, err := pipeline.NewProcessor(p.config(), p.pipeline())
	if err != nil {
		return err
	}
	p.processor.Store(processor)
	return processor.Run(ctx)
}

// err returns what the process ended with; nil also while it runs.
func (p *process) err() error {
	if e := p.ended.Load(); e != nil {
		return *e
	}
	return nil
}

func (p *process) config() pipeline.Config {
	log := p.w.journal.file(p.name + ".log")
	client := []kgo.Opt{kgo.Dialer(p.net.Dial), kgo.DisableClientMetrics()}
	if p.w.clientLogs {
		client = append(client, kgo.WithLogger(kgo.BasicLogger(log, kgo.LogLevelInfo, nil)))
	}
	cfg := pipeline.Config{
		Brokers: p.w.addrs, Client: client, StateDir: p.dir, Workers: p.workers, ExpectedRate: 1, MaxTaskIdle: p.w.idle, RepartitionPurgeInterval: purgeEvery, TopicRules: topics.Rules{RedeliveryHorizon: time.Second},
		Events: p.events(), Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	if p.named {
		cfg.InstanceID = fmt.Sprintf("p%d", p.slot)
	}
	return cfg
}

func (p *process) at(step string) {
	if h := p.hold.Load(); h != nil {
		(*h)(step)
	}
}

func (p *process) events() pipeline.Events {
	t, log := &p.w.tally, p.w.journal.file(p.name+".log")
	say := func(format string, args ...any) { fmt.Fprintf(log, format, args...) }
	return pipeline.Events{
		Produced: func(x pipeline.Transaction) { p.at("produced") },
		Committed: func(x pipeline.Transaction) {
			t.commits.Add(1)
			p.at("committed")
		},
		Aborted: func(x pipeline.Transaction, err error) {
			t.abort(err)
			p.at("aborted")
		},
		Rebuilt:  func(i int, cause error) { t.rebuild(cause); say("worker %d rebuilt: %v", i, cause) },
		Assigned: func(id pipeline.TaskID) { t.assigned.Add(1) },
		Restored: func(r pipeline.Restore) {
			t.restore(r)
			say("restored %+v", r)
		},
		Lost:   func(id pipeline.TaskID) { t.lost.Add(1); say("lost %s", id) },
		Fenced: func(id string) { t.fenced.Add(1); say("fenced %s", id) },
		Stopped: func(id pipeline.TaskID, err error) {
			t.stopped.Add(1)
			if !p.killed.Load() && !p.w.damaged {
				p.w.fail("process %s: task %s stopped: %v", p.name, id, err)
			}
		},
		Violated: func(invariant string, id pipeline.TaskID, err error) {
			t.violated.Add(1)
			p.w.found(invariant)
			say("violated: %v", err)
		},
	}
}

// instance returns the name under which its workers take part.
func (p *process) instance() string {
	if p.named {
		return fmt.Sprintf("p%d", p.slot)
	}
	name, err := os.ReadFile(filepath.Join(p.dir, app, "0", "name"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

// kill ends a process as kill -9 would: nothing of it reaches a broker any more, but for what sits in a socket already. It
// does not wait.
func (p *process) kill() {
	p.killed.Store(true)
	p.net.Down()
	p.net.Thaw()
	p.stop()
}

// leave stops a process in order, and waits for it.
func (p *process) leave() {
	p.stop()
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		p.w.fail("process %s does not end within two minutes of its stop", p.name)
		p.kill()
		<-p.done
	}
}
