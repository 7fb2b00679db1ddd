package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/record"
)

const (
	redriveBatch = 200     // letters in one transaction
	redriveBytes = 8 << 20 // and about so many bytes of them
	// redriveTimeout is how long a killed redrive can hold readers of the input up, if nobody redrives again before.
	redriveTimeout = 15 * time.Second
)

// redriveID is the transactional id of every redrive of an application: whoever comes last is the only one who can write.
func redriveID(app string) string { return app + "-redrive" }

// send takes over from every other redrive, looks at the letters again, and sends what is still to be sent. What the plan that
// it returns calls redriven is committed.
//
// Order matters: the barrier first, then the scan. All earlier redrives are decided by then, and none can commit later.
func (r *redrive) send(ctx context.Context, c *cli, expected int) (*redrivePlan, error) {
	producer, err := r.cfg.newClient(kgo.TransactionalID(redriveID(r.cfg.ApplicationID)), kgo.TransactionTimeout(redriveTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchMaxBytes(r.largest()), kgo.BrokerMaxWriteBytes(1<<30))
	if err != nil {
		return &redrivePlan{}, err
	}
	defer producer.Close()
	if _, _, err := producer.ProducerID(ctx); err != nil {
		return &redrivePlan{}, fmt.Errorf("transactional id %s: %w", redriveID(r.cfg.ApplicationID), err)
	}
	scan := &letterScan{client: r.client, topic: r.topic, whole: !mutant.On("redrive-does-not-wait"), waiting: func(p int32, h *holder) { sayWaiting(c, r.topic, p, h) }}
	plan, book, err := r.plan(ctx, scan)
	if err != nil {
		return plan, err
	}
	s := &sender{redrive: r, producer: producer, sent: book.sent, rows: map[record.Position]*redriveRow{}, progress: newProgress(c, "redrive", int64(expected))}
	defer s.progress.done()
	for _, row := range plan.rows {
		if row.Action == sendIt {
			s.rows[row.letter.at] = row
		}
	}
	return plan, s.run(ctx)
}

// largest is the largest batch that an input takes.
func (r *redrive) largest() int32 {
	n := int64(1 << 20)
	for _, t := range r.targets {
		if t != nil {
			n = max(n, t.limit)
		}
	}
	return int32(min(n, 1<<29))
}

func sayWaiting(c *cli, topic string, p int32, h *holder) {
	whose := "an open transaction"
	if h != nil {
		whose = "the open transaction of " + h.String()
	}
	fmt.Fprintf(c.stderr, "waiting for %s in %s/%d: behind it could stand what another redrive did\n", whose, topic, p)
}

// sender reads the chosen letters once more, with their contents, and writes them in transactions.
type sender struct {
	*redrive
	producer *kgo.Client
	sent     map[string]bool                 // inputs that redrives have written
	rows     map[record.Position]*redriveRow // by the letter
	progress *progress

	batch  []*redriveRow
	inputs []*kgo.Record // of batch
	bytes  int64
}

func (s *sender) run(ctx context.Context) error {
	if len(s.rows) == 0 {
		return nil
	}
	again := &letterScan{client: s.client, topic: s.topic, whole: true}
	err := again.run(ctx, func(rec *kgo.Record) error {
		row := s.rows[record.Position{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}]
		if row == nil {
			return nil
		}
		return s.add(ctx, row, rec)
	})
	if err != nil {
		return err
	}
	return s.commit(ctx)
}

// add stages one letter, and commits what is staged when it is enough.
func (s *sender) add(ctx context.Context, row *redriveRow, letter *kgo.Record) error {
	value := letter.Value
	if row.letter.Dropped != "" {
		in, err := recordAt(ctx, s.client, row.letter.source)
		if err != nil {
			return err
		}
		if in == nil || !row.letter.describes(in.Value) {
			row.Action, row.Why = leftOut, "its value was too large for the dead letters, and the input is not there any more"
			return nil
		}
		value = in.Value
	}
	out := row.again(letter, value, s.sent)
	refusal := row.target.refusal(out, time.Now())
	if refusal == nil {
		s.batch, s.inputs, s.bytes = append(s.batch, row), append(s.inputs, out), s.bytes+size(out)
	} else {
		row.Action, row.Why = leftOut, refusal.Error()
	}
	if len(s.batch) >= redriveBatch || s.bytes >= redriveBytes {
		return s.commit(ctx)
	}
	return nil
}

// commit writes the staged inputs and their notes in one transaction. The notes come last: they name where the inputs stand.
func (s *sender) commit(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	if err := s.producer.BeginTransaction(); err != nil {
		return err
	}
	err := s.write(ctx)
	if err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
		defer cancel()
		return s.explain(errors.Join(err, s.producer.AbortBufferedRecords(end), s.producer.EndTransaction(end, kgo.TryAbort)), false)
	}
	if err := s.producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return s.explain(err, true)
	}
	for i, row := range s.batch {
		row.Action, row.To = sentNow, place(s.inputs[i])
	}
	s.progress.add(len(s.batch))
	s.batch, s.inputs, s.bytes = s.batch[:0], s.inputs[:0], 0
	return nil
}

func (s *sender) write(ctx context.Context) error {
	if err := s.producer.ProduceSync(ctx, s.inputs...).FirstErr(); err != nil {
		return fmt.Errorf("write to %s: %w", s.inputs[0].Topic, err)
	}
	notes := make([]*kgo.Record, len(s.batch))
	for i, row := range s.batch {
		notes[i] = newNote(row.letter, s.inputs[i], s.by)
	}
	if err := s.producer.ProduceSync(ctx, notes...).FirstErr(); err != nil {
		return fmt.Errorf("note it in %s: %w", s.topic, err)
	}
	return nil
}

// explain says what an error means for what was sent.
func (s *sender) explain(err error, committing bool) error {
	const again = "run the same command again: what was sent is left alone"
	switch {
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.InvalidTxnState), errors.Is(err, kerr.InvalidProducerIDMapping):
		return fail(exitFailed, fmt.Errorf("another redrive of %s took over, or this one was silent for %s: what is not called redriven here was not sent by this one: %w", s.cfg.ApplicationID, redriveTimeout, err), again)
	case committing:
		return fail(exitUnavailable, fmt.Errorf("the outcome of the last transaction, of %s, is not known: %w", counted(len(s.batch), "dead letter"), err), again)
	}
	return fail(exitFailed, fmt.Errorf("the last transaction, of %s, was aborted: %w", counted(len(s.batch), "dead letter"), err), rightsFirst(err, again))
}

func place(r *kgo.Record) string { return fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset) }
