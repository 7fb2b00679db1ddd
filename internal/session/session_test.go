package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// gate is a restore gate that lets the first assignment through and then does what the test says.
type gate struct {
	first chan struct{}
	then  atomic.Pointer[func([]*Assignment) error]
}

func (g *gate) assign(_ context.Context, tasks []*Assignment) error {
	if then := g.then.Load(); then != nil {
		return (*then)(tasks)
	}
	close(g.first)
	return nil
}

// opened returns a session that owns partition 0 of "in" and whose next assignments, which the test makes, go through then.
func opened(t *testing.T, then func([]*Assignment) error) (*kfake.Cluster, *Session) {
	t.Helper()
	g := &gate{first: make(chan struct{})}
	c, admin := embedded(t, 1, "in", "out", "state")
	s, err := Open(t.Context(), Config{
		App: "app", Instance: "i", Inputs: []string{"in"}, Topology: Topology{StageOf: map[string]string{"in": "stage"}}, Admin: admin,
		Client:         []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)},
		SessionTimeout: 10 * time.Second, HeartbeatInterval: time.Second, RebalanceTimeout: 10 * time.Second, TransactionTimeout: 20 * time.Second,
		Assign: g.assign, MaxRecordBytes: 1_000_000, Partition: func(string, []byte, int) int { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if s.InTransaction() {
			s.Abort(ctx)
		}
		s.Close(ctx)
	})
	select {
	case <-g.first:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was assigned")
	}
	g.then.Store(&then)
	return c, s
}

func accept([]*Assignment) error { return nil }

// transaction writes a record to "out", which the broker answers with err, and commits.
func transaction(t *testing.T, err *kerr.Error) (out Outcome, flushed bool) {
	t.Helper()
	c, s := opened(t, accept)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: err})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	s.Produce(&kgo.Record{Topic: "out", Value: []byte("v")})
	out = s.Commit(ctx, []Offset{{TopicPartition{"in", 0}, 1, "proof", NewToken()}}, func() { flushed = true })
	return out, flushed
}

func TestRecordThatIsRefusedForWhatItIsAbortsAndIsNamed(t *testing.T) {
	out, flushed := transaction(t, kerr.MessageTooLarge)
	if out.Result != Aborted || len(out.Failures) != 1 || flushed {
		t.Errorf("result %d, %v, %d failures, commit began %v: want a proven abort before it begins", out.Result, out.Err, len(out.Failures), flushed)
	}
}

// A denied topic is not the record's fault: no policy may turn its input into a dead letter.
func TestRecordThatIsRefusedForWhatWeAreIsNobodysFault(t *testing.T) {
	out, flushed := transaction(t, kerr.TopicAuthorizationFailed)
	if out.Result != Unknown || FateOf(out.Err) != Fatal || len(out.Failures) != 0 || flushed {
		t.Errorf("result %d, fate %d, %v, %d failures, commit began %v: want a fatal end and no one to blame", out.Result, FateOf(out.Err), out.Err, len(out.Failures), flushed)
	}
}

func TestClosedSessionLeavesNoLiveToken(t *testing.T) {
	_, s := opened(t, accept)
	tasks, err := s.assignments(committedNowhere())
	if err != nil || len(tasks) != 1 {
		t.Fatal(len(tasks), err)
	}
	if s.Close(t.Context()); tasks[0].Token.Live() {
		t.Error("a token outlives its session: its owner would commit in the next one")
	}
}

// The one on call gives the right that is named: it must be the one that is missing.
func TestDeniedCommitNamesItsTopic(t *testing.T) {
	s := &Session{cfg: Config{App: "app"}, id: "app-i-0"}
	denied := fmt.Errorf("topic b partition 0: %w", kerr.TopicAuthorizationFailed)
	err := s.denied(denied, []Offset{{TopicPartition: TopicPartition{"a", 0}}, {TopicPartition: TopicPartition{"b", 0}}, {TopicPartition: TopicPartition{"c", 0}}})
	if want := `topic b`; !strings.Contains(err.Error(), "READ on "+want) {
		t.Errorf("%v: want the right on %s", err, want)
	}
}

// A poll has blocked rebalances until the next allowance, which never comes: the close must not wait for it.
func TestCloseWaitsForNoAllowance(t *testing.T) {
	_, s := opened(t, accept)
	s.Poll(t.Context(), 10*time.Millisecond, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if s.Close(ctx); ctx.Err() != nil {
		t.Error("the close hangs: rebalances are blocked, and nobody will allow them")
	}
}

func TestFailuresOfATransactionAreNotTheNextOnes(t *testing.T) {
	_, s := opened(t, accept)
	s.delivered(&kgo.Record{Topic: "out"}, kerr.MessageTooLarge)
	if err := s.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(s.failed()); n != 0 {
		t.Errorf("%d failures at the begin", n)
	}
}

// Cursors go back when the flag is cleared, so who polled must know; and it is cleared once.
func TestRevokeBetweenTransactionsIsClearedAndToldOnce(t *testing.T) {
	_, s := opened(t, accept)
	s.onExpelled(t.Context(), nil, nil)
	if rewound, err := s.Rewound(t.Context()); !rewound || err != nil {
		t.Errorf("rewound %v, %v, want true", rewound, err)
	}
	if rewound, err := s.Rewound(t.Context()); rewound || err != nil {
		t.Errorf("told twice: %v, %v", rewound, err)
	}
}

func committedNowhere() map[string]map[int32]kgo.Offset {
	return map[string]map[int32]kgo.Offset{"in": {0: kgo.NewOffset().AtStart()}}
}

func TestFetchingStartsWhereTheGateSays(t *testing.T) {
	_, s := opened(t, func(tasks []*Assignment) error {
		tasks[0].Inputs[0].Start = 7
		return nil
	})
	got, err := s.adjust(t.Context(), committedNowhere())
	if want := kgo.NewOffset().At(7); err != nil || got["in"][0] != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// Each input of a task has an offset and a start of its own; a task that the gate holds back is not fetched, and no other is held.
func TestGateDecidesForEachInput(t *testing.T) {
	var committed []int64
	c, s := opened(t, func(tasks []*Assignment) error {
		for i := range tasks[0].Inputs {
			committed = append(committed, tasks[0].Inputs[i].Committed.Next)
			tasks[0].Inputs[i].Start = int64(7 + i)
		}
		tasks[0].Pause = len(committed) == 2
		return nil
	})
	s.cfg.Topology.StageOf = map[string]string{"in": "stage", "out": "stage"}
	answer(c, func(req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) {
		g := &resp.Groups[0]
		g.Topics = nil
		for _, asked := range req.Groups[0].Topics {
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
			p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			p.Offset = 2
			if asked.TopicID == c.TopicInfo("out").TopicID {
				p.Offset = 3
			}
			topic.Partitions = append(topic.Partitions, p)
			g.Topics = append(g.Topics, topic)
		}
	})
	for round, paused := range []int{2, 0} {
		got, err := s.adjust(t.Context(), map[string]map[int32]kgo.Offset{"in": {0: kgo.NewOffset()}, "out": {0: kgo.NewOffset()}})
		if err != nil || got["in"][0] != kgo.NewOffset().At(7) || got["out"][0] != kgo.NewOffset().At(8) {
			t.Errorf("round %d: got %v, %v, want 7 and 8", round, got, err)
		}
		held := 0
		for _, partitions := range s.gts.Client().PauseFetchPartitions(nil) {
			held += len(partitions)
		}
		if held != paused {
			t.Errorf("round %d: %d partitions are held, want %d", round, held, paused)
		}
	}
	if !slices.Equal(committed, []int64{2, 3, 2, 3}) {
		t.Errorf("the gate was told of offsets %v, want 2 of in and 3 of out", committed)
	}
}

// A gate that a revoke cuts short runs again for whoever stays, with fresh tokens: the ones it gave out are void.
func TestGateThatIsCutShortLeavesNoLiveToken(t *testing.T) {
	var tokens []*Token
	cut := errors.New("revoked")
	_, s := opened(t, func(tasks []*Assignment) error {
		tokens = append(tokens, tasks[0].Token)
		return cut
	})
	if _, err := s.adjust(t.Context(), committedNowhere()); !errors.Is(err, cut) {
		t.Errorf("got %v", err)
	}
	if len(tokens) != 1 || tokens[0].Live() {
		t.Error("the token of a task that nobody restored is alive")
	}
}

// The gate opens on offsets, or not at all: "none" would start the task from the beginning.
func TestGateStaysShutWithoutOffsets(t *testing.T) {
	called := false
	c, s := opened(t, func([]*Assignment) error { called = true; return nil })
	answer(c, func(_ *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) {
		resp.Groups[0].ErrorCode = kerr.GroupAuthorizationFailed.Code
	})
	if _, err := s.adjust(t.Context(), committedNowhere()); !errors.Is(err, kerr.GroupAuthorizationFailed) || called {
		t.Errorf("got %v, gate called %v", err, called)
	}
}

// An instance that died between its offset commit and the end of its transaction keeps the gate from being reached at all.
func TestWatchdogFencesTheDeadWhileOffsetsAreWaitedFor(t *testing.T) {
	c, s := opened(t, accept)
	openTransaction(t, c, "app-dead-0", "state")
	fenced := make(chan string, 1)
	s.cfg.Janitor = Janitor{Client: s.cfg.Admin, App: "app", Own: []string{"state"}, Timeout: 10 * time.Second, Fenced: func(id string) { fenced <- id }}
	tp := map[string][]int32{"in": {0}}
	s.passed([]TopicPartition{{"in", 0}})
	s.onAssigned(t.Context(), nil, tp)
	defer s.passed([]TopicPartition{{"in", 0}})
	select {
	case id := <-fenced:
		if id != "app-dead-0" {
			t.Errorf("fenced %q", id)
		}
	case <-time.After(watchdogPatience + 10*time.Second):
		t.Fatal("nobody fenced it: the take-over waits for its transaction to time out")
	}
}

// A restored task, a revoke and a rebalance that waits do not wait for the poll to run out.
func TestWakeEndsThePollThatRunsOrTheNextOne(t *testing.T) {
	_, s := opened(t, accept)
	began := time.Now()
	s.Wake()
	s.Poll(t.Context(), time.Minute, 1)
	time.AfterFunc(50*time.Millisecond, s.Wake)
	s.Poll(t.Context(), time.Minute, 1)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("two polls took %s", took)
	}
	s.AllowRebalance()
}
