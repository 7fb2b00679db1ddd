package topology_test

import (
	"testing"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/topics"
)

// TestAWorkloadSurvivesAbortsAndRestartsOnFourPartitions has each record's outcome judged, and at the end the last update of
// each account against the generator's independent sum.
func TestAWorkloadSurvivesAbortsAndRestartsOnFourPartitions(t *testing.T) {
	g := generated(t, 5000, 21)
	d := pipelinetest.New(t, topology.Ledger("bank", topology.Config{AutoCreate: true}), 4)
	outputs := []string{topology.Updates.Name, topology.Skipped.Name, topics.DeadLetters("bank")}
	balances := map[string]string{}
	n := 0
	for r := range g.All() {
		switch n++; {
		case n%500 == 0:
			d.Restart()
		case n%50 == 0:
			d.Abort(2)
		}
		m := messageOf(r)
		pipelinetest.SendRaw(d, topology.Credits.Name, m.key, m.value, m.headers, d.Now())
		outcomes := 0
		for _, topic := range outputs {
			for _, out := range pipelinetest.ReadRaw(d, topic) {
				outcomes++
				if got := classOf(t, out); got != r.Class {
					t.Fatalf("%s is %v, the generator says %v", r.Value, got, r.Class)
				}
				if topic == topology.Updates.Name {
					u := update(t, out)
					balances[u.AccountID] = u.Balance.Text()
				}
			}
		}
		if outcomes != 1 {
			t.Fatalf("rule 8: %s has %d outcomes", r.Value, outcomes)
		}
	}
	for _, want := range g.Balances() {
		if balances[want.Account] != want.Balance {
			t.Errorf("%s has %s, the independent sum is %s", want.Account, balances[want.Account], want.Balance)
		}
	}
}
