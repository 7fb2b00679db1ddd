package unknown

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// The coordinator is lost in the middle of EndTxn, of three brokers: what is concluded is true here, too. What End reports depends on
// whether the fail-over takes longer than the deadline.
func TestWhatIsConcludedWhenTheCoordinatorIsLostInACommitIsTrue(t *testing.T) {
	lost := []doubt{
		{name: "the coordinator is killed before the request arrives", reported: []string{yes, deadline},
			fault: kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.Pass, Times: once}, befalls: (*kafkatest.Broker).Kill, mend: startAgain},
		{name: "the coordinator is killed when it has acted and not answered", reported: []string{yes, deadline}, truth: committed,
			fault: kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.DropResponse, Times: once}, befalls: (*kafkatest.Broker).Kill, mend: startAgain},
		{name: "the coordinator stands still from before the request arrives until after the deadline", reported: []string{deadline},
			fault: kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.Pass, Times: once}, befalls: (*kafkatest.Broker).Pause, mend: goOn},
	}
	for _, version := range []string{"2", "1"} {
		t.Run("transaction.version "+version, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, kafkatest.Options{Brokers: 3, Features: versions[version]}, 1)
			b := s.bench(t, settings{Name: "p", Session: 10 * time.Second, Timeout: 10 * time.Second, Interval: 100 * time.Millisecond})
			for _, d := range lost {
				t.Run(d.name, func(t *testing.T) { b.try(t, d) })
			}
			s.awaitEnd(t, 20*time.Second)
			s.awaitMarkers(t, 20*time.Second)
			s.holds(t)
			t.Logf("transaction.version %s\n%s", version, b.table())
		})
	}
}

func startAgain(t *testing.T, s *site, b *kafkatest.Broker) {
	t.Helper()
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	s.Ready(t)
}

func goOn(t *testing.T, s *site, b *kafkatest.Broker) {
	t.Helper()
	b.Resume()
	s.Ready(t)
}
