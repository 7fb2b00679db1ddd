package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/bench/profile"
)

const (
	input, updates, ids, accounts = "credit-events", "loop-updates", "loop-ids", "loop-accounts"
	interval, window, maxPoll     = 100 * time.Millisecond, 14 * 24 * time.Hour, 5000 // commits; ids are kept; records a poll
)

type id [16]byte

type account struct{ cents, version int64 }

type undo struct {
	a   *account
	was account
	new id
}

// shard is the state of one partition, with what is to be undone when the transaction aborts.
type shard struct {
	young, old map[id]struct{} // two generations: an id is forgotten after one to two windows
	turned     time.Time       // when the young generation began, in record time
	accounts   map[string]*account
	undo       []undo
}

func (s *shard) seen(x id) bool {
	_, young := s.young[x]
	_, old := s.old[x]
	return young || old
}

func (s *shard) remember(x id, at time.Time) {
	if at.Sub(s.turned) > window {
		s.old, s.young, s.turned = s.young, map[id]struct{}{}, at
	}
	s.young[x] = struct{}{}
}

func (s *shard) account(name []byte) *account {
	a := s.accounts[string(name)]
	if a == nil {
		a = &account{}
		s.accounts[string(name)] = a
	}
	return a
}

func (s *shard) settle(committed bool) {
	for i := len(s.undo) - 1; i >= 0 && !committed; i-- {
		*s.undo[i].a = s.undo[i].was
		delete(s.young, s.undo[i].new)
	}
	s.undo = s.undo[:0]
}

type loop struct {
	gts    *kgo.GroupTransactSession
	codec  codec
	mu     sync.Mutex // partitions come and go in a goroutine of the client
	shards map[int32]*shard
	failed atomic.Pointer[error] // of a record of this transaction
}

// process handles one poll. Its output records come from one slab, their bytes from one buffer, their partition from the input.
func (l *loop) process(fetches kgo.Fetches) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := fetches.NumRecords()
	slab, buf := make([]kgo.Record, 0, 3*n), make([]byte, 0, 420*n)
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			l.failed.CompareAndSwap(nil, &err)
		}
	}
	send := func(topic string, partition int32, key []byte, from int) {
		slab = append(slab, kgo.Record{Topic: topic, Partition: partition, Key: key, Value: buf[from:len(buf):len(buf)]})
		l.gts.Produce(context.Background(), &slab[len(slab)-1], promise)
	}
	for it := fetches.RecordIter(); !it.Done(); {
		r := it.Next()
		s := l.shards[r.Partition]
		if s == nil {
			continue // revoked meanwhile: the transaction will abort
		}
		e, x, amount, err := l.codec.read(r)
		if err != nil {
			return fmt.Errorf("%s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		if s.seen(x) {
			continue
		}
		a := s.account(r.Key)
		s.undo = append(s.undo, undo{a, *a, x})
		s.remember(x, r.Timestamp)
		a.cents, a.version = a.cents+amount, a.version+1
		from := len(buf)
		if buf, err = l.codec.append(buf, e, a, r); err != nil {
			return err
		}
		send(updates, r.Partition, r.Key, from)
		from = len(buf)
		buf = append(buf, x[:]...)
		key := buf[from:len(buf):len(buf)]
		from = len(buf)
		buf = binary.BigEndian.AppendUint64(buf, uint64(r.Timestamp.UnixMilli()))
		send(ids, r.Partition, key, from)
		from = len(buf)
		buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(buf, uint64(a.cents)), uint64(a.version))
		send(accounts, r.Partition, r.Key, from)
	}
	return nil
}

// run commits what it has every interval, until ctx ends.
func (l *loop) run(ctx context.Context) error {
	for ctx.Err() == nil {
		fetches := l.gts.PollRecords(ctx, maxPoll)
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := l.gts.Begin(); err != nil {
			return err
		}
		due, cancel := context.WithTimeout(ctx, interval)
		err := l.process(fetches)
		for err == nil && due.Err() == nil {
			err = l.process(l.gts.PollRecords(due, maxPoll)) // what was polled is committed: none may be left over
		}
		cancel()
		if err = errors.Join(err, l.end(err)); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) end(cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := l.gts.Client().Flush(ctx)
	failed := l.failed.Swap(nil) != nil
	committed, err2 := l.gts.End(ctx, kgo.TransactionEndTry(cause == nil && err == nil && !failed))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shards {
		s.settle(committed)
	}
	return errors.Join(err, err2)
}

// assigned reads the state of partitions back from the changelogs.
func (l *loop) assigned(ctx context.Context, cl *kgo.Client, assigned map[string][]int32) {
	for _, p := range assigned[input] {
		s := &shard{young: map[id]struct{}{}, accounts: map[string]*account{}}
		for _, topic := range []string{ids, accounts} {
			if err := restore(ctx, cl, topic, p, s); err != nil {
				log.Fatalf("restore %s/%d: %v", topic, p, err)
			}
		}
		l.mu.Lock()
		l.shards[p] = s
		l.mu.Unlock()
	}
}

func restore(ctx context.Context, cl *kgo.Client, topic string, p int32, s *shard) error {
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return err
	}
	end, _ := ends.Lookup(topic, p)
	from := map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(0)}}
	reader, err := kgo.NewClient(kgo.SeedBrokers(cl.OptValue(kgo.SeedBrokers).([]string)...), kgo.ConsumePartitions(from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer reader.Close()
	for next := int64(0); next < end.Offset && ctx.Err() == nil; {
		for it := reader.PollFetches(ctx).RecordIter(); !it.Done(); {
			r := it.Next()
			switch next = r.Offset + 1; {
			case r.Attrs.IsControl():
			case topic == ids:
				s.remember(id(r.Key), r.Timestamp)
			default:
				a := s.account(r.Key)
				a.cents, a.version = int64(binary.BigEndian.Uint64(r.Value)), int64(binary.BigEndian.Uint64(r.Value[8:]))
			}
		}
	}
	return errors.Join(ctx.Err(), end.Err)
}

func (l *loop) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range lost[input] {
		delete(l.shards, p)
	}
}

func main() {
	brokers, app := flag.String("brokers", "", "addresses, separated by commas"), flag.String("app", "loop", "group and transactional id")
	scanner, cpu := flag.Bool("scanner", false, "decode by hand"), flag.String("cpuprofile", "", "file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done, err := profile.Start(*cpu)
	if err != nil {
		log.Fatal(err)
	}
	l := &loop{codec: map[bool]codec{false: strict, true: byHand}[*scanner], shards: map[int32]*shard{}}
	l.gts, err = kgo.NewGroupTransactSession(kgo.SeedBrokers(strings.Split(*brokers, ",")...), kgo.ConsumerGroup(*app), kgo.TransactionalID(*app),
		kgo.ConsumeTopics(input), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.SnappyCompression()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(1<<20), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(20*time.Second),
		kgo.FetchMaxWait(250*time.Millisecond), kgo.SessionTimeout(10*time.Second),
		kgo.OnPartitionsAssigned(l.assigned), kgo.OnPartitionsRevoked(l.lost), kgo.OnPartitionsLost(l.lost))
	if err == nil {
		err = l.run(ctx)
		l.gts.Close()
	}
	if done(); err != nil {
		log.Fatal(err)
	}
}
