package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/evidence"
	"github.com/tallystick/tallystick/internal/simulation/worlds"
)

// Exit codes, as those of the command processor.
const (
	exitFailed = 1
	exitUsage  = 2
	exitCheck  = 3
)

// options are the command line.
type options struct {
	life      life
	schedules uint64
	twice     bool
	dir       string

	corpus, renew bool
	pick          string // a file of worlds
}

var errUsage = errors.New("usage")

// errCheck is what a replay ends with that found something.
var errCheck = errors.New("check failed")

func main() {
	err := run(context.Background(), os.Args[1:]) // an interrupt ends it at once: a guest cannot be asked
	if err != nil && !errors.Is(err, errUsage) {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		os.Exit(exitUsage)
	case errors.Is(err, errCheck):
		os.Exit(exitCheck)
	default:
		os.Exit(exitFailed)
	}
}

func parse(args []string) (o options, err error) {
	set := flag.NewFlagSet("replay", flag.ContinueOnError)
	set.Uint64Var(&o.life.Seed, "seed", 1, "seed of the world")
	set.StringVar(&o.life.Job, "job", "", "ledger, TwoInputs or TwoHops")
	set.Uint64Var(&o.life.Schedule, "schedule", 1, "which order of goroutines, maps and selects")
	set.Uint64Var(&o.schedules, "schedules", 1, "so many schedules, from -schedule, until one fails")
	set.BoolVar(&o.twice, "twice", false, "live it twice and compare every byte")
	set.BoolVar(&o.corpus, "corpus", false, "live "+corpusFile+": all must be clean, and still interesting")
	set.BoolVar(&o.renew, "renew", false, "find other lives for the entries of "+corpusFile+" that have lost their point")
	set.StringVar(&o.pick, "pick", "", "make "+corpusFile+" from a file of worlds that make simulate wrote (RESULTS=)")
	set.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "tallystick-replay"), "where logs and histories are kept")
	if err := set.Parse(args); err != nil {
		return o, errUsage
	}
	switch o.life.Job {
	case "ledger":
		o.life.Job = ""
	case "", "TwoInputs", "TwoHops":
	default:
		return o, fmt.Errorf("no job %q: ledger, TwoInputs or TwoHops", o.life.Job)
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	m, err := open(ctx)
	if err != nil {
		return err
	}
	defer m.close(ctx)
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	switch {
	case o.corpus:
		return checkCorpus(ctx, m, o)
	case o.renew:
		return renewCorpus(ctx, m, o)
	case o.pick != "":
		return pickCorpus(ctx, m, o)
	}
	for range o.schedules {
		if err := replay(ctx, m, o); err != nil {
			return err
		}
		o.life.Schedule++
	}
	return nil
}

// corpusFile is in the folder of this module.
const corpusFile = "corpus.jsonl"

func say(line string) { fmt.Println(line) }

func checkCorpus(ctx context.Context, m *machine, o options) error {
	entries, err := readCorpus(corpusFile)
	if err != nil {
		return err
	}
	problems, err := m.check(ctx, entries, o.dir, func(o outcome) { say(o.life.String() + ": " + o.verdict()) })
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%w:\n%s", errCheck, strings.Join(problems, "\n"))
	}
	return err
}

func renewCorpus(ctx context.Context, m *machine, o options) error {
	entries, err := readCorpus(corpusFile)
	if err != nil {
		return err
	}
	entries, err = m.renew(ctx, entries, o.dir, say)
	return errors.Join(err, writeCorpus(corpusFile, entries))
}

func pickCorpus(ctx context.Context, m *machine, o options) error {
	all, err := evidence.Read[worlds.World](o.pick)
	if err != nil {
		return err
	}
	entries, open, err := m.pick(ctx, all, o.dir, say)
	if err != nil {
		return err
	}
	for _, point := range open {
		say("no replay reaches " + point)
	}
	return writeCorpus(corpusFile, entries)
}

// open makes a machine of the tree around the working directory.
func open(ctx context.Context) (*machine, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tallystick-replay-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	module, err := buildSimulation(ctx, root, dir)
	if err != nil {
		return nil, err
	}
	cache, err := openCache()
	if err != nil {
		return nil, err
	}
	return newMachine(ctx, module, cache)
}

// replay lives a life, and once more when it is asked to.
func replay(ctx context.Context, m *machine, o options) error {
	began := time.Now()
	first, err := m.live(ctx, o.life, o.dir)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s, digest %s, %.1f s: %s\n", o.life, first.verdict(), first.digest, time.Since(began).Seconds(), first.dir)
	if o.twice {
		if err := again(ctx, m, o, first); err != nil {
			return err
		}
	}
	if !first.passed {
		return fmt.Errorf("%w: %s:\n%s\n%s", errCheck, o.life, first.problems(), exactly(o.life))
	}
	return nil
}

func again(ctx context.Context, m *machine, o options, first outcome) error {
	second, err := m.live(ctx, o.life, o.dir)
	if err != nil {
		return err
	}
	differs, err := difference(first.dir, second.dir)
	if err != nil {
		return err
	}
	if differs != "" {
		return fmt.Errorf("%w: %s is not the same twice: %s", errCheck, o.life, differs)
	}
	fmt.Printf("%s: the same twice, byte by byte\n", o.life)
	return os.RemoveAll(second.dir)
}
