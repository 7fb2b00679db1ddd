package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tallystick/tallystick/internal/verify"
)

// followOptions are those of verify --follow.
type followOptions struct {
	on       bool
	interval time.Duration
	failFast bool
	listen   string
}

func (f *followOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "follow", false, "audit a job that runs, round after round, until a signal: a line each, and metrics")
	cmd.Flags().DurationVar(&f.interval, "interval", 10*time.Second, "pause between two rounds of --follow")
	cmd.Flags().BoolVar(&f.failFast, "fail-fast", false, "with --follow: end at the first violation")
	cmd.Flags().StringVar(&f.listen, "metrics-listen", "127.0.0.1:8091", "address for /metrics, /livez and /readyz of --follow; port 0 takes any free one, off none")
}

// follow audits until a signal, then prints the last report. It exits as verify does.
func (c *cli) follow(ctx context.Context, cfg Config, o auditOptions) error {
	m := newFollowMetrics()
	if o.follow.listen != "off" {
		bound, stop, err := serve(o.follow.listen, m.handler())
		if err != nil {
			return fail(exitFailed, fmt.Errorf("metrics port: %w", err), "choose another --metrics-listen; port 0 takes any free one, off none")
		}
		defer stop()
		fmt.Fprintf(c.stderr, "metrics on http://%s/metrics\n", bound)
	}
	p := newProgress(c, "verify", 0) // of the first round: later ones are a line each
	o.progress = p.set
	checker, err := o.checker(ctx, cfg)
	if err != nil {
		p.done()
		return err
	}
	inputs, broken := int64(0), error(nil)
	report, err := verify.Follow(ctx, checker, o.follow.interval, func(r verify.Round) bool {
		if r.Number == 1 {
			p.done()
		}
		m.set(r, time.Now())
		broken = c.printRound(newRoundLine(r, time.Now(), inputs), r.New)
		inputs = r.Report.Inputs
		return broken == nil && !(o.follow.failFast && len(r.New) > 0)
	})
	if m.rounds() == 0 {
		p.done()
	}
	switch {
	case broken != nil:
		return broken
	case errors.Is(err, context.Canceled):
		return err // in the first round: nothing is known yet
	}
	return c.conclude(cfg.ApplicationID, o, report, err)
}

// roundLine is what --follow says of each round.
type roundLine struct {
	Time            time.Time          `json:"time"`
	Round           int                `json:"round"`
	Result          string             `json:"result"` // ok, violated, undecided
	Inputs          int64              `json:"inputs"`
	NewInputs       int64              `json:"new_inputs"`
	NotYetProcessed int64              `json:"not_yet_processed"`
	Violations      int64              `json:"violations"` // of all rounds
	New             []verify.Violation `json:"new_violations,omitempty"`
	Undecided       string             `json:"undecided,omitempty"`
	Took            time.Duration      `json:"took_ns"`
}

func newRoundLine(r verify.Round, now time.Time, before int64) roundLine {
	l := roundLine{
		Time: now.UTC(), Round: r.Number, Result: newVerdict(r.Report, r.Undecided).Result, Inputs: r.Report.Inputs,
		NewInputs: r.Report.Inputs - before, NotYetProcessed: r.Report.NotYetProcessed, New: r.New, Took: r.Took,
	}
	for _, n := range r.Report.Counts {
		l.Violations += n
	}
	if r.Undecided != nil {
		l.Undecided = r.Undecided.Error()
	}
	return l
}

func (l roundLine) String() string {
	s := fmt.Sprintf("%s round %d %s: %s inputs judged (%s new), %s not processed yet, %s, in %s", l.Time.Format(time.RFC3339), l.Round, l.Result,
		thousands(l.Inputs), thousands(l.NewInputs), thousands(l.NotYetProcessed), plural(int(l.Violations), "violation"), milliseconds(l.Took))
	if l.Undecided != "" {
		s += "\n  undecided: " + indent(l.Undecided)
	}
	return s
}

// printRound prints one line, behind the violations that are new. JSON is one object a line in either format: there is no end.
func (c *cli) printRound(l roundLine, fresh []verify.Violation) error {
	if c.format.orTable() != formatTable {
		return writeJSON(c.stdout, l, "")
	}
	text := ""
	for _, v := range fresh {
		text += v.String() + "\n"
	}
	return writeLines(c.stdout, text+l.String())
}

// handler answers Prometheus and a supervisor.
func (m *followMetrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if m.rounds() == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "the first round is not done yet")
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write([]byte(m.text())) // a reader that went away is not our error
	})
	return mux
}
