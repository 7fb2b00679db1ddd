package inputs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

const (
	pricesTopic = "prices"
	ordersTopic = "orders"
	pricedTopic = "priced"
	app         = "pairs"
)

// pairs keeps the last price of each key and sends each order on with it. Both handlers move a counter of the key, and each
// record leaves one output: count, kind, number, price.
func pairs() *pipeline.Pipeline {
	p := pipeline.New(app)
	s := p.Stage("price")
	last := state.NewTable(s, "last", record.String, record.Int64)
	count := state.NewTable(s, "count", record.String, record.Int64)
	out := pipeline.NewOutput(s, topics.New(pricedTopic, record.String, record.String))
	tell := func(c *pipeline.Ctx, key, kind string, number, price int64) error {
		n, _ := count.Get(c, key)
		count.Put(c, key, n+1)
		out.Send(c, key, fmt.Sprintf("%d %s %d %d", n+1, kind, number, price))
		return nil
	}
	pipeline.Handle(s, topics.New(pricesTopic, record.String, record.Int64), func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		last.Put(c, r.Key, r.Value)
		return tell(c, r.Key, "price", r.Value, r.Value)
	})
	pipeline.Handle(s, topics.New(ordersTopic, record.String, record.Int64), func(c *pipeline.Ctx, r pipeline.Record[string, int64]) error {
		price, _ := last.Get(c, r.Key)
		return tell(c, r.Key, "order", r.Value, price)
	})
	return p
}

// The child's settings.
const (
	envSeeds = "PAIRS_SEEDS"
	envName  = "PAIRS_NAME" // group.instance.id
	envDir   = "PAIRS_DIR"  // state.dir
	envIdle  = "PAIRS_IDLE" // max.task.idle.ms
)

func TestMain(m *testing.M) {
	if seeds := os.Getenv(envSeeds); seeds != "" {
		os.Exit(work(seeds))
	}
	os.Exit(m.Run())
}

// work runs the job until it is told to stop.
func work(seeds string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	idle, err := time.ParseDuration(os.Getenv(envIdle))
	if err == nil {
		err = pipeline.Run(ctx, pipeline.Config{
			Brokers: strings.Split(seeds, ","), InstanceID: os.Getenv(envName), StateDir: os.Getenv(envDir), LeaveOnStop: true, Workers: 2,
			MaxTaskIdle: idle, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		}, pairs())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// crew is the processes of a test.
type crew struct {
	t     *testing.T
	seeds []string
	dir   string
	idle  time.Duration
}

// start runs the process of a name; it ends with the test.
func (c crew) start(name string) *kafkatest.Process {
	c.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envSeeds+"="+strings.Join(c.seeds, ","), envName+"="+name, envDir+"="+filepath.Join(c.dir, name), envIdle+"="+c.idle.String())
	cmd.Stdout, cmd.Stderr = log, log
	p, err := kafkatest.Launch(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(p.Kill)
	return p
}

// apply makes the job's topics.
func (c crew) apply(client *kgo.Client, partitions int32) {
	c.t.Helper()
	if _, err := topics.NewAdmin(client).Apply(c.t.Context(), pairs().Topics(), topics.Rules{Partitions: partitions}); err != nil {
		c.t.Fatal(err)
	}
}
