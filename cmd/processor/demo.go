package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/topics"
)

const (
	demoApp   = "demo"
	demoKills = 3 // how often the processor is killed; the events come in one portion more
	demoLimit = 2 * time.Minute
	// demoPatience is how long the checker waits; nothing is open when it begins.
	demoPatience = 10 * time.Second
)

// demoOptions are the flags of demo.
type demoOptions struct {
	events int
	seed   uint64
	keep   bool
}

// demo is one performance: a broker in this process, a processor in a child process, and the checker at the end.
type demo struct {
	demoOptions
	c          *cli
	executable string // this binary, for the child
	dir        string // the child's state and logs
	broker     *devbroker.Broker
	cfg        Config
	client     *kgo.Client
	onlooker   *onlooker
	feeder     *demoFeeder
	child      *childProcess
	runs       int // how often the child was started

	// tamper, when a test sets it, stands between the processor and the checker: it returns the addresses to check.
	tamper func(ctx context.Context, brokers []string) ([]string, error)
}

func newDemo(c *cli) *cobra.Command {
	d := &demo{c: c}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a processor being killed between produce and commit, and every balance survive it",
		Long: "demo needs nothing: it starts a broker in this process, creates the topics, feeds events with duplicates, conflicts,\n" +
			"malformed and refused ones, runs the processor as a child process, kills it with SIGKILL between produce and commit,\n" +
			"restarts it, and lets verify judge the result. Exit 0 when every balance is right to the cent, 3 when one differs.",
	}
	cmd.Flags().IntVar(&d.events, "events", 5000, "how many events to feed")
	cmd.Flags().Uint64Var(&d.seed, "seed", 1, "the same seed gives the same events and the same final balances")
	cmd.Flags().BoolVar(&d.keep, "keep", false, "leave broker and processor running until Ctrl-C, and say how to use them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if d.events < demoKills+1 {
			return usageErrorf("--events: %d is less than %d, one for each kill and one for the end", d.events, demoKills+1)
		}
		executable, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this binary: %w", err)
		}
		d.executable = executable
		return d.run(cmd.Context())
	}
	return withoutFormat(cmd, "it tells a story; processor verify -o json has the numbers")
}

// run performs the demo. What it started has ended when it returns.
func (d *demo) run(ctx context.Context) (err error) {
	ctx, cancel := d.bound(ctx)
	defer cancel()
	if d.dir, err = os.MkdirTemp("", "tallystick-demo-"); err != nil {
		return err
	}
	defer func() { d.tidy(err != nil && ctx.Err() != context.Canceled) }()
	if err := d.open(ctx); err != nil {
		return err
	}
	defer d.broker.Close()
	defer d.client.Close()
	if err := d.perform(ctx); err != nil {
		return cmp.Or(ctx.Err(), err) // at the end of ctx the child goes too, and that is not the cause
	}
	if err := d.judge(ctx); err != nil || !d.keep {
		return err
	}
	return d.stay(ctx)
}

// bound limits a demo that is not kept: it must never hang a script.
func (d *demo) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.keep {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, demoLimit)
}

// tidy ends the child and removes its files; after a failure they stay, and the logs are named.
func (d *demo) tidy(failed bool) {
	if d.child != nil {
		_ = d.child.kill() // it may be gone already
	}
	if failed && d.child != nil {
		fmt.Fprintf(d.c.stderr, "the processor's logs are in %s\n", d.dir)
		return
	}
	_ = os.RemoveAll(d.dir) // a temporary folder that stays harms nobody
}

// open starts the broker and everything that talks to it, and creates the topics.
func (d *demo) open(ctx context.Context) (err error) {
	if d.broker, err = devbroker.Start(devbroker.Options{}); err != nil {
		return err
	}
	if d.cfg, err = d.configure(); err != nil {
		return err
	}
	if d.client, err = d.cfg.newClient(); err != nil {
		return err
	}
	d.onlooker = newOnlooker(d.client, d.cfg.ApplicationID)
	if d.feeder, err = newDemoFeeder(d.client, d.demoOptions); err != nil {
		return err
	}
	d.sayHello()
	steps, err := topics.NewAdmin(d.client).Apply(ctx, d.cfg.job().Topics(), d.cfg.topicRules())
	if err != nil {
		return err
	}
	d.sayTopics(steps)
	return nil
}

// environ is how the child is configured: like any processor, by PROCESSOR_* variables.
func (d *demo) environ() []string {
	return []string{
		envName("application.id") + "=" + demoApp,
		envName("bootstrap.servers") + "=" + d.broker.String(),
		envName("state.dir") + "=" + filepath.Join(d.dir, "state"),
		envName("admin.listen") + "=127.0.0.1:0",
	}
}

// configure reads the child's configuration in this process, so that both agree.
func (d *demo) configure() (Config, error) {
	c := &cli{environ: d.environ()}
	return c.config(&cobra.Command{})
}

// perform feeds the events in portions. The processor has committed one portion when it is killed in the middle of the
// next; what was lost with it is processed again, once, by its successor.
func (d *demo) perform(ctx context.Context) error {
	if err := d.feeder.feed(ctx, d.portion(0)); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return err
	}
	d.sayStarted()
	for kill := 1; kill <= demoKills; kill++ {
		if err := d.killAt(ctx, kill); err != nil {
			return err
		}
		if err := d.comeBack(ctx); err != nil {
			return err
		}
	}
	if d.keep {
		return nil
	}
	return d.child.stop()
}

// portion is how many events come in one go; the last portion takes the rest.
func (d *demo) portion(i int) int {
	size := d.events / (demoKills + 1)
	if i == demoKills {
		return d.events - i*size
	}
	return size
}

// start starts the child and waits until it has committed everything there is.
func (d *demo) start(ctx context.Context) (err error) {
	d.runs++
	environ := append(d.environ(), "HOME="+d.dir)
	if d.child, err = startChild(ctx, d.executable, d.dir, environ); err != nil {
		return err
	}
	if _, err := d.child.await(reportCommitted); err != nil {
		return err
	}
	return d.onlooker.awaitCommitted(ctx, topology.Credits.Name)
}

// killAt kills the child between produce and commit, and looks at what the broker has then.
func (d *demo) killAt(ctx context.Context, kill int) error {
	if err := d.child.hold(); err != nil {
		return err
	}
	if err := d.feeder.feed(ctx, d.portion(kill)); err != nil {
		return err
	}
	at, err := d.child.await(reportProduced)
	if err != nil {
		return err
	}
	if err := d.child.kill(); err != nil {
		return err
	}
	open, err := d.onlooker.openTransactions(ctx)
	if err != nil {
		return err
	}
	hidden, err := d.onlooker.hidden(ctx, d.outputs()...)
	if err != nil {
		return err
	}
	d.sayKilled(kill, at, open, hidden)
	return nil
}

func (d *demo) comeBack(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	open, err := d.onlooker.openTransactions(ctx)
	if err != nil {
		return err
	}
	d.sayBack(len(open))
	return nil
}

// outputs are the topics that the processor writes.
func (d *demo) outputs() []string {
	p := d.cfg.job()
	names := []string{topics.DeadLetters(p.App())}
	for _, s := range p.Stages() {
		names = append(append(names, s.StateTopic()), s.Outputs()...)
	}
	return names
}

// judge lets the checker, which shares no code with the processor, read the topics.
func (d *demo) judge(ctx context.Context) error {
	cfg := d.cfg
	if d.tamper != nil {
		brokers, err := d.tamper(ctx, cfg.BootstrapServers)
		if err != nil {
			return err
		}
		cfg.BootstrapServers = brokers
	}
	report, err := audit(ctx, cfg, auditOptions{patience: demoPatience})
	if err != nil {
		return err
	}
	digest, err := finalBalances(ctx, cfg)
	if err != nil {
		return err
	}
	d.sayResult(report, digest)
	if !report.OK() || !d.feeder.agrees(report) {
		return silent(exitCheckFailed)
	}
	return nil
}

// stay keeps everything up until a signal comes.
func (d *demo) stay(ctx context.Context) error {
	d.sayHowToUse()
	<-ctx.Done()
	return d.child.stop()
}
