package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bare is a session without a client, for what callbacks and the owner do to tokens.
func bare() *Session {
	s := &Session{
		cfg:    Config{Topology: Topology{StageOf: map[string]string{"in": "stage"}}},
		joined: make(chan struct{}, 1), grants: map[TaskID]grant{}, waiting: map[TopicPartition]bool{},
	}
	s.joining.Store(true)
	return s
}

// given plays an assignment of partitions of "in" and returns their tokens in order.
func given(s *Session, partitions ...int32) (tokens []*Token) {
	offsets := map[string]map[int32]kgo.Offset{"in": {}, "of another release": {0: kgo.NewOffset()}}
	for _, p := range partitions {
		offsets["in"][p] = kgo.NewOffset()
	}
	tasks, err := s.assignments(offsets)
	if err != nil {
		panic(err)
	}
	slices.SortFunc(tasks, func(a, b *Assignment) int { return a.Task.Compare(b.Task) })
	for _, a := range tasks {
		tokens = append(tokens, a.Token)
	}
	return tokens
}

func TestRevokeKillsTheTokensOfWhatWasTakenAndNoOther(t *testing.T) {
	s := bare()
	tokens := given(s, 0, 1)
	s.joining.Store(false)
	s.onLost(t.Context(), nil, map[string][]int32{"in": {0}})
	if tokens[0].Live() || !tokens[1].Live() {
		t.Errorf("live: %v and %v, want the kept one alone", tokens[0].Live(), tokens[1].Live())
	}
	if !s.revoked.Load() || !s.joining.Load() {
		t.Errorf("revoked %v, joining %v: the next commit would abort for nothing, or carry the old generation", s.revoked.Load(), s.joining.Load())
	}
}

// The transact session is marked by an expulsion even when nothing was owned: an unmarked one aborts the next commit.
func TestExpulsionWithoutPartitionsIsClearedBeforeTheNextTransaction(t *testing.T) {
	s := bare()
	s.onExpelled(t.Context(), nil, nil)
	if !s.revoked.Load() {
		t.Error("the sticky flag of the transact session is not noted")
	}
}

// Ownership comes from the assignment alone: a token that is still there missed its revoke.
func TestNewAssignmentKillsTheTokenBeforeIt(t *testing.T) {
	s := bare()
	before := given(s, 3)[0]
	if after := given(s, 3)[0]; before.Live() || !after.Live() {
		t.Errorf("live: before %v, after %v", before.Live(), after.Live())
	}
}

// The watchdog goes on as long as offsets are waited for: of what is lost or given to others nobody waits any more.
func TestNobodyWaitsForTheOffsetsOfWhatIsGone(t *testing.T) {
	s := bare()
	for p := range int32(3) {
		s.waiting[TopicPartition{"in", p}] = true
	}
	if s.onLost(t.Context(), nil, map[string][]int32{"in": {0}}); len(s.waiting) != 2 {
		t.Errorf("waits for %v after the loss of in/0", s.waiting)
	}
	s.onSynced(map[string][]int32{"in": {1}})
	if len(s.waiting) != 1 || !s.waiting[TopicPartition{"in", 1}] {
		t.Errorf("waits for %v, want in/1 alone", s.waiting)
	}
}

// Each input of a task is committed under its own topic.
func TestOffsetsAreSentUnderTheirTopics(t *testing.T) {
	var sent []string
	offset := func(topic string, p int32, next int64) Offset {
		return Offset{TopicPartition{topic, p}, next, "proof", NewToken()}
	}
	for _, topic := range offsetTopics([]Offset{offset("orders", 0, 3), offset("accounts", 0, 5), offset("orders", 1, 7), offset("accounts", 1, 9)}) {
		for _, p := range topic.Partitions {
			sent = append(sent, fmt.Sprintf("%s/%d %d", topic.Topic, p.Partition, p.Offset))
		}
	}
	if want := []string{"orders/0 3", "orders/1 7", "accounts/0 5", "accounts/1 9"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
}

// The transact session swallows revokes within a transaction: what the group no longer gives is noticed at the next begin.
func TestSwallowedRevokeKillsTheTokenBeforeTheNextTransaction(t *testing.T) {
	s := bare()
	tokens := given(s, 0, 1)
	s.onSynced(map[string][]int32{"in": {1}})
	if !tokens[0].Live() {
		t.Error("the partition is ours until we join again: the open transaction must be able to commit")
	}
	s.dropUnassigned()
	if tokens[0].Live() || !tokens[1].Live() {
		t.Errorf("live: given away %v, kept %v", tokens[0].Live(), tokens[1].Live())
	}
}

func TestAssignmentToAClosedSessionIsDeadAtBirth(t *testing.T) {
	s := bare()
	before := given(s, 0)[0]
	s.killAll()
	if after := given(s, 0)[0]; before.Live() || after.Live() {
		t.Errorf("live: before the close %v, after it %v", before.Live(), after.Live())
	}
	s.onAssigned(t.Context(), nil, map[string][]int32{"in": {0}})
	if s.watching {
		t.Error("a watchdog outlives its session: it would fence for ever")
	}
}

// A transaction that begins between two generations cannot commit.
func TestNoTransactionBeginsBeforeTheMemberHasJoined(t *testing.T) {
	s := bare()
	if s.AwaitJoin(t.Context(), time.Millisecond) {
		t.Error("joined without a generation")
	}
	go s.onSynced(nil)
	if !s.AwaitJoin(t.Context(), 10*time.Second) {
		t.Error("the join was not noticed")
	}
	s.onJoining()
	if s.AwaitJoin(t.Context(), time.Millisecond) {
		t.Error("a member that joins again counts as joined")
	}
}

func TestJoinWakesWhoWaitsForIt(t *testing.T) {
	s := bare()
	woken := make(chan bool)
	go func() { woken <- s.AwaitJoin(context.Background(), time.Hour) }()
	s.onSynced(nil)
	select {
	case joined := <-woken:
		if !joined {
			t.Error("woken, but not joined")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nobody woke the owner")
	}
}

// Before the request that adds the offsets leaves, everything that may have changed since the flush is looked at once more.
func TestOffsetsAreRefusedAtTheLastMoment(t *testing.T) {
	live, dead := NewToken(), NewToken()
	dead.Kill()
	offset := func(token *Token) []Offset { return []Offset{{TopicPartition{"in", 1}, 7, "proof", token}} }
	request := func() *kmsg.TxnOffsetCommitRequest {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.ProducerID, req.ProducerEpoch = 5, 2
		topic := kmsg.NewTxnOffsetCommitRequestTopic() // what the client polled
		topic.Topic = "polled"
		req.Topics = append(req.Topics, topic)
		return req
	}
	for _, c := range []struct {
		name    string
		session *Session
		offsets []Offset
		want    error
	}{
		{"all is well", &Session{begun: producer{5, 2}}, offset(live), nil},
		{"token lost", &Session{begun: producer{5, 2}}, offset(dead), ErrTokenLost},
		{"record refused", &Session{begun: producer{5, 2}, failures: make([]Failure, 1)}, offset(live), errRefused},
		{"other epoch", &Session{begun: producer{5, 1}}, offset(live), errNewEpoch},
		{"other producer id", &Session{begun: producer{4, 2}}, offset(live), errNewEpoch},
	} {
		req := request()
		if err := c.session.replace(c.offsets, req); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if c.want != nil {
			continue
		}
		if len(req.Topics) != 1 || req.Topics[0].Topic != "in" || req.Topics[0].Partitions[0].Offset != 7 || *req.Topics[0].Partitions[0].Metadata != "proof" {
			t.Errorf("%s: sent %+v, want our offset alone", c.name, req.Topics)
		}
	}
}
