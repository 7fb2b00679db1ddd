package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const firstPort = 22000

// options are what a comparison is of.
type options struct {
	events, accounts, rounds int
	duplicates               float64
	profiles                 string // folder for CPU profiles and logs, which then stay; "" = a temporary one
}

func main() {
	var o options
	flag.IntVar(&o.events, "events", 2_000_000, "of the input")
	flag.IntVar(&o.accounts, "accounts", 100_000, "that the events are for")
	flag.Float64Var(&o.duplicates, "duplicates", 0.05, "share of events that were delivered before")
	flag.IntVar(&o.rounds, "rounds", 3, "runs of each program, in turns")
	flag.StringVar(&o.profiles, "profiles", "", "folder to keep CPU profiles and logs in; profiling costs a little")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	r, err := o.onKafka(ctx, os.Stdout)
	stop()
	if err == nil {
		fmt.Println()
		err = r.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if r.valid() != "" {
		os.Exit(1)
	}
}

// onKafka starts a broker for the comparison.
func (o options) onKafka(ctx context.Context, w io.Writer) (_ *report, err error) {
	kafka, err := kafkatest.Open(ctx, kafkaOptions)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()
	return o.compare(ctx, kafka, w)
}

// kafkaOptions are of one small broker. A run's topics are deleted before the next run.
var kafkaOptions = kafkatest.Options{FirstPort: firstPort, Config: map[string]string{"file.delete.delay.ms": "1000"}}

// compare runs everything and says on w how it goes.
func (o options) compare(ctx context.Context, kafka *kafkatest.Cluster, w io.Writer) (_ *report, err error) {
	dir := o.profiles
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tallystick-bench-"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	b, err := newBench(ctx, kafka, dir)
	if err != nil {
		return nil, err
	}
	defer b.client.Close()
	b.profile = o.profiles != ""
	start := time.Now()
	if b.workload, err = newSource(o.accounts, o.duplicates).feed(ctx, b.seeds, o.events); err != nil {
		return nil, fmt.Errorf("feed the input: %w", err)
	}
	fmt.Fprintf(w, "fed %d events, %d of them unique, over %d accounts in %.1f s\n", o.events, b.workload.unique, len(b.workload.balances), time.Since(start).Seconds())
	return o.rotate(ctx, b, w)
}

// rotate runs every program once a round, so that what else happens on the machine meets all of them.
func (o options) rotate(ctx context.Context, b *bench, w io.Writer) (*report, error) {
	r := &report{events: o.events, programs: programs(), results: map[string][]result{}}
	for round := range o.rounds {
		for i, p := range r.programs {
			x, err := b.run(ctx, p, fmt.Sprintf("run-%d-%d", round+1, i+1))
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", p.name, round+1, err)
			}
			r.results[p.name] = append(r.results[p.name], x)
			fmt.Fprintf(w, "round %d  %-20s %5.2f s  %5.2f CPU s  %5.0f k records/CPU s  broker %.2f CPU s  others %.2f cores\n", round+1, p.name,
				x.wall.Seconds(), x.cpu.Seconds(), float64(o.events)/x.cpu.Seconds()/1000, x.broker.Seconds(), x.others)
		}
	}
	return r, nil
}
