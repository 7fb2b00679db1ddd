package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

var (
	clicks = topics.New("clicks", record.String, record.Int64)
	totals = topics.New("totals", record.String, record.Int64)
)

// totalPerKey is the smallest stateful pipeline: a running total per key.
func totalPerKey(app string) *pipeline.Pipeline {
	p := pipeline.New(app)
	s := p.Stage("sum")
	sums := state.NewTable(s, "sums", record.String, record.Int64)
	out := pipeline.NewOutput(s, totals)
	pipeline.Handle(s, clicks, func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		sum, _ := sums.Get(c, r.Key)
		sums.Put(c, r.Key, sum+r.Value)
		out.Send(c, r.Key, sum+r.Value)
		return nil
	})
	return p
}

func TestRunTotalsEveryRecordOnce(t *testing.T) {
	p := totalPerKey("totals-app")
	w := newWorld(t, p)
	const rounds, keys = 100, 50
	for range rounds {
		w.click(keys)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	commits, wait := w.run(ctx, p, pipeline.Config{StateDir: t.TempDir(), Workers: 2})
	w.waitInputs(commits, rounds*keys, 30*time.Second)
	stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	w.checkTotals(rounds * keys)
}

func TestRunWaitsForABrokerThatStartsLate(t *testing.T) {
	port := freePort(t)
	p := totalPerKey("late")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	refused := make(chan struct{})
	var once sync.Once
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			once.Do(func() { close(refused) })
		}
		return conn, err
	}
	done := make(chan error, 1)
	go func() {
		done <- pipeline.Run(ctx, pipeline.Config{Brokers: []string{fmt.Sprintf("127.0.0.1:%d", port)}, StateDir: t.TempDir(), Client: []kgo.Opt{kgo.Dialer(dial)}}, p)
	}()
	<-refused
	b, err := devbroker.Start(devbroker.Options{Ports: []int{port}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := <-done; !errors.Is(err, pipeline.ErrMissingTopics) {
		t.Errorf("got %v, want the answer of the broker that came: no topics", err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
