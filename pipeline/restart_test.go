package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// cable is the network of one process; cutting it is what kill -9 looks like from the broker: no farewell of any kind.
type cable struct {
	mu    sync.Mutex
	conns []net.Conn
	cut   bool
}

var errCut = errors.New("cable is cut")

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errCut}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) sever() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for _, conn := range c.conns {
		conn.Close()
	}
}

// world is a broker with topics and a client.
type world struct {
	t      *testing.T
	broker *devbroker.Broker
	client *kgo.Client
}

// newWorld is a world with the topics of a pipeline.
func newWorld(t *testing.T, p *pipeline.Pipeline) *world {
	t.Helper()
	w := bareWorld(t)
	w.apply(p)
	return w
}

// bareWorld is a world without topics.
func bareWorld(t *testing.T) *world {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &world{t, b, client}
}

func (w *world) apply(p *pipeline.Pipeline) {
	w.t.Helper()
	if _, err := topics.NewAdmin(w.client).Apply(w.t.Context(), p.Topics(), topics.Rules{}); err != nil {
		w.t.Fatal(err)
	}
}

// click feeds one click for each of n keys.
func (w *world) click(n int) {
	w.t.Helper()
	v, _ := record.Int64.Append(nil, 1)
	for i := range n {
		w.client.Produce(w.t.Context(), &kgo.Record{Topic: "clicks", Key: fmt.Appendf(nil, "k%d", i), Value: v}, nil)
	}
	if err := w.client.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// run starts a process and returns the commits it reports and a function that waits for its end.
func (w *world) run(ctx context.Context, p *pipeline.Pipeline, cfg pipeline.Config) (<-chan pipeline.Transaction, func() error) {
	commits := make(chan pipeline.Transaction, 1<<16)
	cfg.Brokers = w.broker.Addrs()
	committed := cfg.Events.Committed
	cfg.Events.Committed = func(x pipeline.Transaction) {
		if committed != nil {
			committed(x)
		}
		commits <- x
	}
	done := make(chan error, 1)
	go func() { done <- pipeline.Run(ctx, cfg, p) }()
	return commits, func() error { return <-done }
}

// waitInputs waits until commits cover n inputs, and returns the tasks that took part.
func (w *world) waitInputs(commits <-chan pipeline.Transaction, n int, within time.Duration) map[pipeline.TaskID]bool {
	w.t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tasks := map[pipeline.TaskID]bool{}
	for n > 0 {
		select {
		case x := <-commits:
			n -= x.Inputs
			for _, id := range x.Tasks {
				if x.Inputs > 0 {
					tasks[id] = true
				}
			}
		case <-deadline.C:
			w.t.Fatalf("%d inputs are not committed after %s", n, within)
		}
	}
	return tasks
}

// settle waits until the group is stable with a number of members. (The embedded broker miscounts who has joined when a
// member leaves in the middle of a rebalance, and then waits for the rebalance timeout.)
func (w *world) settle(group string, members int) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		groups, err := kadm.NewClient(w.client).DescribeGroups(w.t.Context(), group)
		if g := groups[group]; err == nil && g.State == "Stable" && len(g.Members) == members {
			return
		}
		select {
		case <-deadline:
			w.t.Fatalf("group %q is not stable with %d members: %+v, %v", group, members, groups[group], err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// checkTotals reads n committed totals and checks that each key's grow by one.
func (w *world) checkTotals(n int) {
	w.t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.broker.Addrs()...), kgo.ConsumeTopics("totals"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	last := map[string]int64{}
	for got := 0; got < n; {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("read %d of %d totals", got, n)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got++
			v, _ := record.Int64.Decode(r.Value)
			if v != last[string(r.Key)]+1 {
				w.t.Errorf("%s: %d follows %d", r.Key, v, last[string(r.Key)])
			}
			last[string(r.Key)] = v
		})
	}
}

func TestRestartWithFewerWorkersCommitsOnAllPartitions(t *testing.T) {
	p := totalPerKey("fewer")
	w := newWorld(t, p)
	const keys = 40
	w.click(keys)
	dir := t.TempDir()
	var net cable
	ctx, stop := context.WithCancel(t.Context())
	commits, wait := w.run(ctx, p, pipeline.Config{StateDir: dir, Workers: 4, DrainTimeout: 300 * time.Millisecond, Client: []kgo.Opt{kgo.Dialer(net.dial)}})
	if tasks := w.waitInputs(commits, keys, 20*time.Second); len(tasks) != 4 {
		t.Fatalf("4 workers committed on %d tasks", len(tasks))
	}
	w.settle("fewer", 4)
	net.sever()
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}

	w.click(keys)
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	commits, wait = w.run(ctx, p, pipeline.Config{StateDir: dir, Workers: 1})
	const session = 10 * time.Second
	if tasks := w.waitInputs(commits, keys, session/2); len(tasks) != 4 {
		t.Errorf("1 worker committed on %d tasks, want 4", len(tasks))
	}
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	w.checkTotals(2 * keys)
}

func TestSecondProcessTakesItsShareAndGivesItBack(t *testing.T) {
	p := totalPerKey("share")
	w := newWorld(t, p)
	const keys = 40
	first, stopFirst := context.WithCancel(t.Context())
	defer stopFirst()
	commits, waitFirst := w.run(first, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1})
	w.click(keys)
	w.waitInputs(commits, keys, 20*time.Second)

	restored := make(chan pipeline.Restore, 16)
	second, stopSecond := context.WithCancel(t.Context())
	defer stopSecond()
	commits2, waitSecond := w.run(second, p, pipeline.Config{StateDir: t.TempDir(), Workers: 1, Events: pipeline.Events{Restored: func(r pipeline.Restore) { restored <- r }}})
	for range 2 {
		select {
		case r := <-restored:
			if r.Records == 0 {
				t.Errorf("%s was restored from nothing", r.Task)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the second process got no share")
		}
	}
	w.click(keys)
	both := make(chan pipeline.Transaction, 1<<16)
	go forward(both, commits)
	go forward(both, commits2)
	w.waitInputs(both, keys, 20*time.Second)
	stopSecond()
	if err := waitSecond(); err != nil {
		t.Fatal(err)
	}
	w.click(keys)
	w.waitInputs(both, keys, 20*time.Second)
	stopFirst()
	if err := waitFirst(); err != nil {
		t.Fatal(err)
	}
	w.checkTotals(3 * keys)
}

func forward(to chan<- pipeline.Transaction, from <-chan pipeline.Transaction) {
	for x := range from {
		to <- x
	}
}
