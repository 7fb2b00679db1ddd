//go:build synctests

package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// What the ledger job itself hardly ever meets is told without it. A story of this kind returns the marks it found.

// deadToken loses a task in the middle of a transaction, unknown to the client, and commits: the broker would accept it.
func deadToken(w *world) (marks []string) {
	w.feeder.orders <- 100
	close(w.feeder.orders)
	<-w.feeder.done
	defer w.close()
	tokens := map[session.TopicPartition]*session.Token{}
	arrived := make(chan struct{})
	s, err := session.Open(w.ctx, session.Config{
		App: app, Instance: "lost", Inputs: []string{inputTopic}, Admin: w.admin, Client: w.direct(),
		Topology:       session.Topology{StageOf: map[string]string{inputTopic: "post"}},
		SessionTimeout: 10 * time.Second, HeartbeatInterval: 3 * time.Second, RebalanceTimeout: 15 * time.Second, TransactionTimeout: 20 * time.Second,
		MaxRecordBytes: 1 << 20,
		Assign: func(_ context.Context, tasks []*session.Assignment) error {
			for _, a := range tasks {
				tokens[a.Inputs[0].TopicPartition] = a.Token
			}
			close(arrived)
			return nil
		},
		Partition: func(string, []byte, int) int { return 0 },
	})
	if err != nil {
		w.fail("open: %v", err)
		return nil
	}
	defer func() {
		s.Close(w.ctx)
		time.Sleep(5 * time.Second) // what the session watched ends
	}()
	<-arrived
	for range 60 {
		s.AllowRebalance()
		if s.Poll(w.ctx, time.Second, 1000).NumRecords() > 0 {
			break
		}
	}
	if err := s.Begin(w.ctx); err != nil {
		w.fail("begin: %v", err)
		return nil
	}
	lost := session.TopicPartition{Topic: inputTopic, Partition: 1}
	s.Produce(&kgo.Record{Topic: updatesTopic, Partition: 1, Key: []byte("k"), Value: []byte("v")})
	tokens[lost].Kill()
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	out := s.Commit(ctx, []session.Offset{{TopicPartition: lost, Next: 7, Token: tokens[lost]}}, nil)
	committed, err := session.FetchCommitted(w.ctx, w.admin, app, []session.TopicPartition{lost})
	if err != nil {
		w.fail("committed: %v", err)
	}
	if committed[lost].Next != session.NoOffset {
		marks = append(marks, "dead token")
	}
	if out.Result == session.Aborted && !errors.Is(out.Err, session.ErrTokenLost) {
		w.fail("aborted for another reason: %v", out.Err)
	}
	return marks
}

// failedRecord has a handler fail after it asked the inbox, and sends the same id again: the first must have left no trace.
func failedRecord(w *world) (marks []string) {
	defer w.close()
	close(w.feeder.orders)
	<-w.feeder.done
	p := pipeline.New(app)
	s := p.Stage("once")
	inbox := state.NewDedupe(s, "inbox", time.Hour)
	var verdicts []state.Verdict
	in := topics.New(inputTopic, record.String, record.String)
	pipeline.Handle(s, in, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		verdicts = append(verdicts, inbox.Check(c, "id", r.Time, state.Fingerprint{}.String("same")))
		if r.Value == "bad" {
			return pipeline.DeadLetter("bad", errors.New("bad"))
		}
		return nil
	})
	task := pipeline.NewTask(s, 0, 1, state.NewMemory(s.Stores()), nil)
	now := time.Now().UnixMilli()
	for offset, value := range []string{"bad", "good", "again"} {
		at := record.Position{Topic: inputTopic, Offset: int64(offset)}
		if _, err := task.Process(&pipeline.Input{Position: at, Key: []byte("k"), Value: []byte(value), Timestamp: now, Clock: now}); err != nil {
			w.fail("process %q: %v", value, err)
		}
	}
	if len(verdicts) != 3 || verdicts[0] != state.New || verdicts[2] != state.Duplicate {
		w.fail("verdicts %v: want new, new, duplicate", verdicts)
	} else if verdicts[1] != state.New {
		marks = append(marks, "rolled back")
	}
	return marks
}
