package soak

import (
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

func TestARestartedInstanceIsBackWithinHalfItsSession(t *testing.T) {
	s := newSite(t)
	for range rounds() {
		s.restart(t)
	}
	s.holds(t)
}

func TestAFencedInstanceIsReplacedWithinHalfItsSession(t *testing.T) {
	s := newSite(t)
	for range rounds() {
		s.fenced(t)
	}
	s.holds(t)
}

func TestTheJobIsWholeHalfATransactionTimeOutAfterABrokerIsReplaced(t *testing.T) {
	s := newSite(t)
	for p := range int32(rounds()) {
		s.loseBroker(t, "SIGKILL of the broker that leads a state partition", func() *kafkatest.Broker { return s.kafka.Leader(t, stateTopic(), p) })
	}
	s.holds(t)
}

// rounds are few in what runs with every change.
func rounds() int {
	if soaking() {
		return 3
	}
	return 1
}

// restart kills p1 and starts it again at once.
func (s *site) restart(t *testing.T) {
	t.Helper()
	s.bothCommit(t)
	s.p1.Proc.Kill()
	killed := time.Now()
	s.p1.Start(t)
	back := s.committedBy(t, s.p1.Name, killed)
	if whole := s.recovered(t, killed); whole.After(back) {
		back = whole
	}
	s.report(t, figure{"kill -9, same instance started again at once", s.session / 2, back.Sub(killed), s.readers.stoodStill(killed, back)})
}

// fenced kills p1 and says so; p2 takes all over, and only then p1 comes back.
func (s *site) fenced(t *testing.T) {
	t.Helper()
	s.bothCommit(t)
	s.p1.Proc.Kill()
	killed := time.Now()
	s.command.MustRun(t, patience, "fence", s.p1.Name, "--force")
	whole := s.recovered(t, killed)
	s.report(t, figure{"kill -9, `processor fence` at once, others take over", s.session / 2, whole.Sub(killed), s.readers.stoodStill(killed, whole)})
	s.p1.Start(t)
}

// loseBroker kills a broker and measures two things: until it is replaced, which is Kafka's, and from then on until the job is
// whole. A commit that waits for a dead coordinator would wait for the transaction's time-out. The broker comes back in the end.
func (s *site) loseBroker(t *testing.T, what string, find func() *kafkatest.Broker) {
	t.Helper()
	s.bothCommit(t)
	b := find()
	b.Kill()
	killed := time.Now()
	find() // finds none that was killed
	replaced := time.Now()
	whole := s.recovered(t, killed)
	t.Logf("%s: replaced after %v", what, replaced.Sub(killed).Round(time.Millisecond))
	s.report(t, figure{what + ": from its replacement", transactionTimeout / 2, max(0, whole.Sub(replaced)), s.readers.stoodStill(killed, whole)})
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	s.kafka.Ready(t)
}
