package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/mutant"
)

// Replayer takes the records of a state partition in order.
type Replayer interface {
	// Position is the first offset not yet replayed.
	Position() int64
	// Replay takes one committed record; value nil is a tombstone. The bytes are the reader's.
	Replay(key, value []byte) error
	// SetPosition says that everything below next has been replayed or holds nothing.
	SetPosition(next int64)
	// Proven reports whether the contents are proven complete, so that nothing further needs to be read.
	Proven() bool
	// Reset forgets the contents: the log no longer reaches back to Position.
	Reset() error
	// Progress tells how far the restore is: once before the first record, and after each fetch.
	Progress(RestoreResult)
}

// RestoreResult says how a restore went.
type RestoreResult struct {
	From, To, Target int64 // offsets of the state partition: first read, next, and the high watermark that was aimed at
	Records          int64
	ByProof          bool // ended by proof at the last stable offset: the open transaction above it was not waited for
}

// Restore replays a state partition, read committed, until the contents are proven and nothing that is decided stands above
// them, or the position reaches the high watermark, read once at the start. Position counts control records, aborted and
// compacted batches, so a log that ends in them ends the restore. stuck, which may be nil, is called about every two seconds
// without progress: with the error that keeps coming, or nil while an open transaction holds the reader below the target.
// Restore blocks; ctx ends it, and it can be called again to go on from Position.
//
// Stopping at the last stable offset would be wrong: the previous owner's commit can be visible in the group before its
// marker is in this partition (KAFKA-10167; on three brokers after a fifth of all commits).
func Restore(ctx context.Context, client *kgo.Client, tp TopicPartition, r Replayer, stuck func(context.Context, error)) (res RestoreResult, err error) {
	if res.Target, err = restoreTarget(ctx, client, tp); err != nil {
		return res, err
	}
	if r.Position() > res.Target && !mutant.On("base-ahead-of-its-topic") { // the topic was truncated or made anew: local contents prove nothing about it
		if err := r.Reset(); err != nil {
			return res, err
		}
	}
	log := &partitionReader{client: client, tp: tp, stable: res.Target}
	res.From = r.Position()
	progress := func() {
		res.To = r.Position()
		r.Progress(res)
	}
	progress()
	quiet := time.Now()
	for r.Position() < res.Target && !(r.Proven() && (r.Position() >= log.stable || mutant.On("proof-with-more-above"))) {
		before := r.Position()
		n, err := log.replay(ctx, r)
		res.Records += n
		progress()
		if err != nil && mutant.On("interrupted-restore-is-complete") {
			r.SetPosition(res.Target)
		}
		if err != nil {
			return res, err
		}
		switch {
		case r.Position() > before:
			quiet = time.Now()
		case stuck != nil && time.Since(quiet) > 2*time.Second:
			quiet = time.Now()
			stuck(ctx, log.last)
			if end, err := restoreTarget(ctx, client, tp); err == nil { // a leader that lost its tail ends the log below the target
				res.Target = min(res.Target, end)
			}
		}
	}
	res.To = r.Position()
	res.ByProof = r.Proven() && r.Position() < res.Target
	return res, nil
}

func restoreTarget(ctx context.Context, client *kgo.Client, tp TopicPartition) (int64, error) {
	if mutant.On("restore-to-last-stable-offset") || mutant.On("last-stable-offset-believed") {
		return StableOffset(ctx, client, tp)
	}
	return EndOffset(ctx, client, tp)
}

// partitionReader fetches one partition with raw requests, because only those give an exact position.
type partitionReader struct {
	client *kgo.Client
	tp     TopicPartition
	leader int32
	id     [16]byte
	known  bool
	// stable is the last stable offset as last fetched. A proof counts only there: a broker that lost the offsets of a commit
	// but not its state would else be believed, and the commit processed twice.
	stable int64
	last   error // what kept the last fetch from succeeding, nil if nothing
	retry  retry
}

const (
	restoreWait     = 250 * time.Millisecond
	restoreMaxBytes = 8 << 20
)

// replay fetches once and replays what came. It refreshes the leader and retries what passes.
func (p *partitionReader) replay(ctx context.Context, r Replayer) (int64, error) {
	part, next, err := p.fetch(ctx, r.Position())
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return 0, p.restart(ctx, r)
	case err != nil && p.retry.again(ctx, err):
		p.known, p.last = false, err
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("restore %s/%d at offset %d: %w", p.tp.Topic, p.tp.Partition, r.Position(), errors.Join(err, ctx.Err()))
	}
	p.last, p.retry, p.stable = nil, retry{}, part.LastStableOffset
	var n int64
	for _, rec := range part.Records {
		if err := r.Replay(rec.Key, rec.Value); err != nil {
			return n, fmt.Errorf("restore %s/%d at offset %d: %w", p.tp.Topic, p.tp.Partition, rec.Offset, err)
		}
		n++
		r.SetPosition(rec.Offset + 1)
	}
	if next > r.Position() && !mutant.On("position-by-record-offsets") {
		r.SetPosition(next)
	}
	return n, nil
}

// restart begins at the log's start: what lay before it was deleted, so that the local contents cannot be continued.
func (p *partitionReader) restart(ctx context.Context, r Replayer) error {
	start, err := StartOffset(ctx, p.client, p.tp)
	if err != nil {
		return err
	}
	if mutant.On("truncated-log-continued") {
		r.SetPosition(start)
		return nil
	}
	if err := r.Reset(); err != nil {
		return err
	}
	r.SetPosition(start)
	return nil
}

func (p *partitionReader) fetch(ctx context.Context, at int64) (part kgo.FetchPartition, next int64, err error) {
	if err := p.locate(ctx); err != nil {
		return part, at, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(restoreWait.Milliseconds())
	req.MinBytes, req.MaxBytes = 1, 4*restoreMaxBytes
	req.IsolationLevel = 1 // read_committed
	req.SessionEpoch = -1  // no fetch session
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = p.tp.Topic, p.id
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.Partition, fp.FetchOffset, fp.CurrentLeaderEpoch, fp.PartitionMaxBytes = p.tp.Partition, at, -1, restoreMaxBytes
	ft.Partitions = append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
	kresp, err := p.client.Broker(int(p.leader)).RetriableRequest(ctx, req)
	if err != nil {
		return part, at, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return part, at, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return part, at, kerr.NotLeaderForPartition
	}
	return p.decode(&resp.Topics[0].Partitions[0], at)
}

func (p *partitionReader) decode(rp *kmsg.FetchResponseTopicPartition, at int64) (kgo.FetchPartition, int64, error) {
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
		return kgo.FetchPartition{}, at, err
	}
	part, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: at, IsolationLevel: restoreIsolation(), Topic: p.tp.Topic, Partition: p.tp.Partition,
	}, rp, kgo.DefaultDecompressor(), nil)
	if next <= at && len(rp.RecordBatches) == 0 && rp.LastStableOffset > at {
		next = rp.LastStableOffset // nothing below the last stable offset: the tail was compacted away
	}
	if part.Err != nil && !mutant.On("damaged-batch-passed-over") { // the client checks what brokers do not: CRC, lengths, magic
		return part, at, fmt.Errorf("%w: %w", kerr.CorruptMessage, part.Err)
	}
	return part, next, nil
}

func restoreIsolation() kgo.IsolationLevel {
	if mutant.On("restore-uncommitted") {
		return kgo.ReadUncommitted()
	}
	return kgo.ReadCommitted()
}

func (p *partitionReader) locate(ctx context.Context) error {
	if p.known {
		return nil
	}
	topics, err := kadm.NewClient(p.client).ListTopics(ctx, p.tp.Topic)
	if err != nil {
		return err
	}
	d, ok := topics[p.tp.Topic]
	if !ok || d.Err != nil {
		return fmt.Errorf("topic %q: %w", p.tp.Topic, errors.Join(d.Err, kerr.UnknownTopicOrPartition))
	}
	part, ok := d.Partitions[p.tp.Partition]
	if !ok || part.Leader < 0 {
		return fmt.Errorf("topic %q partition %d: %w", p.tp.Topic, p.tp.Partition, kerr.LeaderNotAvailable)
	}
	p.leader, p.id, p.known = part.Leader, d.ID, true
	return nil
}
