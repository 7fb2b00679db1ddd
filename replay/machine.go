package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// life names a run: nothing else decides what happens in it.
type life struct {
	Job      string // as in worlds.World
	Seed     uint64 // of the world: workload and faults
	Schedule uint64 // of the Go runtime: order of goroutines, maps and selects, names, ids
}

func (l life) String() string {
	return fmt.Sprintf("%s seed %d schedule %d", l.jobName(), l.Seed, l.Schedule)
}

// jobName is what people call the job.
func (l life) jobName() string {
	if l.Job == "" {
		return "ledger"
	}
	return l.Job
}

// test is the name of the test that lives it.
func (l life) test() string {
	if l.Job == "" {
		return "TestSeeds"
	}
	return "TestSeedsOf" + l.Job
}

// machine runs the compiled simulation. Its methods are safe for concurrent use.
type machine struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
}

// newMachine compiles a module to machine code, which takes half a minute of one core; the result is kept in cache for the next time.
func newMachine(ctx context.Context, module []byte, cache string) (*machine, error) {
	compiled, err := wazero.NewCompilationCacheWithDir(cache)
	if err != nil {
		return nil, fmt.Errorf("cache of compiled modules: %w: make %s writable", err, cache)
	}
	ctx = experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0))
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(compiled))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	code, err := r.CompileModule(ctx, module)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compile the module: %w", err), r.Close(ctx))
	}
	return &machine{r, code}, nil
}

func (m *machine) close(ctx context.Context) { _ = m.runtime.Close(ctx) }

// clock is the guest's: it advances by a microsecond whenever somebody looks at it, and by as much as somebody sleeps.
type clock struct{ now int64 }

const epoch = 1_700_000_000 // seconds

func (c *clock) nano() int64 { c.now += 1000; return c.now }

func (c *clock) wall() (int64, int32) {
	t := time.Unix(epoch, c.nano())
	return t.Unix(), int32(t.Nanosecond())
}

func (c *clock) sleep(ns int64) { c.now += ns }

// run lives a life. Its files, and what it printed as output.txt, are left in dir, which is all that the guest sees of the host.
func (m *machine) run(ctx context.Context, l life, dir string) (passed bool, err error) {
	out, err := os.Create(filepath.Join(dir, printed))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	instance, err := m.runtime.InstantiateModule(ctx, m.code, guest(l, dir, out))
	if instance != nil {
		defer func() { _ = instance.Close(ctx) }()
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode() == 0, nil
	}
	return err == nil, err
}

const printed = "output.txt"

// guest is all that a guest can see.
func guest(l life, dir string, out io.Writer) wazero.ModuleConfig {
	c := &clock{}
	return wazero.NewModuleConfig().WithName("").WithStdout(out).WithStderr(out).
		WithArgs("simulation", "-test.run", "^"+l.test()+"$", "-test.v", "-test.timeout", "0").
		WithEnv("SEED0", strconv.FormatUint(l.Seed, 10)).WithEnv("SEEDS", "1").WithEnv("KEEP", "1").WithEnv("TRACE", "1").WithEnv("TMPDIR", "/tmp").
		WithFSConfig(wazero.NewFSConfig().WithDirMount(dir, "/tmp")).
		WithRandSource(rand.New(rand.NewSource(int64(l.Schedule)))).
		WithNanotime(c.nano, sys.ClockResolution(1)).WithWalltime(c.wall, sys.ClockResolution(1)).WithNanosleep(c.sleep)
}
