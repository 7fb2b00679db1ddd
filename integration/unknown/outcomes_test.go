package unknown

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/internal/verify"
)

// What can be true of a transaction, and be concluded of it.
const (
	committed = "committed"
	aborted   = "aborted"
)

// What End can report, by its beginning.
const (
	yes      = "(true, nil)"
	neither  = "(false, nil)"
	deadline = "(false, context deadline exceeded)"
)

// withCode is what End reports with an error of Kafka's.
func withCode(e *kerr.Error) string { return "(false, " + e.Message + ")" }

// doubt is one way to leave the end of a transaction in doubt.
type doubt struct {
	name     string
	fault    kafkatest.Fault
	late     time.Duration // how long Then waits: the answer is so late
	reported []string      // one of these
	truth    string        // "" where it depends on who is faster
	fatal    bool          // the process is to end with code 1, and to be started again by a supervisor

	befalls func(*kafkatest.Broker)                    // the transaction's coordinator, when the fault happens
	mend    func(*testing.T, *site, *kafkatest.Broker) // what befell it, once the client has given up
}

const (
	// endLimit is the client's deadline for the end of a transaction, and the broker's for the whole of it.
	endLimit = 3 * time.Second
	always   = 0 // until the client has given up
	once     = 1
)

// doubts are what can happen to the request that ends a transaction, and to its answer.
func doubts() []doubt {
	end := func(d kafkatest.Deed, times int) kafkatest.Fault {
		return kafkatest.Fault{Key: kmsg.EndTxn, Deed: d, Times: times}
	}
	late := kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.DelayRequest, Delay: endLimit + 2*time.Second, Times: once}
	return []doubt{
		{name: "the answer is late", fault: end(kafkatest.AnswerError, once), late: time.Second, reported: []string{yes}, truth: committed},
		{name: "the answer comes after the deadline", fault: end(kafkatest.AnswerError, once), late: endLimit + time.Second, reported: []string{deadline}, truth: committed},
		{name: "the answer is lost, once", fault: end(kafkatest.DropResponse, once), reported: []string{yes}, truth: committed},
		{name: "every answer is lost", fault: end(kafkatest.DropResponse, always), reported: []string{deadline}, truth: committed},
		{name: "the answer hangs", fault: end(kafkatest.HangResponse, always), reported: []string{deadline}, truth: committed},
		{name: "the request is lost, once", fault: end(kafkatest.DropRequest, once), reported: []string{yes}, truth: committed},
		{name: "every request is lost", fault: end(kafkatest.DropRequest, always), reported: []string{deadline}, truth: aborted},
		{name: "the request hangs", fault: end(kafkatest.Hang, always), reported: []string{deadline}, truth: aborted},
		{name: "the request arrives after it was given up", fault: late, reported: []string{deadline}, truth: aborted},
		{name: "every answer to the offsets is lost", fault: kafkatest.Fault{Key: kmsg.TxnOffsetCommit, Deed: kafkatest.DropResponse}, reported: []string{deadline}, truth: aborted},
	}
}

// codedDoubts are the errors that a commit can be answered with, whether the broker has acted or not.
func codedDoubts() (all []doubt) {
	coded := func(d kafkatest.Deed, e *kerr.Error, times int) kafkatest.Fault {
		return kafkatest.Fault{Key: kmsg.EndTxn, Deed: d, Code: e.Code, Times: times}
	}
	both := func(answered string, e *kerr.Error, times int, reported string) {
		all = append(all,
			doubt{name: "applied, and " + answered + e.Message, fault: coded(kafkatest.AnswerError, e, times), reported: []string{reported}, truth: committed},
			doubt{name: "not applied, and " + answered + e.Message, fault: coded(kafkatest.Refuse, e, times), reported: []string{reported}, truth: aborted})
	}
	for _, e := range []*kerr.Error{kerr.UnknownServerError, kerr.TransactionAbortable} {
		both("answered ", e, once, neither)
	}
	for _, e := range []*kerr.Error{kerr.InvalidTxnState, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.RequestTimedOut} {
		both("answered ", e, once, withCode(e))
	}
	for _, e := range []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.ConcurrentTransactions} {
		both("always answered ", e, always, withCode(e))
	}
	e := kerr.TransactionalIDAuthorizationFailed
	return append(all, doubt{name: "applied, and answered " + e.Message, fault: coded(kafkatest.AnswerError, e, once),
		reported: []string{"(false, WRITE on transactional-id " + transactionalID + " is missing (" + e.Message + ")"}, truth: committed, fatal: true})
}

// versions are the features that a broker's storage is formatted with.
var versions = map[string][]string{"2": nil, "1": {"transaction.version=1"}}

// The end of a transaction is left in doubt in each way, on a broker of either transaction version: what the client reports is no
// proof of either kind, what the engine concludes is always what the partitions' markers say, and nothing is lost, doubled or
// forgotten by it: the next event finds the balance, a repeat of the doubtful one finds its id.
//
// Guarantee: G3
func TestWhatIsConcludedOfADoubtfulCommitIsTrue(t *testing.T) {
	for _, version := range []string{"2", "1"} {
		t.Run("transaction.version "+version, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, kafkatest.Options{Features: versions[version]}, 1)
			b := s.bench(t, settings{Name: "p", Session: endLimit, Timeout: endLimit, Interval: 100 * time.Millisecond})
			for _, d := range slices.Concat(doubts(), codedDoubts()) {
				t.Run(d.name, func(t *testing.T) { b.try(t, d) })
			}
			s.awaitEnd(t, 20*time.Second)
			s.awaitMarkers(t, 20*time.Second)
			s.holds(t)
			t.Logf("transaction.version %s\n%s", version, b.table())
		})
	}
	t.Run("no-verification-after-false-nil doubles an event", takenForAnAbort)
}

// takenForAnAbort is what an engine does that believes the client: it undoes what is committed, and does it again.
func takenForAnAbort(t *testing.T) {
	t.Parallel()
	s := newSite(t, kafkatest.Options{}, 1)
	b := s.bench(t, settings{Name: "p", Mutant: "no-verification-after-false-nil", Session: endLimit, Timeout: endLimit, Interval: 100 * time.Millisecond})
	m := b.member
	m.start(t)
	b.event()
	m.await(t, 20*time.Second, "a commit before the fault", 0, processed)
	b.door.Inject(kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.AnswerError, Code: kerr.UnknownServerError.Code, Times: once})
	b.event()
	m.await(t, 20*time.Second, "an abort of what is committed", 0, is("aborted"))
	b.event()
	s.awaitEnd(t, 20*time.Second)
	s.awaitMarkers(t, 20*time.Second)
	m.leave(t, 0)
	r := s.verdict(t)
	if r.Counts[verify.Duplicate] == 0 {
		t.Errorf("verify finds %v, want duplicate among them", r.Counts)
	}
	t.Logf("caught: %v", r.Counts)
}

// bench is one processor behind a door, and what came of each doubt.
type bench struct {
	*site
	door    *kafkatest.Proxy
	member  *member
	account string
	events  int
	rows    []row
}

// row is a line of the table.
type row struct {
	doubt                      string
	reported, truth, concluded string
	took                       time.Duration // from the event to the conclusion
}

func (s *site) bench(t *testing.T, of settings) *bench {
	t.Helper()
	b := &bench{site: s, door: s.Door(t, of.Name), account: s.account(0)}
	of.Leaves = true
	b.member = s.member(of)
	b.member.settings.Seeds = b.door.Seeds()
	return b
}

func (b *bench) table() string {
	var out strings.Builder
	out.WriteString("| what happened to the commit | End reported | true on the broker | the engine concluded | after |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range b.rows {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %v |\n", r.doubt, r.reported, r.truth, r.concluded, r.took.Round(10*time.Millisecond))
	}
	return out.String()
}

// event feeds a new one and returns its name; the number of an event is its amount.
func (b *bench) event() string {
	b.events++
	id := fmt.Sprintf("EVT-%d", b.events)
	b.feed(b.credit(id, b.account, b.events))
	return id
}

// try leaves the end of one transaction in doubt.
func (b *bench) try(t *testing.T, d doubt) {
	t.Helper()
	m := b.member
	from := m.diary.len()
	m.start(t)
	b.event()
	m.await(t, 20*time.Second, "a commit before the fault", from, processed)
	at := b.where(t)
	from = m.diary.len()
	coordinator := b.TransactionCoordinator(t, transactionalID)
	before := b.underway()
	hit := b.door.Inject(d.armed(coordinator))
	began := time.Now()
	id := b.event()
	end := m.ends(t, from)
	delayed := d.fault.Deed == kafkatest.DelayRequest
	if delayed && b.underway() <= before {
		t.Error("the request arrived before the client gave it up")
	}
	b.door.Heal()
	if d.mend != nil {
		d.mend(t, b.site, coordinator)
	}
	b.conclude(t, d, at, from, end, time.Since(began))
	b.event()
	b.feed(b.credit(id, b.account, b.events-1)) // the doubtful one again
	b.awaitEnd(t, 20*time.Second)
	m.leave(t, 0)
	kafkatest.Within(t, endLimit, "the fault", func(context.Context) error { // which is over when its delay is
		if hit.Hits() == 0 {
			return errors.New("nothing happened to the commit")
		}
		return nil
	})
	if delayed {
		b.arrives(t, before)
	}
}

// underway is how many requests to end a transaction have come to the door and not gone on: lost for good, or delayed.
func (b *bench) underway() int { return b.door.Arrived(kmsg.EndTxn) - b.door.Passed(kmsg.EndTxn) }

// arrives waits until a delayed request has reached the broker; the processor has ended, so that no other is underway.
func (b *bench) arrives(t *testing.T, before int) {
	t.Helper()
	kafkatest.Within(t, 20*time.Second, "the delayed request", func(context.Context) error {
		if n := b.underway() - before; n > 0 {
			return fmt.Errorf("%d requests underway", n)
		}
		return nil
	})
}

// transactionalID is the processor's: application, instance, worker.
const transactionalID = app + "-p-0"

// armed is the fault with its delay, or with what befalls the coordinator.
func (d doubt) armed(coordinator *kafkatest.Broker) kafkatest.Fault {
	f := d.fault
	if d.befalls != nil {
		f.Then = func() { d.befalls(coordinator) }
	}
	if d.late > 0 {
		f.Then = func() { pause(context.Background(), d.late) }
	}
	return f
}

// processed wants a commit of records.
func processed(h happening) bool { return h.What == "committed" && h.Inputs > 0 }

// ends waits until the client has reported an end of the transaction.
func (m *member) ends(t *testing.T, from int) happening {
	t.Helper()
	var end happening
	kafkatest.Within(t, 40*time.Second, "an end of the transaction", func(context.Context) error {
		for _, h := range m.diary.since(from) {
			if processed(h) || h.What == "rebuilt" || h.What == "aborted" {
				end = h
				return nil
			}
		}
		select {
		case <-m.Done():
			end = happening{What: "exit", Code: m.ExitCode(), Cause: m.lastWords()}
			return nil
		default:
			return fmt.Errorf("told: %v", m.diary.since(from))
		}
	})
	return end
}
