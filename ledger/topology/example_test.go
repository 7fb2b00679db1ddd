package topology_test

import (
	"fmt"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipelinetest"
	"github.com/tallystick/tallystick/topics"
)

// A credit that is delivered twice is posted once, and the same id with another amount is never applied.
func ExampleLedger() {
	d := pipelinetest.New(nil, topology.Ledger("bank", topology.Config{AutoCreate: true}), 4)
	send := func(amount string) {
		value := `{"event_id":"EVT-1","account_id":"priya","amount":"` + amount + `","currency":"INR","occurred_at":"2026-11-30T10:00:00Z"}`
		pipelinetest.SendRaw(d, topology.Credits.Name, []byte("priya"), []byte(value), nil, d.Now())
	}
	send("50000.00")
	d.Restart()
	send("50000.00")
	send("60000.00")

	for _, u := range pipelinetest.Read(d, topology.Updates) {
		fmt.Println(u.Value.Outcome, u.Value.Amount, "balance", u.Value.Balance, "version", u.Value.Version)
	}
	for _, s := range pipelinetest.Read(d, topology.Skipped) {
		fmt.Println("skipped", s.Value.EventID, s.Value.Reason)
	}
	for _, out := range pipelinetest.ReadRaw(d, topics.DeadLetters("bank")) {
		fmt.Println("dead letter", reason(out))
	}
	// Output:
	// applied 50000.00 balance 50000.00 version 1
	// skipped EVT-1 duplicate
	// dead letter conflict
}
