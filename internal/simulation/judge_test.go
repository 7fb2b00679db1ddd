//go:build synctests

package simulation

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/verify"
	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/generate"
)

// judge audits what is left in the topics, and compares it with what was fed. It returns the verdicts' names.
func (w *world) judge() []string {
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Minute)
	defer cancel()
	verdicts := w.job.judge(w, ctx)
	if w.verdict() != "" {
		w.history(ctx)
	}
	return verdicts
}

// judgeLedger judges the ledger job by its own checker and by the generator's books.
func judgeLedger(w *world, ctx context.Context) []string {
	report, err := verify.Run(ctx, verify.Config{Opts: w.direct(), App: app, Window: w.window, AutoCreate: true, Workers: 1, Raw: true, Patience: 2 * time.Minute})
	var verdicts []string
	if err != nil {
		w.fail("verify: %v", err)
	}
	for _, v := range report.Violations {
		verdicts = append(verdicts, string(v.Verdict))
		w.fail("%s", v)
	}
	if err == nil && len(verdicts) == 0 {
		w.compare(&report)
		w.clean(&report)
	}
	return verdicts
}

// clean counts a run in which nothing was found, by what was looked at.
func (w *world) clean(r *verify.Report) {
	if !slices.Equal(r.Armed, verify.Verdicts(true, false)) || r.Raw == nil || r.Raw.Open > 0 {
		w.fail("verify looked for %v, raw %+v: a run is clean when all verdicts were armed and no transaction was left open", r.Armed, r.Raw)
		return
	}
	w.tally.clean.Add(1)
	w.tally.judged.Add(r.Inputs)
	w.tally.ended.Add(r.Raw.Committed)
	w.tally.undone.Add(r.Raw.Aborted)
}

// history writes all topics into the journal, each with the records of aborted transactions too.
func (w *world) history(ctx context.Context) {
	for _, topic := range w.job.topics {
		ends, err := kadm.NewClient(w.admin).ListEndOffsets(ctx, topic)
		if err != nil {
			w.fail("history of %s: %v", topic, err)
			return
		}
		starts, err := kadm.NewClient(w.admin).ListStartOffsets(ctx, topic)
		if err != nil {
			w.fail("history of %s: %v", topic, err)
			return
		}
		ends.Each(func(end kadm.ListedOffset) {
			if start, _ := starts.Lookup(topic, end.Partition); start.Offset < end.Offset { // else it was trimmed to its end
				w.partition(ctx, topic, end.Partition, end.Offset)
			}
		})
	}
}

func (w *world) partition(ctx context.Context, topic string, p int32, end int64) {
	from := map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().AtStart()}}
	client, err := kgo.NewClient(append(w.direct(), kgo.ConsumePartitions(from), kgo.KeepControlRecords())...)
	if err != nil {
		w.fail("history of %s: %v", topic, err)
		return
	}
	defer client.Close()
	for next := int64(0); next < end && ctx.Err() == nil; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			w.journal.logf("history-"+topic+".txt", "partition %d: %v", p, err)
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			w.journal.logf("history-"+topic+".txt", "%d/%d %s producer %d/%d control=%v key=%q value=%q headers=%q", p, r.Offset,
				r.Timestamp.UTC().Format(time.RFC3339Nano), r.ProducerID, r.ProducerEpoch, r.Attrs.IsControl(), r.Key, r.Value, r.Headers)
		})
	}
}

// compare holds the judge's counts and sums against the generator's.
func (w *world) compare(r *verify.Report) {
	same := func(what string, got, want int64) {
		if got != want {
			w.fail("books: %s: %d in the topics, %d by the generator", what, got, want)
		}
	}
	var inputs int64
	for class, n := range w.feeder.classes {
		inputs += n
		switch class.Outcome {
		case ledger.Applied:
			same("applied", r.Applied, n)
		case ledger.Passed:
			same("duplicates", r.Duplicates, n)
		case ledger.Rejected:
			same("rejected "+string(class.Reason), r.Rejected[string(class.Reason)], n)
		case ledger.DeadLettered:
			same("dead letters "+string(class.Reason), r.DeadLetters[string(class.Reason)], n)
		}
	}
	same("inputs", r.Inputs, inputs)
	for currency, want := range sums(w.feeder.events.Balances()) {
		got, ok := new(big.Rat).SetString(r.Sums[currency].Balances)
		if !ok || got.Cmp(want) != 0 {
			w.fail("books: %s: balances are %s, the generator's %s", currency, r.Sums[currency].Balances, want.FloatString(4))
		}
	}
}

func sums(balances []generate.Balance) map[string]*big.Rat {
	m := map[string]*big.Rat{}
	for _, b := range balances {
		if m[b.Currency] == nil {
			m[b.Currency] = new(big.Rat)
		}
		if x, ok := new(big.Rat).SetString(b.Balance); ok {
			m[b.Currency].Add(m[b.Currency], x)
		}
	}
	return m
}

// verdict is the end of a world: nothing, or what went wrong.
func (w *world) verdict() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.problems) == 0 {
		return ""
	}
	shown := w.problems
	if len(shown) > 6 {
		shown = append(shown[:6:6], fmt.Sprintf("… %d more", len(w.problems)-6))
	}
	return strings.Join(shown, "\n")
}
