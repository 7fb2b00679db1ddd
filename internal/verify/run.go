package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Run audits a job and blocks until it is done. It only reads: no group is joined, no offset committed. The job may run.
//
// The report tells what was found. An error says that something could not be judged: an UndecidedError for each partition whose
// topics do not hold enough (test with errors.As), or what kept verify from reading. Violations found up to then are in the
// report all the same, and they are certain.
//
// With Baseline or WriteBaseline it goes on from an earlier audit or lets a later one go on; a BaselineError says why not.
func Run(ctx context.Context, cfg Config) (Report, error) {
	began := time.Now()
	j, err := openJob(ctx, &cfg)
	if err != nil {
		return Report{}, err
	}
	defer j.k.close()
	var report Report
	if cfg.Baseline == "" && cfg.WriteBaseline == "" {
		report, err = auditAll(ctx, j.rules, j.k, j.all, cfg.Workers)
		err = errors.Join(err, j.liveness(ctx, &report))
	} else {
		report, err = j.auditFromBaseline(ctx)
	}
	cfg.Progress(j.total, j.total)
	report.App, report.Partitions, report.Took = cfg.App, int(j.input), time.Since(began)
	return report, err
}

// auditedJob is what is audited, once its topics have been looked at.
type auditedJob struct {
	counts
	cfg     Config
	k       *kafka
	rules   rules
	subject subject
	total   int64 // offsets of the input
}

// openJob connects and looks at the topics. The caller closes k.
func openJob(ctx context.Context, cfg *Config) (j *auditedJob, err error) {
	*cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	j = &auditedJob{cfg: *cfg}
	if j.k, err = newKafka(*cfg); err != nil {
		return nil, err
	}
	if j.counts, err = j.k.survey(ctx, cfg.Topics); err == nil {
		j.total, err = j.k.total(ctx, cfg.Topics.Input, j.input)
	}
	if err == nil {
		j.subject, err = j.k.subject(ctx, *cfg, j.all)
	}
	if err != nil {
		j.k.close()
		return nil, err
	}
	place, _ := placement(cfg.Partitioner)
	j.rules = rules{topics: cfg.Topics, place: place, partitions: j.input, window: cfg.Window, autoCreate: cfg.AutoCreate, now: cfg.Now, start: cfg.Start}
	j.rules.raw, j.rules.patience = cfg.Raw, cfg.Patience
	j.rules.progress = progress(cfg.Progress, j.total)
	j.rules.memory = memory{bytes: cfg.Memory, tables: cfg.Workers, create: scratchIn(cfg.SpillDir)}
	return j, nil
}

// subject is what a baseline of this job names.
func (k *kafka) subject(ctx context.Context, cfg Config, partitions int32) (subject, error) {
	s := subject{App: cfg.App, Topics: cfg.Topics, IDs: map[string]string{}, Partitions: partitions, WindowMS: cfg.Window.Milliseconds(), AutoCreate: cfg.AutoCreate, Partitioner: cfg.Partitioner}
	t := cfg.Topics
	for _, topic := range []string{t.Input, t.Updates, t.Skipped, t.DeadLetters, t.State} {
		d, err := k.detail(ctx, topic, false)
		if err != nil {
			return s, err
		}
		s.IDs[topic] = fmt.Sprintf("%x", d.ID)
	}
	return s, nil
}

// begin starts an audit that goes on in rounds, from a baseline if there is one.
func (j *auditedJob) begin() (x *rounds, from *BaselineInfo, err error) {
	x = newRounds(j.rules, j.k, j.all, j.cfg.Workers)
	if j.cfg.Baseline == "" {
		return x, nil, nil
	}
	info, err := x.readBaseline(j.cfg.Baseline, j.subject)
	if err != nil {
		x.close()
		return nil, nil, err
	}
	return x, &info, nil
}

// liveness judges whether the job keeps up, if that is asked.
func (j *auditedJob) liveness(ctx context.Context, r *Report) error {
	if j.cfg.Liveness == 0 {
		return nil
	}
	r.Armed = Verdicts(j.cfg.Raw, true)
	err := liveness(ctx, j.k, j.cfg.Topics.Input, j.input, j.cfg.Liveness, r)
	r.sort()
	return err
}

// auditFromBaseline is one round, between two baselines.
func (j *auditedJob) auditFromBaseline(ctx context.Context) (Report, error) {
	x, from, err := j.begin()
	if err != nil {
		report := newReport(false)
		return report, errors.Join(err, j.liveness(ctx, &report))
	}
	defer x.close()
	report, _, err := x.round(ctx)
	report.Baseline = from
	err = errors.Join(err, j.liveness(ctx, &report))
	if err == nil && report.OK() {
		err = j.save(x)
	}
	return report, err
}

// save writes the baseline, if one is wanted. The caller has seen that everything holds.
func (j *auditedJob) save(x *rounds) error {
	if j.cfg.WriteBaseline == "" {
		return nil
	}
	return x.writeBaseline(j.cfg.WriteBaseline, j.subject, time.Now())
}

// counts of partitions: of the input, and of the topic that has most.
type counts struct{ input, all int32 }

// survey checks that the topics exist and can be joined partition by partition.
func (k *kafka) survey(ctx context.Context, t Topics) (n counts, err error) {
	count := map[string]int32{}
	for _, topic := range []string{t.Input, t.Updates, t.Skipped, t.DeadLetters, t.State} {
		d, err := k.detail(ctx, topic, true)
		if err != nil {
			return n, err
		}
		count[topic] = int32(len(d.Partitions))
		n.all = max(n.all, count[topic])
	}
	n.input = count[t.Input]
	for _, topic := range []string{t.Updates, t.Skipped} {
		if count[topic] != n.input {
			return n, fmt.Errorf("%s has %d partitions and %s %d: verify joins partition by partition, so they must be equal", topic, count[topic], t.Input, n.input)
		}
	}
	for _, topic := range []string{t.DeadLetters, t.State} {
		if count[topic] < n.input {
			return n, fmt.Errorf("%s has %d partitions and %s %d: it needs one for each task", topic, count[topic], t.Input, n.input)
		}
	}
	return n, nil
}

// total counts the offsets of the input.
func (k *kafka) total(ctx context.Context, topic string, partitions int32) (total int64, err error) {
	for p := range partitions {
		start, err := k.offset(ctx, topic, p, atStart)
		if err != nil {
			return 0, err
		}
		end, err := k.offset(ctx, topic, p, atEnd)
		if err != nil {
			return 0, err
		}
		total += end - start
	}
	return total, nil
}

// progressStep is how many inputs lie between two reports of progress.
const progressStep = 10_000

// progress turns the partitions' positions into one sum.
func progress(report func(done, total int64), total int64) func(int32, int64) {
	var mu sync.Mutex
	done := int64(0)
	return func(_ int32, n int64) {
		mu.Lock()
		defer mu.Unlock()
		done += n
		report(min(done, total), total)
	}
}

// auditAll judges all partitions, some at once, and then what only all of them together show. A partition that cannot be
// decided does not hinder the others; brokers that cannot be read do.
func auditAll(ctx context.Context, r rules, h history, partitions int32, workers int) (Report, error) {
	r.posted = r.memory.sorter()
	defer r.posted.close()
	t := &tallies{report: newReport(r.raw), books: newBooks(r.posted, map[currency]bool{})}
	var wg sync.WaitGroup
	next := make(chan int32)
	for range workers {
		wg.Go(func() {
			for p := range next {
				if t.broken() {
					continue
				}
				a := newAudit(r, h, p)
				t.add(a, errors.Join(a.run(ctx), a.handOn(1)))
				a.inbox.ids.close()
			}
		})
	}
	for p := range partitions {
		next <- p
	}
	close(next)
	wg.Wait()
	return t.conclude(ctx, r, h)
}

// tallies collects what the audits of partitions found.
type tallies struct {
	mu     sync.Mutex
	report Report
	books  books
	fates  fates
	errs   []error
	fatal  bool
}

func (t *tallies) broken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fatal
}

func (t *tallies) add(a *audit, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.merge(&a.report)
	t.books.add(&a.report)
	t.fates.merge(a.report.fates)
	if err != nil {
		_, undecided := errors.AsType[*UndecidedError](err)
		t.errs = append(t.errs, err)
		t.fatal = t.fatal || !undecided
	}
}

// conclude adds the verdicts over all partitions. The sums of a history that was judged in part prove nothing.
func (t *tallies) conclude(ctx context.Context, r rules, h history) (Report, error) {
	if ctx.Err() != nil {
		return t.report, ctx.Err()
	}
	if !t.fatal {
		if err := t.books.doubles(ctx, h, r.topics.Input, &t.report); err != nil {
			t.errs = append(t.errs, err)
		}
		if err := t.fates.judge(ctx, h, r.patience, &t.report); err != nil {
			t.errs = append(t.errs, err)
		}
	}
	t.books.reconcile(&t.report, len(t.errs) == 0)
	t.report.sort()
	return t.report, errors.Join(t.errs...)
}

func newReport(raw bool) Report {
	r := Report{
		Rejected: map[string]int64{}, DeadLetters: map[string]int64{}, Sums: map[string]Sum{}, Violations: []Violation{},
		Counts: map[Verdict]int64{}, Armed: Verdicts(raw, false),
	}
	if raw {
		r.Raw = &Raw{}
	}
	return r
}
