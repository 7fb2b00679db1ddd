package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/verify"
	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/topics"
)

// What the demo says: at most 40 lines, for someone who sees this for the first time.

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.c.stdout, format+"\n", args...)
}

func (d *demo) sayHello() {
	d.say("A ledger on Kafka: its processor is killed in the middle of transactions, and no cent is lost or doubled.")
	d.say("The broker lives in this process and forgets everything at its end: a demo, no proof of durability.")
	d.say("")
}

func (d *demo) sayTopics(steps topics.Steps) {
	var names []string
	for _, s := range steps {
		names = append(names, s.Topic)
	}
	d.say("topics    %s (%d partitions each)", strings.Join(names, ", "), steps[0].Partitions)
}

func (d *demo) sayStarted() {
	d.say("run 1     pid %d, first commit %s after its start", d.child.pid(), milliseconds(d.child.back))
}

func (d *demo) sayKilled(kill int, at childReport, open []string, hidden int64) {
	d.say("kill %d    SIGKILL to pid %d between produce and commit of a transaction of %s events", kill, d.child.pid(), thousands(int64(at.Inputs)))
	d.say("          the broker now: %s open, %s records written and hidden from every read_committed reader", plural(len(open), "transaction"), thousands(hidden))
}

func (d *demo) sayBack(open int) {
	d.say("run %d     pid %d, back after %s: %s state records restored, %s open, the lost events processed again",
		d.runs, d.child.pid(), milliseconds(d.child.back), thousands(d.child.restored), plural(open, "transaction"))
}

func (d *demo) sayResult(r verify.Report, digest string) {
	f := d.feeder
	d.say("")
	d.say("fed       %s events, made to become %s applied, %s refused, %s duplicates, %s dead letters", thousands(int64(f.fed)),
		thousands(f.outcomes(ledger.Applied)), thousands(f.outcomes(ledger.Rejected)), thousands(f.outcomes(ledger.Passed)), thousands(f.outcomes(ledger.DeadLettered)))
	d.say("became    %s applied, %s refused, %s duplicates, %s dead letters",
		thousands(r.Applied), thousands(sum(r.Rejected)), thousands(r.Duplicates), thousands(sum(r.DeadLetters)))
	d.sayCounts("refused", r.Rejected)
	d.sayCounts("letters", r.DeadLetters)
	d.say("balances  %d accounts, digest %s (the same for the same --seed)", r.Accounts, digest)
	for _, currency := range slices.Sorted(maps.Keys(r.Sums)) {
		d.say("  %s     %s", currency, sumText(r.Sums[currency]))
	}
	d.sayVerdict(r)
}

// sayCounts prints a total and its reasons, wrapped.
func (d *demo) sayCounts(title string, counts map[string]int64) {
	for line := range strings.Lines(wrap(countsText(counts), "          ", 150)) {
		d.say("%-10s%s", title, strings.TrimSpace(line))
		title = ""
	}
}

// shownViolations keeps a failed demo within its forty lines.
const shownViolations = 2

func (d *demo) sayVerdict(r verify.Report) {
	d.say("verify    %s (%s records, %s)", resultText(r, nil), thousands(r.Records), milliseconds(r.Took))
	for _, v := range r.Violations[:min(shownViolations, len(r.Violations))] {
		d.say("%s", v)
	}
	if r.OK() && !d.feeder.agrees(r) {
		d.say("FAILED: what the events became is not what they were made to become")
	}
}

func (d *demo) sayHowToUse() {
	brokers := "--bootstrap-servers " + d.broker.String()
	d.say("")
	d.say("The broker and the processor (pid %d) stay up until Ctrl-C. In another terminal:", d.child.pid())
	d.say("  feed    %s feed --generate 1000 --seed 7 --duplicates 5%% --malformed 2%% %s", d.executable, brokers)
	d.say("  tail    %s tail %s %s", d.executable, topology.Updates.Name, brokers)
	d.say("  query   %s query accounts ACC-000007 --admin %s", d.executable, d.child.admin)
	d.say("  verify  %s verify --application-id %s %s", d.executable, demoApp, brokers)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// thousands groups digits by three.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func sum(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
