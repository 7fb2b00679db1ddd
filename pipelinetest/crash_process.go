package pipelinetest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/faultnet"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/topics"
)

// process is one incarnation of a process that runs the pipeline: a pipeline built anew, a network and a state directory of its
// own.
type process struct {
	r        *run
	instance string
	net      *faultnet.Network
	stop     context.CancelFunc
	done     chan struct{}
	err      error // what Run returned; read it when done is closed
	spent    atomic.Bool
	sent     map[kmsg.Key]int // requests by kind; the network's lock guards it while the process runs
	log      tail
}

// start runs the pipeline under an instance's name. at, which may be nil, is where it is struck.
func (r *run) start(ctx context.Context, instance string, at *point) *process {
	p := &process{r: r, instance: instance, done: make(chan struct{}), sent: map[kmsg.Key]int{}, net: faultnet.New(new(net.Dialer).DialContext)}
	p.net.Patience = time.Second
	p.net.Watch(func(q faultnet.Request) faultnet.Order {
		p.sent[q.Key]++
		if at == nil || q.Key != at.key || p.sent[q.Key] != at.n {
			return faultnet.Order{}
		}
		return faultnet.Order{Deed: at.mode.deed, Delay: lateBy, Code: at.mode.code, Then: func() { p.struck(at.mode.fate) }}
	})
	r.started++
	dir := filepath.Join(r.dir, fmt.Sprintf("%s-%d", instance, r.started))
	ctx, p.stop = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		if p.err = pipeline.Run(ctx, p.config(dir), r.k.build()); p.err != nil && ctx.Err() == nil && !p.spent.Load() {
			r.fail(fmt.Errorf("process %s ended: %w\n%s", instance, p.err, p.log.String()))
		}
	}()
	r.live = append(r.live, p)
	return p
}

// lateBy is how long a late request sits in its socket: the next incarnation has fenced its sender by then.
const lateBy = 200 * time.Millisecond

// struck is called by the network, in the middle of a request.
func (p *process) struck(f fate) {
	switch f {
	case lives:
	case frozen:
		p.net.Freeze()
	default:
		p.kill()
	}
	p.r.strikes <- p
}

// kill ends a process as kill -9 would: nothing of it reaches a broker any more but what sits in a socket.
func (p *process) kill() {
	p.spent.Store(true)
	p.net.Down()
	p.net.Thaw()
	p.stop()
}

func (p *process) config(dir string) pipeline.Config {
	session := sessionTimeout
	if f := p.r.plan.fate(); f == taken || f == frozen {
		session = takenOverTimeout
	}
	commit := 100 * time.Millisecond
	if p.r.plan.quick {
		commit = 5 * time.Millisecond
	}
	return pipeline.Config{
		Brokers: p.r.broker.Addrs(), Client: []kgo.Opt{kgo.Dialer(p.net.Dial), kgo.DisableClientMetrics()},
		InstanceID: p.instance, StateDir: dir, Workers: p.r.plan.workers, CommitInterval: commit,
		SessionTimeout: session, HeartbeatInterval: session / 5, RebalanceTimeout: sessionTimeout, DrainTimeout: drainTimeout, LeaveOnStop: !p.r.plan.restart,
		TransactionTimeout: transactionTimeout, Clock: p.r.k.clock,
		ExpectedRate: 1, TopicRules: rules(p.r.k.cfg.Partitions), Logger: slog.New(slog.NewTextHandler(&p.log, nil)),
		Events: pipeline.Events{
			Committed: func(pipeline.Transaction) { p.r.progress() },
			Aborted:   func(pipeline.Transaction, error) { p.r.progress() },
			Rebuilt:   func(int, error) { p.r.progress() },
			Restored:  func(pipeline.Restore) { p.r.progress() },
			Stopped: func(id pipeline.TaskID, err error) {
				if !p.spent.Load() {
					p.r.fail(fmt.Errorf("task %s stopped: %w", id, err))
				}
			},
		},
	}
}

// Time-outs are short where a test waits for them, and long enough for a busy machine where it does not.
const (
	sessionTimeout   = 4 * time.Second
	takenOverTimeout = time.Second
	// The embedded broker does not let go of a transaction that timed out: none does within a run.
	transactionTimeout = 2 * time.Minute
	drainTimeout       = 300 * time.Millisecond // of a process that was killed: it tries in vain
)

// rules accept topics of any age: a test sends what it likes.
func rules(partitions int32) topics.Rules {
	return topics.Rules{Partitions: partitions, RedeliveryHorizon: time.Millisecond}
}

// tail keeps the last lines of a log.
type tail struct {
	mu    sync.Mutex
	lines []string
}

const tailLines = 12

// Write implements io.Writer for a handler that writes one line at a time.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, strings.TrimSpace(string(b)))
	t.lines = t.lines[max(0, len(t.lines)-tailLines):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return "it logged nothing"
	}
	return "its last log lines:\n  " + strings.Join(t.lines, "\n  ")
}
