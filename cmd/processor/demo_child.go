package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/tallystick/tallystick/pipeline"
)

// The demo's processor is this binary again, as a child process: run, and a report of what happens, line by line on stdout.
// It alone has a point at which it can be killed: told so on stdin, it stops for ever between the produce and the commit of
// its next transaction, says so, and waits for its SIGKILL.
const (
	childCommand = "demo-processor"
	orderHold    = "hold" // on stdin: stop at the next transaction that is produced and not committed
)

// childReport is one line of the child's stdout.
type childReport struct {
	Event   string `json:"event"`
	Records int64  `json:"records,omitempty"` // restored: of the state topic; else: records of the transaction
	Inputs  int    `json:"inputs,omitempty"`
	Admin   string `json:"admin,omitempty"` // listening: the address of the admin port
}

const (
	reportListening = "listening"
	reportRestored  = "restored"
	reportHolding   = "holding" // the order to hold has arrived
	reportProduced  = "produced"
	reportCommitted = "committed" // the first commit of this process
)

func newDemoChild(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: childCommand, Hidden: true, Short: "The processor that demo starts and kills"}
	configFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := c.config(cmd)
		if err != nil {
			return err
		}
		signal.Ignore(os.Interrupt) // Ctrl-C reaches the whole process group; the parent decides what it means here
		child := &demoChild{out: json.NewEncoder(c.stdout)}
		go child.obey(c.stdin)
		return c.runProcessor(cmd.Context(), cfg, runOptions{
			events:    child.events(),
			listening: func(a net.Addr) { child.report(childReport{Event: reportListening, Admin: a.String()}) },
		})
	}
	return cmd
}

// demoChild is the child's side of the conversation. Its callbacks run on several goroutines.
type demoChild struct {
	mu        sync.Mutex
	out       *json.Encoder // guarded by mu
	hold      atomic.Bool
	committed atomic.Bool
}

func (d *demoChild) events() pipeline.Events {
	return pipeline.Events{
		Restored:  func(r pipeline.Restore) { d.report(childReport{Event: reportRestored, Records: r.Records}) },
		Produced:  d.produced,
		Committed: d.firstCommit,
	}
}

// produced is the kill point: everything is written, nothing is committed. When it holds, it never returns.
func (d *demoChild) produced(t pipeline.Transaction) {
	if t.Outputs == 0 || !d.hold.Load() {
		return
	}
	d.report(childReport{Event: reportProduced, Records: int64(t.Records), Inputs: t.Inputs})
	select {}
}

func (d *demoChild) firstCommit(t pipeline.Transaction) {
	if t.Outputs > 0 && !d.committed.Swap(true) {
		d.report(childReport{Event: reportCommitted, Records: int64(t.Records), Inputs: t.Inputs})
	}
}

func (d *demoChild) report(r childReport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.out.Encode(r) // a parent that is gone ends this process through stdin
}

// obey follows the orders on stdin until it ends: then the parent is gone, and a demo must leave no process behind.
func (d *demoChild) obey(stdin io.Reader) {
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		if lines.Text() == orderHold {
			d.hold.Store(true)
			d.report(childReport{Event: reportHolding})
		}
	}
	os.Exit(int(exitFailed))
}
