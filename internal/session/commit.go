package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/topics"
)

// Offset is what a transaction commits for one partition: our own position, never the client's, so that a polled batch may
// outlive a commit.
type Offset struct {
	TopicPartition
	Next     int64  // the first offset not yet processed
	Metadata string // travels with the offset, and proves it at the next restore
	Token    *Token // the right to commit it: a dead one refuses the transaction
}

// Result is what is known of a transaction's end.
type Result uint8

const (
	// Committed: proven. Only now may an overlay be merged.
	Committed Result = iota
	// Aborted: proven. The session goes on; the cursor is back at the last commit.
	Aborted
	// Unknown: committed, aborted, or still to be committed by a request that sits in a socket. Only fencing the id decides
	// it, and that ends this session too: rebuild.
	Unknown
)

// Outcome is how a transaction ended.
type Outcome struct {
	Result   Result
	Err      error     // why it did not commit
	Failures []Failure // records that were refused for what they are; their inputs are to blame
}

var (
	// ErrTokenLost says that a task of the transaction was lost before the commit.
	ErrTokenLost = errors.New("a task of the transaction was lost")
	errRefused   = errors.New("a record of the transaction was not written")
	errRevoked   = errors.New("a rebalance took partitions away before the commit")
	// The client can make its producer id anew in mid transaction and send the rest under it: what was acknowledged before is
	// gone with the old one, and a commit would cover the rest alone.
	errNewEpoch  = errors.New("the client changed its producer epoch within the transaction")
	errUncertain = errors.New("the commit was answered with neither success nor error")
)

// Commit flushes, then looks at the produce errors, then ends the transaction. The order matters: End flushes by itself but
// ignores the errors, so that a check before the flush commits offsets whose records were refused. flushed, which may be
// nil, is called between the flush and the commit. ctx must have a deadline; when it passes, the outcome is Unknown.
func (s *Session) Commit(ctx context.Context, offsets []Offset, flushed func()) Outcome {
	early := s.failed()
	if err := s.gts.Client().Flush(ctx); err != nil {
		blamed, _ := blame(s.failed())
		return s.end(Outcome{Unknown, fmt.Errorf("flush: %w", err), blamed})
	}
	failures := s.failed()
	if mutant.On("check-before-flush") {
		failures = early
	}
	blamed, cause := blame(failures)
	if cause != nil {
		return s.end(Outcome{Unknown, s.denied(cause, offsets), blamed})
	}
	if len(failures) > 0 {
		return s.abort(ctx, errRefused, failures)
	}
	if err := live(offsets); err != nil {
		return s.abort(ctx, err, nil)
	}
	if flushed != nil {
		flushed()
	}
	if mutant.On("offsets-outside-transaction") {
		offsets = s.commitOutside(ctx, offsets)
	}
	defer s.allowWhenStuck()()
	asked := false // whether the client came as far as asking for the offsets: before that it can only have aborted
	committed, err := s.gts.End(kgo.PreTxnCommitFnContext(ctx, s.ownOffsets(offsets, &asked)), kgo.TryCommit)
	switch {
	case committed && err == nil:
		return s.end(Outcome{Result: Committed})
	case errors.Is(err, ErrTokenLost), errors.Is(err, errRefused): // our own refusal: no commit was attempted
		return s.end(Outcome{Aborted, err, s.failed()})
	case err != nil:
		return s.end(Outcome{Unknown, s.denied(err, offsets), nil})
	case !asked:
		return s.end(Outcome{Aborted, errRevoked, nil})
	case mutant.On("no-verification-after-false-nil"):
		return s.end(Outcome{Aborted, errUncertain, nil})
	default:
		return s.end(Outcome{Unknown, errUncertain, nil})
	}
}

// denied names the right that a commit lacked.
func (s *Session) denied(err error, offsets []Offset) error {
	asked := topics.Asked{Right: "READ", Group: s.cfg.App, TransactionalID: s.id}
	for _, o := range offsets {
		if asked.Topic == "" || strings.Contains(err.Error(), "topic "+o.Topic+" ") && !mutant.On("commit-denied-topic") { // the client's words name the one that it failed on
			asked.Topic = o.Topic
		}
	}
	return asked.Explain(err)
}

func (s *Session) end(o Outcome) Outcome {
	s.inTxn = false
	return o
}

// Abort ends the transaction without a commit.
func (s *Session) Abort(ctx context.Context) Outcome { return s.abort(ctx, nil, nil) }

func (s *Session) abort(ctx context.Context, why error, failures []Failure) Outcome {
	if _, err := s.gts.End(ctx, kgo.TryAbort); err != nil {
		return s.end(Outcome{Unknown, errors.Join(why, fmt.Errorf("abort: %w", err)), failures})
	}
	return s.end(Outcome{Aborted, why, failures})
}

// endPatience is how long the end of a transaction may hold up a rebalance.
const endPatience = time.Second

// allowWhenStuck lets a waiting rebalance run when the end of the transaction takes long; the function that it returns ends the
// watch. The group may have turned this member away: then the client sends no heartbeat before the rebalance has run, and End
// waits for one. The revoke aborts the transaction, which could not have committed.
func (s *Session) allowWhenStuck() (done func()) {
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(endPatience)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				if s.blocked.Load() {
					s.gts.AllowRebalance()
				}
			}
		}
	}()
	return func() { close(ended) }
}

// ownOffsets notes that the client asks for the offsets, and replaces its own by ours.
func (s *Session) ownOffsets(offsets []Offset, asked *bool) func(*kmsg.TxnOffsetCommitRequest) error {
	return func(req *kmsg.TxnOffsetCommitRequest) error {
		*asked = true
		return s.replace(offsets, req)
	}
}

// replace puts our offsets in place of the client's and looks once more at tokens and produce errors. It must not block. (The
// sabotages stand here and not in the closure: there the compiler leaves the switch in the binary.)
func (s *Session) replace(offsets []Offset, req *kmsg.TxnOffsetCommitRequest) error {
	if len(s.failed()) > 0 && !mutant.On("check-before-flush") {
		return errRefused
	}
	if (producer{req.ProducerID, req.ProducerEpoch}) != s.begun && !mutant.On("new-epoch-accepted") {
		return errNewEpoch
	}
	if err := live(offsets); err != nil && !mutant.On("tokens-not-looked-at-last") {
		return err
	}
	ours := offsetTopics(offsets)
	if mutant.On("client-offsets") {
		ours = withOffsetsOf(ours, req.Topics)
	}
	req.Topics = ours
	return nil
}

func live(offsets []Offset) error {
	for _, o := range offsets {
		if !o.Token.Live() && !mutant.On("commit-for-dead-token") {
			return fmt.Errorf("%w: %s/%d", ErrTokenLost, o.Topic, o.Partition)
		}
	}
	return nil
}

func offsetTopics(offsets []Offset) []kmsg.TxnOffsetCommitRequestTopic {
	var named []kmsg.TxnOffsetCommitRequestTopic
	at := map[string]int{}
	for _, o := range offsets {
		i, ok := at[o.Topic]
		if !ok {
			i = len(named)
			at[o.Topic] = i
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic = o.Topic
			named = append(named, t)
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.Partition, o.Next, -1, kmsg.StringPtr(o.Metadata)
		named[i].Partitions = append(named[i].Partitions, p)
	}
	return named
}

// commitOutside is the sabotage of the mutant offsets-outside-transaction: a plain offset commit ahead of the transaction's.
func (s *Session) commitOutside(ctx context.Context, offsets []Offset) []Offset {
	plain := map[string]map[int32]kgo.EpochOffset{}
	for _, o := range offsets {
		if plain[o.Topic] == nil {
			plain[o.Topic] = map[int32]kgo.EpochOffset{}
		}
		plain[o.Topic][o.Partition] = kgo.EpochOffset{Epoch: -1, Offset: o.Next}
	}
	s.gts.Client().CommitOffsetsSync(ctx, plain, nil)
	return nil
}

// withOffsetsOf is the sabotage of the mutant client-offsets: the client counts a record as done once it was polled.
func withOffsetsOf(ours, theirs []kmsg.TxnOffsetCommitRequestTopic) []kmsg.TxnOffsetCommitRequestTopic {
	for i := range ours {
		for j := range ours[i].Partitions {
			for _, t := range theirs {
				for _, p := range t.Partitions {
					if t.Topic == ours[i].Topic && p.Partition == ours[i].Partitions[j].Partition {
						ours[i].Partitions[j].Offset = p.Offset
					}
				}
			}
		}
	}
	return ours
}
