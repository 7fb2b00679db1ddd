package soak

import (
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

func TestADeadInstanceIsReplacedAfterItsSessionWithoutWaitingForItsTransaction(t *testing.T) {
	long(t)
	s := newSite(t)
	s.unfenced(t)
	s.holds(t)
}

func TestTheJobIsWholeHalfATransactionTimeOutAfterACoordinatorIsReplaced(t *testing.T) {
	long(t)
	s := newSite(t)
	s.loseBroker(t, "SIGKILL of the group's coordinator", func() *kafkatest.Broker { return s.kafka.GroupCoordinator(t, jobtest.App) })
	s.loseBroker(t, "SIGKILL of a transaction coordinator", func() *kafkatest.Broker { return s.kafka.TransactionCoordinator(t, jobtest.App+"-p1-0") })
	s.holds(t)
}

func TestACutOfFiveSecondsIsOverHalfASessionAfterItsEnd(t *testing.T) {
	long(t)
	s := newSite(t)
	s.cut(t, "network cut of 5 s, both ways, connections stay: from its end", func() { s.door.Freeze(kafkatest.Both) }, s.door.Thaw)
	s.cut(t, "network cut of 5 s, requests only: from its end", func() { s.door.Freeze(kafkatest.Requests) }, s.door.Thaw)
	s.cut(t, "network cut of 5 s, answers only: from its end", func() { s.door.Freeze(kafkatest.Responses) }, s.door.Thaw)
	s.cut(t, "network cut of 5 s, connections reset: from its end", s.door.Down, s.door.Up)
	s.holds(t)
}

func TestAnInstanceThatStoodStillForAMinuteIsReplacedAndComesBack(t *testing.T) {
	long(t)
	s := newSite(t)
	s.freeze(t, time.Minute)
	s.holds(t)
}

func TestWithAStockBrokersSettingsTheSameHolds(t *testing.T) {
	long(t)
	s := newStockSite(t)
	s.restart(t)
	s.fenced(t)
	s.loseBroker(t, "SIGKILL of the broker that leads a state partition", func() *kafkatest.Broker { return s.kafka.Leader(t, stateTopic(), 0) })
	s.unfenced(t)
	s.holds(t)
}

// unfenced kills p1 and tells nobody: the group gives its tasks away when its session is over, and who gets them does not wait
// for the time-out of its transaction.
func (s *site) unfenced(t *testing.T) {
	t.Helper()
	s.bothCommit(t)
	s.p1.Proc.Kill()
	killed := time.Now()
	whole := s.recovered(t, killed)
	s.report(t, figure{"kill -9, nobody acts, others take over", s.session + s.session/2, whole.Sub(killed), s.readers.stoodStill(killed, whole)})
	s.p1.Start(t)
}

// cut takes p1 off the network for less than its session.
func (s *site) cut(t *testing.T, what string, begin, end func()) {
	t.Helper()
	s.bothCommit(t)
	begin()
	cut := time.Now()
	<-time.After(5 * time.Second)
	end()
	healed := time.Now()
	back := s.committedBy(t, s.p1.Name, healed)
	if whole := s.recovered(t, healed); whole.After(back) {
		back = whole
	}
	s.report(t, figure{what, s.session / 2, back.Sub(healed), s.readers.stoodStill(cut, back)})
}

// freeze stops p1 for much longer than its session and its transaction.
func (s *site) freeze(t *testing.T, d time.Duration) {
	t.Helper()
	s.bothCommit(t)
	s.p1.Proc.Pause()
	stopped := time.Now()
	whole := s.recovered(t, stopped)
	s.report(t, figure{"SIGSTOP of 60 s: others take over", s.session + s.session/2, whole.Sub(stopped), s.readers.stoodStill(stopped, whole)})
	<-time.After(time.Until(stopped.Add(d)))
	s.p1.Proc.Resume()
	woken := time.Now()
	back := s.committedBy(t, s.p1.Name, woken)
	s.report(t, figure{"SIGSTOP of 60 s: it commits again after SIGCONT", s.session / 2, back.Sub(woken), s.readers.stoodStill(woken, back)})
}
