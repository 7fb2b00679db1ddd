package verify

import (
	"context"
	"errors"
	"time"
)

// Round is one look of Follow at the job.
type Round struct {
	Report    Report      // of all rounds so far
	New       []Violation // found in this one
	Undecided error       // what could not be judged this time, and why; the next round tries again
	Number    int         // from 1: the first one reads all that there is
	Took      time.Duration
}

// Follow audits a job that runs, round after round with a pause in between, until ctx ends or tell returns false. Memory and
// disk hold the accounts and the ids that still count, whatever the length of the history; an id that is applied in two
// partitions is found while the first is within the dedupe window.
//
// It returns the last round's report, with an error as Run does. A violation stops the partition that it is in, not the others.
// When ctx ends, a later round than the first is brought to its end. WriteBaseline is written at the end when everything holds.
func Follow(ctx context.Context, cfg Config, every time.Duration, tell func(Round) (goOn bool)) (Report, error) {
	began := time.Now()
	j, err := openJob(ctx, &cfg)
	if err != nil {
		return Report{}, err
	}
	defer j.k.close()
	if cfg.Raw {
		return Report{}, errors.New("config: Raw reads whole logs, and does not go with Follow: run it on its own")
	}
	x, from, err := j.begin()
	if err != nil {
		return Report{}, err
	}
	defer x.close()
	report, err := x.follow(ctx, every, func(r Round) bool {
		r.Report.App, r.Report.Partitions, r.Report.Baseline = cfg.App, int(j.input), from
		r.Report.Took = time.Since(began)
		return tell(r)
	})
	report.App, report.Partitions, report.Baseline, report.Took = cfg.App, int(j.input), from, time.Since(began)
	if err == nil && report.OK() {
		err = j.save(x)
	}
	return report, err
}

func (x *rounds) follow(ctx context.Context, every time.Duration, tell func(Round) bool) (Report, error) {
	for _, a := range x.audits {
		a.goesOn = true
	}
	work := ctx // the first round may take long, and nothing is known before its end
	for {
		began := time.Now()
		report, fresh, err := x.round(work)
		if err != nil && !onlyUndecided(err) {
			return report, err
		}
		goOn := tell(Round{report, fresh, err, x.n, time.Since(began)})
		if !goOn || !pause(ctx, every) {
			return report, err
		}
		work = context.WithoutCancel(ctx)
	}
}

// onlyUndecided reports whether all that err joins are partitions that another round may decide.
func onlyUndecided(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !onlyUndecided(e) {
				return false
			}
		}
		return true
	}
	u, undecided := errors.AsType[*UndecidedError](err)
	return undecided && !u.midway
}
