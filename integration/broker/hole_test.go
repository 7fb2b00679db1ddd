package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// A hole in Kafka (seen in 4.4.0), which no client can close. A broker that comes back from a kill
// still believes in its old leadership, finds the transactions that it owes markers, loses its
// leadership to the controller's fence, takes the partitions, which have no leader now, for deleted
// ones, and declares the transactions complete. A committed transaction then stays invisible, and an
// abort of the same producer later undoes it, or what of it had no marker yet: it is torn.
//
// It needs a partition without a living replica: one broker, or all of them down. The fault run
// therefore kills its only broker when no marker is owed. When this test fails, Kafka has closed the
// hole, and the fault run can do without that care.
func TestOnlyBrokerKilledWhileItOwesMarkersNeverWritesThem(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort, Proxied: true, Config: map[string]string{
		"broker.heartbeat.interval.ms": "2000", // how long it is fenced for, at least: else chance decides
	}})
	b := newBench(t, c.Seeds())
	s := b.open(t)
	b.begin(t, s)
	only := c.Brokers[0]
	only.Between.Hold(kmsg.WriteTxnMarkers)
	mustCommit(t, s)
	only.Kill()
	only.Between.Cut()
	only.Between.Release(kmsg.WriteTxnMarkers)
	if err := only.Start(); err != nil {
		t.Fatal(err)
	}
	c.Ready(t)
	if err := b.fence(t, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if lso, hw := b.outputEnds(t); lso == hw {
		t.Errorf("output is stable up to its end at %d: the markers were written after all", hw)
	}
	if got := kafkatest.Committed(t, b.seeds, b.out, 0); len(got) != 0 {
		t.Errorf("%d records of the acknowledged commit are visible", len(got))
	}
}
