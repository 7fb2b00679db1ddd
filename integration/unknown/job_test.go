package unknown

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
)

const (
	app    = "ledger"
	envJob = "UNKNOWN_JOB" // the settings of a child, as JSON
	// envMutant is internal/mutant's Variable, which exists only in a binary with mutants.
	envMutant = "TALLYSTICK_MUTANT"
)

// settings are those of one processor: a child of the test.
type settings struct {
	Seeds    []string
	Name     string // group.instance.id
	StateDir string
	Mutant   string // of the engine, switched on; none if empty
	Leaves   bool   // leaves the group when it is told to end
	Session  time.Duration
	Timeout  time.Duration // of transactions, and of the end of one
	Interval time.Duration // of commits
}

// What a child does when it is told so, at the moment when all records of a transaction are written and its commit has not begun.
const (
	orderDie    = "die"    // SIGKILL
	orderFreeze = "freeze" // SIGSTOP: a zombie with an open transaction, once the group has given its tasks away
)

// happening is what a child tells of itself, one JSON object a line.
type happening struct {
	At      time.Time
	What    string // "assigned", "restored", "committed", "aborted", "rebuilt", "fenced", "stopped", "violated", "lost", or an order that is carried out
	Task    string
	Next    int64 // restored: the first offset to process
	Inputs  int   // committed: records processed
	ByProof bool
	Took    time.Duration
	Cause   string
	Code    int // exit: which one; the parent adds it
}

func TestMain(m *testing.M) {
	if text := os.Getenv(envJob); text != "" {
		if err := runJob(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runJob is the child: the ledger, until SIGTERM.
func runJob(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	r := &reporter{out: json.NewEncoder(os.Stdout)}
	go r.listen(os.Stdin)
	return pipeline.Run(ctx, pipeline.Config{
		Brokers: s.Seeds, InstanceID: s.Name, StateDir: s.StateDir, Workers: 1, LeaveOnStop: s.Leaves,
		SessionTimeout: s.Session, HeartbeatInterval: s.Session / 6, RebalanceTimeout: s.Timeout - time.Second, TransactionTimeout: s.Timeout,
		CommitInterval: s.Interval, DrainTimeout: s.Timeout, Events: r.events(), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, job())
}

func job() *pipeline.Pipeline { return topology.Ledger(app, topology.Config{AutoCreate: true}) }

// reporter writes happenings, from any goroutine, and carries orders out.
type reporter struct {
	mu    sync.Mutex
	out   *json.Encoder
	order atomic.Pointer[string]
}

// tell writes one line at once: the process may be killed after it.
func (r *reporter) tell(h happening) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.At = time.Now()
	_ = r.out.Encode(h) // the parent has gone: so will this process
}

// listen takes an order a line, until the parent closes its end.
func (r *reporter) listen(in io.Reader) {
	for s := bufio.NewScanner(in); s.Scan(); {
		order := s.Text()
		r.order.Store(&order)
	}
}

// obey carries the last order out, once.
func (r *reporter) obey() {
	order := r.order.Swap(nil)
	if order == nil || *order == "" {
		return
	}
	r.tell(happening{What: *order})
	switch *order {
	case orderDie:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case orderFreeze:
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

func (r *reporter) events() pipeline.Events {
	return pipeline.Events{
		Produced:  func(pipeline.Transaction) { r.obey() },
		Committed: func(x pipeline.Transaction) { r.tell(happening{What: "committed", Inputs: x.Inputs}) },
		Aborted:   func(_ pipeline.Transaction, err error) { r.tell(happening{What: "aborted", Cause: fmt.Sprint(err)}) },
		Rebuilt:   func(_ int, cause error) { r.tell(happening{What: "rebuilt", Cause: cause.Error()}) },
		Assigned:  func(id pipeline.TaskID) { r.tell(happening{What: "assigned", Task: id.String()}) },
		Lost:      func(id pipeline.TaskID) { r.tell(happening{What: "lost", Task: id.String()}) },
		Restored: func(x pipeline.Restore) {
			r.tell(happening{What: "restored", Task: x.Task.String(), Next: x.Next[input], ByProof: x.ByProof, Took: x.Duration})
		},
		Stopped: func(id pipeline.TaskID, err error) {
			r.tell(happening{What: "stopped", Task: id.String(), Cause: err.Error()})
		},
		Fenced: func(id string) { r.tell(happening{What: "fenced", Cause: id}) },
		Violated: func(inv string, id pipeline.TaskID, err error) {
			r.tell(happening{What: "violated", Task: id.String(), Cause: inv + ": " + err.Error()})
		},
	}
}
