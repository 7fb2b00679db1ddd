package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tallystick/tallystick/internal/verify"
)

// auditOptions are what verify takes beside the configuration.
type auditOptions struct {
	patience time.Duration
	start    map[int32]int64
	raw      bool
	alive    time.Duration // bound of liveness; 0: not asked
	memory   byteSize
	spillDir string
	baseline string // file to go on from
	write    string // file to write
	follow   followOptions
	progress func(done, total int64)
}

func newVerify(c *cli) *cobra.Command {
	o := auditOptions{memory: 512 << 20}
	var start []string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Judge from the topics alone whether every event has had exactly one outcome and every balance is right",
		Long: "verify reads the job's topics, and only reads: it may run beside the job. It decides for every input what had to become of\n" +
			"it and compares; it shares no code with the processor.\n\n" +
			"Exit codes: 0 everything holds; 2 wrong flags or configuration; 3 something is violated (the records that prove it are printed);\n" +
			"4 a topic is missing, or application.id is wrong; 5 the topics do not hold enough to decide, or no broker answers; 1 anything else.",
		Example: "  processor verify --bootstrap-servers kafka-1:9092\n  processor verify -o json | jq .violations",
	}
	configFlags(cmd, groupConnection)
	keyFlags(cmd, "application.id", "dedupe.window", "accounts.auto_create")
	cmd.Flags().DurationVar(&o.patience, "patience", 40*time.Second, "how long to wait for an open transaction or a silent broker")
	cmd.Flags().StringSliceVar(&start, "start", nil, "partition=offset of the first event to judge, for a job that began with auto.offset.reset=latest")
	cmd.Flags().DurationVar(&o.alive, "liveness", 0, "ask whether a running job processes what stands in its input within this time; exit 3 when it does not")
	cmd.Flags().BoolVar(&o.raw, "raw", false, "read the logs a second time with control records and aborted transactions: aborted-read, torn, flicker")
	cmd.Flags().Var(&o.memory, "memory", "what event ids may take of it before they are sorted on disk; the process needs about 250MiB more, and 400 bytes an account. With --raw 384MiB unless it is given")
	cmd.Flags().StringVar(&o.spillDir, "spill-dir", "", "folder for that; default the system's for temporary files. Nothing is left in it")
	cmd.Flags().StringVar(&o.baseline, "baseline", "", "file of an earlier verify to go on from, where retention took the inputs that it judged")
	cmd.Flags().StringVar(&o.write, "write-baseline", "", "file for a later verify to go on from; written when everything holds, whole or not at all")
	o.follow.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		cfg, err := c.config(cmd)
		if err != nil {
			return err
		}
		if o.start, err = startOffsets(start); err != nil {
			return err
		}
		if err := o.check(); err != nil {
			return err
		}
		if !cmd.Flags().Changed("memory") {
			o.memory = 0 // the checker's default depends on --raw
		}
		defer c.leanGC()()
		if o.follow.on {
			return c.follow(cmd.Context(), cfg, o)
		}
		return c.verify(cmd.Context(), cfg, o)
	}
	return cmd
}

// leanGC trades a little time for memory until the function that it returns is called: most of what verify holds are tables
// without pointers, which cost the collector next to nothing, and which it would otherwise let the heap double over.
func (c *cli) leanGC() (restore func()) {
	if c.getenv("GOGC") != "" {
		return func() {}
	}
	const percent = 40
	old := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(old) }
}

// check refuses what does not go together.
func (o *auditOptions) check() error {
	switch {
	case o.memory < 1<<20:
		return usageErrorf("--memory: %s is too little: give at least 1MiB", o.memory.String())
	case o.raw && (o.baseline != "" || o.write != "" || o.follow.on):
		return usageErrorf("--raw reads whole logs and does not go with --follow, --baseline or --write-baseline: run it on its own")
	case o.alive < 0 || o.alive > 0 && o.follow.on:
		return usageErrorf("--liveness %v: give a positive time, and no --follow, which has its own rounds", o.alive)
	case o.follow.on && o.follow.interval < time.Second:
		return usageErrorf("--interval: %v is too short: give at least 1s", o.follow.interval)
	}
	return nil
}

// startOffsets reads partition=offset pairs.
func startOffsets(pairs []string) (map[int32]int64, error) {
	starts := map[int32]int64{}
	for _, pair := range pairs {
		p, o, _ := strings.Cut(pair, "=")
		partition, err := strconv.ParseInt(p, 10, 32)
		offset, err2 := strconv.ParseInt(o, 10, 64)
		if err != nil || err2 != nil || partition < 0 || offset < 0 {
			return nil, usageErrorf("--start: %q is not partition=offset, for example 0=1200", pair)
		}
		starts[int32(partition)] = offset
	}
	return starts, nil
}

// verify prints the report; the violations in it decide the exit code before what could not be judged does.
func (c *cli) verify(ctx context.Context, cfg Config, o auditOptions) error {
	p := newProgress(c, "verify", 0)
	o.progress = p.set
	report, err := audit(ctx, cfg, o)
	p.done()
	return c.conclude(cfg.ApplicationID, o, report, err)
}

// conclude prints the report; err is what kept verify from judging all of it.
func (c *cli) conclude(app string, o auditOptions, report verify.Report, err error) error {
	looked := errors.As(err, new(*verify.UndecidedError)) || errors.As(err, new(*verify.BaselineError)) || errors.As(err, new(*verify.SpillError))
	if err != nil && report.Inputs == 0 && report.OK() && !looked {
		return undecided(wrongJob(app, err))
	}
	unjudged := err
	if report.Inputs > 0 && onlyBaseline(err) {
		unjudged = nil // it was not written: that is no part of the history
	}
	if err := printOne(c, newVerdict(report, unjudged), reportText(report, unjudged)); err != nil {
		return err
	}
	if !report.OK() {
		hint := "keep the topics as they are: the records above are the evidence"
		if o.write != "" {
			hint += "; no baseline was written"
		}
		return fail(exitCheckFailed, errors.Join(errViolated, err), hint)
	}
	return undecided(err)
}

// onlyBaseline reports whether all that err joins is about baseline files.
func onlyBaseline(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !onlyBaseline(e) })
	}
	return errors.As(err, new(*verify.BaselineError))
}

// wrongJob asks about the likeliest cause of a topic that is not there: its name is made of the application id.
func wrongJob(app string, err error) error {
	if code, _ := diagnose(err); code != exitNotFound {
		return err
	}
	return fail(exitNotFound, err, fmt.Sprintf("is application.id %q right? it is part of the topics' names; processor topics plan shows what is missing", app))
}

// verdict is the report as JSON: a script reads its result, and not the absence of violations, which proves nothing where
// nothing could be judged.
type verdict struct {
	verify.Report
	Result    string `json:"result"`              // ok, violated, undecided
	Undecided string `json:"undecided,omitempty"` // what could not be judged, and why
}

func newVerdict(r verify.Report, err error) verdict {
	v := verdict{Report: r, Result: "ok"}
	if err != nil {
		v.Result, v.Undecided = "undecided", err.Error()
	}
	if !r.OK() {
		v.Result = "violated"
	}
	return v
}

var errViolated = errors.New("the history is violated")

// undecided gives exit 5 to what kept verify from judging, and leaves other errors to their own diagnosis.
func undecided(err error) error {
	if errors.As(err, new(*verify.UndecidedError)) {
		return fail(exitUnavailable, err, "nothing was found wrong there, and nothing proven")
	}
	if errors.As(err, new(*verify.BaselineError)) {
		return fail(exitUnavailable, err, "without --baseline, verify judges the whole history, as far as the topics still have it")
	}
	if errors.As(err, new(*verify.SpillError)) {
		return fail(exitUnavailable, err, "--spill-dir names another folder, --memory allows more")
	}
	return err
}

// audit runs the checker with the connection and the rules of the configuration.
func audit(ctx context.Context, cfg Config, o auditOptions) (verify.Report, error) {
	checker, err := o.checker(ctx, cfg)
	if err != nil {
		return verify.Report{}, err
	}
	return verify.Run(ctx, checker)
}

// checker is the configuration of the checker, once a broker has answered.
func (o *auditOptions) checker(ctx context.Context, cfg Config) (verify.Config, error) {
	if err := cfg.reachable(ctx); err != nil {
		return verify.Config{}, err
	}
	opts, err := cfg.clientOptions(nil)
	if err != nil {
		return verify.Config{}, err
	}
	return verify.Config{
		Opts:          opts,
		App:           cfg.ApplicationID,
		Window:        cfg.DedupeWindow,
		AutoCreate:    cfg.AutoCreate,
		Partitioner:   cfg.Partitioner,
		Patience:      o.patience,
		Start:         o.start,
		Raw:           o.raw,
		Liveness:      o.alive,
		Memory:        int64(o.memory),
		SpillDir:      o.spillDir,
		Baseline:      o.baseline,
		WriteBaseline: o.write,
		Progress:      o.progress,
	}, nil
}

// reportText is the report for people: counts, sums, and each violation with its evidence. err is what kept
// verify from judging all of it.
func reportText(r verify.Report, err error) string {
	rows := [][]string{
		{"job", r.App},
		{"inputs judged", fmt.Sprintf("%s in %s, %s not processed yet", thousands(r.Inputs), plural(r.Partitions, "partition"), thousands(r.NotYetProcessed))},
		{"applied", thousands(r.Applied)},
		{"refused", countsText(r.Rejected)},
		{"duplicates", thousands(r.Duplicates)},
		{"dead letters", countsText(r.DeadLetters)},
		{"accounts", thousands(r.Accounts)},
	}
	if r.AppliedAgain > 0 {
		rows = append(rows, []string{"applied again", thousands(r.AppliedAgain) + " whose dedupe.window had passed"})
	}
	if r.MendedLetters > 0 {
		rows = append(rows, []string{"mended letters", thousands(r.MendedLetters) + ": wrong by today's rules, redriven since and settled"})
	}
	if r.Baseline != nil {
		rows = append(rows, []string{"of these", fmt.Sprintf("%s by the baseline of %s, not judged again", thousands(r.Baseline.Inputs), r.Baseline.Written.Format(time.RFC3339))})
	}
	for _, currency := range slices.Sorted(maps.Keys(r.Sums)) {
		rows = append(rows, []string{currency, sumText(r.Sums[currency])})
	}
	for _, o := range r.OpenTransactions {
		rows = append(rows, []string{"still open", fmt.Sprintf("%s/%d from offset %d to %d: not judged", o.Topic, o.Partition, o.Stable, o.End)})
	}
	if r.Alive != nil {
		rows = append(rows, []string{"liveness", aliveText(r)})
	}
	if r.Raw != nil {
		rows = append(rows, []string{"raw", fmt.Sprintf("%s records, %s of control; transactions by partition: %s committed, %s aborted, %s open",
			thousands(r.Raw.Records), thousands(r.Raw.Controls), thousands(r.Raw.Committed), thousands(r.Raw.Aborted), thousands(r.Raw.Open))})
	}
	rows = append(rows, []string{"read", fmt.Sprintf("%s records in %s", thousands(r.Records), milliseconds(r.Took))}, []string{"result", resultText(r, err)})
	text := aligned(rows)
	for _, v := range r.Violations {
		text += v.String() + "\n"
	}
	return text
}

// aliveText says how the job kept up with its input.
func aliveText(r verify.Report) string {
	switch {
	case r.Alive.Members == 0:
		return "not judged: the group has no members, so nobody claims to run"
	case r.Counts[verify.Liveness] > 0:
		return fmt.Sprintf("%s, and inputs wait for longer than %v", plural(r.Alive.Members, "member"), r.Alive.Bound)
	}
	return fmt.Sprintf("%s, all that stood in the input was processed in %s of %v", plural(r.Alive.Members, "member"), milliseconds(r.Alive.Took), r.Alive.Bound)
}

func resultText(r verify.Report, err error) string {
	if r.OK() && err != nil {
		return "UNDECIDED: nothing violated in what could be judged; the error says what could not"
	}
	if r.OK() {
		return "OK: every event has exactly one outcome, sums, state and offsets agree"
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(r.Counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", v, r.Counts[v]))
	}
	return "VIOLATED: " + strings.Join(parts, ", ")
}

func sumText(s verify.Sum) string {
	return fmt.Sprintf("credits %s − debits %s = balances %s", s.Credits, s.Debits, s.Balances)
}

// countsText is a total and its parts, the largest first.
func countsText(counts map[string]int64) string {
	if len(counts) == 0 {
		return "0"
	}
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	})
	total, parts := int64(0), make([]string, len(reasons))
	for i, r := range reasons {
		total += counts[r]
		parts[i] = fmt.Sprintf("%s %d", r, counts[r])
	}
	return thousands(total) + ": " + strings.Join(parts, ", ")
}
