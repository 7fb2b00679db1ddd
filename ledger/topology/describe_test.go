package topology_test

import (
	"testing"

	"github.com/tallystick/tallystick/ledger/topology"
)

func TestDescribeIsKafkaStreamsText(t *testing.T) {
	const want = `Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000002 (topics: [credit-events])
      --> post
    Processor: post (stores: [accounts, inbox])
      --> KSTREAM-SINK-0000000000, KSTREAM-SINK-0000000001
      <-- KSTREAM-SOURCE-0000000002
    Sink: KSTREAM-SINK-0000000000 (topic: ledger-updates)
      <-- post
    Sink: KSTREAM-SINK-0000000001 (topic: ledger-skipped)
      <-- post

`
	if got := topology.Ledger("bank", topology.Config{}).Describe(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
