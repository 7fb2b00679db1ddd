package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/ledger/topology"
)

// warn says what the reset means for those who rely on the job. It is said before anything is done.
func (r *reset) warn(p *resetPlan) {
	add := func(format string, args ...any) { p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...)) }
	if p.HalfDone != "" {
		add("a reset was begun and not finished (%s): no task runs until apply has been run to its end", p.HalfDone)
	}
	if !r.restarts() {
		for _, t := range p.Tasks {
			switch gap := t.gap(); {
			case t.Lost != nil:
				add("task %s: %s of %s/%d ARE GIVEN UP FOR GOOD: retention deleted them before they were processed. No balance will have those events; where they are known elsewhere, have them sent again: their ids are new to the job. verify cannot decide partition %d any more",
					t.Task, t.Lost, t.Topic, t.Partition, t.Partition)
			case gap != "" && *t.Applied < t.Start:
				add("task %s, %s/%d: %s; --skip-lost goes on behind them with the state as it is", t.Task, t.Topic, t.Partition, gap)
			case gap != "":
				add("task %s, %s/%d: %s; only starting over goes on from here", t.Task, t.Topic, t.Partition, gap)
			}
		}
		return
	}
	var again, skipped, gone int64
	for _, t := range p.Tasks {
		a, s := t.again()
		again, skipped = again+a, skipped+s
		if *t.To > 0 && *t.To == t.Start {
			gone += t.Start
		}
	}
	add("ALL BALANCES AND ALL REMEMBERED EVENT IDS ARE THROWN AWAY: every account starts at zero, and a duplicate of an event from before is not recognised: it is applied again")
	if again > 0 {
		add("%s will be processed again, and %s KEEPS what was written of them: each such event is then in it twice, with versions from 1 again. Whoever adds it up counts double. Every reader must start over with an empty store of its own, behind the present end of the topic; verify will report duplicates for good",
			counted(int(again), "offset"), topology.Updates.Name)
	}
	for _, t := range p.Topics {
		if r.inputs()[t.Topic] && t.Records > 0 {
			add("what is in flight in %s, up to %s, is thrown away", t.Topic, counted(int(t.Records), "record"))
		}
	}
	if skipped > 0 {
		add("%s that were never processed lie before the new start: those events are never applied", counted(int(skipped), "offset"))
	}
	if gone > 0 {
		add("%s of the input were deleted by retention before the new start: the balances will lack those events", counted(int(gone), "offset"))
	}
	if len(p.Open) > 0 {
		add("open transactions of this job are ended first: %s", strings.Join(p.Open, ", "))
	}
}

// inputs are the topics that stages of the job read.
func (r *reset) inputs() map[string]bool {
	names := map[string]bool{}
	for _, s := range r.job.Stages() {
		for _, input := range s.Inputs() {
			names[input] = true
		}
	}
	return names
}

func (p *resetPlan) question() string {
	if p.Mode == skipLost {
		return "give up what is lost, and let " + p.Application + " go on behind it?"
	}
	if p.Mode == toMarker {
		return "move the offsets of group " + p.Application + "?"
	}
	return "throw the state of " + p.Application + " away and start over?"
}

func (p *resetPlan) text() string {
	var b strings.Builder
	for _, t := range p.Topics {
		what := "delete and make again"
		switch {
		case p.Done:
			what = "deleted and made again"
		case t.Partitions == 0:
			what = "make (it is not there)"
		}
		fmt.Fprintf(&b, "%s  %s  (%d partitions, %d records)\n", what, t.Topic, t.Partitions, t.Records)
	}
	if len(p.Topics) > 0 {
		fmt.Fprintf(&b, "keep  %s\n\n", joinAnd(p.Kept))
	}
	b.WriteString(aligned(p.rows()))
	for _, w := range p.Warnings {
		if !p.Done {
			fmt.Fprintf(&b, "\nwarning: %s\n", w)
		}
	}
	switch {
	case p.Done:
		b.WriteString("\ndone: read back and compared, offsets, markers and topics are as above\n")
	case p.Mode == "":
		b.WriteString("\n" + resetChoices)
	case !p.pending() && p.refusal() == nil:
		b.WriteString("\nnothing to do: the group's offsets are those of the state\n")
	}
	return b.String()
}

const resetChoices = `choices:
  --to-marker            keep the state; the group's offsets become what the state has applied
  --skip-lost            keep the state; go on behind input that retention deleted unread, which is given up for good
  --to earliest          throw the state away; start over at the first event that is still there
  --to latest            throw the state away; start at the next event
  --to <time>            throw the state away; start at the first event that is not older
  --to-offset t/p=n      throw the state away; start there, the other partitions at their first event
or a new application.id, which leaves this one's state and offsets as they are (outputs without the prefix are shared)
`

func (p *resetPlan) rows() [][]string {
	rows := [][]string{{"task", "input", "first", "end", "committed", "applied by the state", "will start at", "note"}}
	for _, t := range p.Tasks {
		to := number(t.To, "as it is")
		if p.Mode == "" {
			to = ""
		}
		rows = append(rows, []string{t.Task, fmt.Sprintf("%s/%d", t.Topic, t.Partition), strconv.FormatInt(t.Start, 10), strconv.FormatInt(t.End, 10),
			number(t.Committed, "-"), number(t.Applied, "-"), to, t.words()})
	}
	return rows
}

// words are the note, or how far the start moves.
func (t *resetTask) words() string {
	again, skipped := t.again()
	switch {
	case t.Note != "":
		return t.Note
	case t.To == nil || t.marker != nil && t.Applied == t.To:
		return ""
	case again > 0:
		return fmt.Sprintf("%d again", again)
	case skipped > 0:
		return fmt.Sprintf("%d skipped", skipped)
	}
	return ""
}
