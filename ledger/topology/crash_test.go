package topology_test

import (
	"testing"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/pipelinetest"
)

// The ledger as it is deployed, over a workload with everything that a careless upstream sends.
func TestLedgerLeavesTheSameAfterEveryCrash(t *testing.T) {
	in := &pipelinetest.Inputs{}
	g := generated(t, 40, 5)
	for r := range g.All() {
		m := messageOf(r)
		pipelinetest.PutRaw(in, topology.Credits.Name, m.key, m.value, m.headers, in.Now())
	}
	pipelinetest.Crash(t, func() *pipeline.Pipeline { return topology.Ledger("bank", topology.Config{AutoCreate: true}) }, in, pipelinetest.CrashConfig{})
}
