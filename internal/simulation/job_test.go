//go:build synctests

package simulation

import (
	"context"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
)

// job is what the processes of a world run, what feeds it and who judges it.
type job struct {
	inputs   []string
	output   string
	state    string
	topics   []string // all that a judge may want to see
	pipeline func(w *world) *pipeline.Pipeline
	source   func(f *feeder) source
	judge    func(w *world, ctx context.Context) (verdicts []string)
}

// jobName names one of the jobs.
type jobName string

const (
	ofLedger jobName = ""
	ofPairs  jobName = "TwoInputs" // a stage with two inputs
	ofHops   jobName = "TwoHops"   // two stages, a repartition topic and a timer
)

func jobOf(name jobName) job {
	switch name {
	case ofPairs:
		return pairJob()
	case ofHops:
		return hopJob()
	}
	return ledgerJob()
}

// test is the name of the test of a job, given that of the ledger's.
func (n jobName) test(ledgers string) string {
	if n == ofLedger {
		return ledgers
	}
	return ledgers + "Of" + string(n)
}

func ledgerJob() job {
	return job{
		inputs: []string{inputTopic}, output: updatesTopic, state: stateTopic,
		topics: []string{inputTopic, updatesTopic, skippedTopic, deadTopic, stateTopic},
		pipeline: func(w *world) *pipeline.Pipeline {
			return topology.Ledger(app, topology.Config{AutoCreate: true, DedupeWindow: w.window})
		},
		source: func(f *feeder) source { return f },
		judge:  judgeLedger,
	}
}
