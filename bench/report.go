package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

const (
	// floor is what the hand-written scanner's loop reaches on the machine that the goal was set for, in records per CPU
	// second. Below it the loop, or the machine at that time, is no measure.
	floor = 300_000
	// goal is the share of the loop with the same codec that the ledger must reach, per CPU second.
	goal = 0.6
)

// spread is the least, the middle and the greatest of some figures.
type spread struct{ least, middle, greatest float64 }

func spreadOf(results []result, figure func(result) float64) spread {
	var all []float64
	for _, r := range results {
		all = append(all, figure(r))
	}
	slices.Sort(all)
	n := len(all)
	return spread{all[0], (all[(n-1)/2] + all[n/2]) / 2, all[n-1]}
}

func (s spread) format(unit float64, digits int) string {
	return fmt.Sprintf("%.*f / %.*f / %.*f", digits, s.least/unit, digits, s.middle/unit, digits, s.greatest/unit)
}

// report is the results of each program, in the order of their runs.
type report struct {
	events   int
	programs []program
	results  map[string][]result
}

func (r *report) perSecond(name string) spread {
	return spreadOf(r.results[name], func(x result) float64 { return float64(r.events) / x.wall.Seconds() })
}

func (r *report) perCPUSecond(name string) spread {
	return spreadOf(r.results[name], func(x result) float64 { return float64(r.events) / x.cpu.Seconds() })
}

// valid says why the run is no measure, "" when it is.
func (r *report) valid() string {
	if got := r.perCPUSecond(handLoop).middle; got < floor {
		return fmt.Sprintf("the run is invalid: the loop with the hand-written scanner makes %.0f thousand records per CPU second, less than %d: the machine is slower than the one that the goal is for, or busy", got/1000, floor/1000)
	}
	return ""
}

// ratio is how much of the loop with the same codec the ledger reaches, per CPU second.
func (r *report) ratio(name string) float64 {
	return r.perCPUSecond(name).middle / r.perCPUSecond(strictLoop).middle
}

func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "min / median / max\truns\tk records/s\tk records/CPU s\tof the loop\tbroker CPU s\tpeak MB\tothers' cores\tload before")
	for _, p := range r.programs {
		rs := r.results[p.name]
		others := spreadOf(rs, func(x result) float64 { return x.others })
		broker := spreadOf(rs, func(x result) float64 { return x.broker.Seconds() })
		peak := spreadOf(rs, func(x result) float64 { return float64(x.peak) })
		loads := ""
		for _, x := range rs {
			loads += " " + x.load
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%.2f\t%s\t%s\t%s\t%s\n", p.name, len(rs), r.perSecond(p.name).format(1000, 0), r.perCPUSecond(p.name).format(1000, 0),
			r.ratio(p.name), broker.format(1, 1), peak.format(1<<20, 0), others.format(1, 2), loads)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nper CPU second the ledger makes %.2f of the loop with the same codec; the goal is %.1f\n", r.ratio(oneWorker), goal)
	if problem := r.valid(); problem != "" {
		fmt.Fprintln(w, problem)
	}
	return nil
}
