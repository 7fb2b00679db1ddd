package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tallystick/tallystick/internal/connect"
	"github.com/tallystick/tallystick/pipeline"
)

// runOptions are what run takes beside the configuration.
type runOptions struct {
	leave     bool            // leave the group at the end, even with a group.instance.id
	events    pipeline.Events // who else wants to know
	listening func(net.Addr)  // told the address of the admin port; may be nil
}

func newRun(c *cli) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Process events until a signal; then commit, leave and exit",
		Long: "run processes credit-events until SIGTERM or SIGINT. Then it commits the open transaction, closes and exits 0,\n" +
			"in milliseconds while the brokers answer. When they hang, it waits drain.timeout.ms for the commit and as long again for leaving, then\n" +
			"exits 1: give the supervisor's grace period more than the double. A second signal, half a second later or more, ends it at once (exit\n" +
			"130), and the next start decides what was open.",
		Example: "  processor run --bootstrap-servers kafka-1:9092\n  processor run --config processor.yaml",
	}
	configFlags(cmd, allGroups()...)
	cmd.Flags().BoolVar(&o.leave, "leave", false, "leave the group at the end, so that others take over at once, even with a group.instance.id")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := c.config(cmd)
		if err != nil {
			return err
		}
		return c.runProcessor(cmd.Context(), cfg, o)
	}
	return withoutFormat(cmd, "it prints nothing on stdout; /status of admin.listen is JSON")
}

// runProcessor runs the job until ctx ends or it cannot go on. An end that a signal asked for is no error.
func (c *cli) runProcessor(ctx context.Context, cfg Config, o runOptions) error {
	log := slog.New(slog.NewTextHandler(c.stderr, nil))
	engine, err := cfg.engine(o, log)
	if err != nil {
		return err
	}
	job := cfg.job()
	processor, err := pipeline.NewProcessor(engine, job)
	if err != nil {
		return fail(exitUsage, err, "processor config show tells where each value comes from")
	}
	if cfg.AdminListen != "" {
		bound, stop, err := newAdmin(ctx, processor, job.Stages()).listen(cfg.AdminListen)
		if err != nil {
			return err
		}
		defer stop()
		log.Info("admin port", "addr", bound.String(), "paths", strings.Join(adminPaths, " "))
		if o.listening != nil {
			o.listening(bound)
		}
	}
	log.Info("starting", "app", cfg.ApplicationID, "brokers", cfg.BootstrapServers, "version", readVersion().Version)
	if err := startable(ctx, cfg, log); err != nil {
		return err
	}
	started := time.Now()
	context.AfterFunc(ctx, func() {
		log.Info("draining", "app", cfg.ApplicationID, "reason", context.Cause(ctx), "within", cfg.DrainTimeout)
	})
	if err := processor.Run(withoutCause(ctx)); err != nil {
		return explained(ctx, cfg, err)
	}
	log.Info("stopped", "app", cfg.ApplicationID, "took", time.Since(started).Round(time.Millisecond))
	return nil
}

// startable looks at the brokers before the job begins. What waiting cannot cure ends the start at once; a broker that is not
// up yet is left to the engine, which waits for it a while.
func startable(ctx context.Context, cfg Config, log *slog.Logger) error {
	s, err := cfg.connection(nil)
	if err != nil {
		return err
	}
	looking, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	found := s.Look(looking, false)
	if ctx.Err() != nil {
		return nil // told to stop: the engine ends in order
	}
	fault := found.Fault()
	if fault != nil && (found.Via != "" || !fault.Passes()) {
		return faultError(fault)
	}
	if fault == nil {
		for _, stray := range found.Strays() {
			log.Warn("a broker cannot be reached where the cluster says it is", "err", stray, "remedy", stray.Remedy)
		}
	}
	return nil
}

// explained looks again why no broker answered: the client saw a closed connection, this sees the reason.
func explained(ctx context.Context, cfg Config, err error) error {
	if !errors.Is(err, pipeline.ErrUnreachable) {
		return err
	}
	if fault := connect.FaultOf(cfg.reachable(ctx)); fault != nil {
		return faultError(fmt.Errorf("no broker could be used for a while: %w", fault))
	}
	return err
}

// withoutCause ends with ctx, by a plain cancellation: to the engine every end that is asked for is the same.
func withoutCause(ctx context.Context) context.Context {
	plain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, cancel)
	return plain
}

// newAdmin answers for a processor that runs until ctx ends and drains then.
func newAdmin(ctx context.Context, p *pipeline.Processor, stages []*pipeline.Stage) *admin {
	return &admin{
		notReady: func() []string {
			if ctx.Err() != nil {
				return []string{"draining: " + context.Cause(ctx).Error()}
			}
			return notReady(p.Status())
		},
		status: func() any { return p.Status() },
		query:  (&querier{p, stages}).handler(),
	}
}

// notReady lists why a processor cannot work: a worker without a session, a task that restores or that stopped. A process
// without a task is ready: it stands by.
func notReady(s pipeline.Status) []string {
	var reasons []string
	if len(s.Workers) == 0 {
		reasons = append(reasons, "starting: no worker has joined the group yet")
	}
	for _, w := range s.Workers {
		if !w.Joined {
			reasons = append(reasons, withCause(fmt.Sprintf("worker %d has no session", w.Worker), w.LastError))
		}
	}
	for _, in := range s.Grown {
		reasons = append(reasons, in.String())
	}
	for _, t := range s.Tasks {
		if t.State != pipeline.Running {
			cause := t.Error
			if t.Restore != nil {
				cause = t.Restore.String()
			}
			reasons = append(reasons, withCause(fmt.Sprintf("task %s is %s", t.Task, t.State), cause))
		}
	}
	return reasons
}

func withCause(what, cause string) string {
	if cause == "" {
		return what
	}
	return what + ": " + cause
}
