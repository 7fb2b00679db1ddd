package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const (
	runLimit   = 5 * time.Minute
	drainLimit = 30 * time.Second
)

// bench is one broker with its input, and the programs' binaries.
type bench struct {
	seeds    []string
	broker   int // pid
	client   *kgo.Client
	workload *workload
	dir      string
	profile  bool // write CPU profiles to dir
}

// newBench compiles the programs and makes the input topic. The caller closes the client.
func newBench(ctx context.Context, kafka *kafkatest.Cluster, dir string) (*bench, error) {
	if err := build(ctx, dir); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Seeds()...))
	if err != nil {
		return nil, err
	}
	made, err := kadm.NewClient(client).CreateTopics(ctx, partitions, 1, nil, input)
	if err = errors.Join(err, made.Error()); err != nil {
		client.Close()
		return nil, err
	}
	return &bench{seeds: kafka.Seeds(), broker: kafka.Brokers[0].Pid(), client: client, dir: dir}, nil
}

// result is one run that passed its check.
type result struct {
	wall        time.Duration // from the start of the process to the commit of the last event
	cpu, broker time.Duration // user and system; the process's for all of its life
	others      float64       // cores that everything else on the machine used meanwhile
	peak        int64         // bytes of memory
	load        string        // average before the run
}

// build compiles what is compared into a folder.
func build(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "./loop", "./job")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s: run it in the folder bench", err, out)
	}
	return nil
}

// run starts the program on new topics, waits until it has committed the whole input, ends it and checks what it wrote.
func (b *bench) run(ctx context.Context, p program, app string) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	made, err := p.prepare(ctx, b.client, app)
	if err != nil {
		return r, fmt.Errorf("topics: %w", err)
	}
	if r, err = b.measure(ctx, p, app); err != nil {
		return r, err
	}
	if err := b.workload.check(ctx, b.seeds, p.updates); err != nil {
		return r, fmt.Errorf("a wrong run: %w", err)
	}
	return r, remove(ctx, kadm.NewClient(b.client), made)
}

func (b *bench) measure(ctx context.Context, p program, app string) (r result, err error) {
	r.load = loadAverage()
	before, err := readUsage(b.broker)
	if err != nil {
		return r, err
	}
	child, start := b.command(p, app), time.Now()
	log, err := os.Create(filepath.Join(b.dir, app+".log"))
	if err != nil {
		return r, err
	}
	defer log.Close()
	child.Stdout, child.Stderr = log, log
	process, err := kafkatest.Launch(child)
	if err != nil {
		return r, err
	}
	defer process.Kill()
	if err := b.await(ctx, app, process.Done()); err != nil {
		return r, fmt.Errorf("%w; its log: %s", err, tail(log.Name()))
	}
	r.wall = time.Since(start)
	after, err := readUsage(b.broker)
	if err != nil {
		return r, err
	}
	if r.peak, err = peakMemory(process.Pid()); err != nil {
		return r, err
	}
	if err := drain(ctx, process); err != nil {
		return r, fmt.Errorf("%w; its log: %s", err, tail(log.Name()))
	}
	rusage, ok := child.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return r, errors.New("this system does not tell what a child has used")
	}
	r.cpu, r.broker = cpuTime(rusage), after.broker-before.broker
	all := after.machine - before.machine - r.cpu - r.broker - (after.own - before.own)
	r.others = max(0, all.Seconds()/r.wall.Seconds())
	return r, nil
}

func (b *bench) command(p program, app string) *exec.Cmd {
	args := append([]string{"-brokers", strings.Join(b.seeds, ","), "-app", app}, p.args...)
	if p.binary == "job" {
		args = append(args, "-state-dir", filepath.Join(b.dir, "state-"+app))
	}
	if b.profile {
		args = append(args, "-cpuprofile", filepath.Join(b.dir, app+".pprof"))
	}
	return exec.Command(filepath.Join(b.dir, p.binary), args...)
}

// await returns when the group has committed all of the input.
func (b *bench) await(ctx context.Context, group string, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	adm := kadm.NewClient(b.client)
	err := kafkatest.Poll(ctx, func(ctx context.Context) error {
		select {
		case <-ended:
			cancel(errors.New("it ended by itself"))
		default:
		}
		committed, err := adm.FetchOffsets(ctx, group)
		if err != nil {
			return err
		}
		for p, end := range b.workload.ends {
			if at, _ := committed.Lookup(input, p); at.At != end {
				return fmt.Errorf("%s has committed %d of %s/%d, which ends at %d", group, at.At, input, p, end)
			}
		}
		return nil
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func drain(ctx context.Context, p *kafkatest.Process) error {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := p.Terminate(ctx); err != nil {
		return err
	}
	if code := p.ExitCode(); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}
