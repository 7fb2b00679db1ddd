package verify

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A world is a history made by hand: logs in memory, and a job that is written a second time, as simply as possible.

const (
	testApp    = "bank"
	testWindow = 64 * time.Second // buckets of one second
	testNow    = int64(1_800_000_000_000)
)

type world struct {
	topics     Topics
	partitions int32
	logs       map[string][][]*kgo.Record
	commits    []commit
	jobs       []*job
	first      map[string]int64             // log start by topic/partition
	stable     map[string]map[int32]int64   // last stable offset by topic and partition, where a transaction is open
	patient    map[string]bool              // waiting ends that transaction
	moved      func(partition int32, n int) // before the n-th look at a committed offset
	looks      []int
	joined     int           // members of the group
	later      time.Duration // since everything was written
}

func newWorld(partitions int32) *world {
	w := &world{
		topics: Topics{}.withDefaults(testApp), partitions: partitions, logs: map[string][][]*kgo.Record{}, commits: make([]commit, partitions),
		first: map[string]int64{}, stable: map[string]map[int32]int64{}, patient: map[string]bool{}, looks: make([]int, partitions),
	}
	for _, topic := range []string{w.topics.Input, w.topics.Updates, w.topics.Skipped, w.topics.DeadLetters, w.topics.State} {
		w.logs[topic] = make([][]*kgo.Record, partitions)
	}
	for p := range partitions {
		w.jobs = append(w.jobs, &job{w: w, p: p, accounts: map[string]jobAccount{}, ids: map[string]jobID{}, state: map[string]string{}, streamTime: noTime, autoCreate: true})
	}
	return w
}

func where(topic string, p int32) string { return fmt.Sprintf("%s/%d", topic, p) }

// append adds a record behind the last one.
func (w *world) append(topic string, p int32, r kgo.Record) *kgo.Record {
	log := w.logs[topic][p]
	r.Topic, r.Partition = topic, p
	if r.Offset == 0 && len(log) > 0 {
		r.Offset = log[len(log)-1].Offset + 1
	}
	if r.Timestamp.IsZero() {
		r.Timestamp = time.UnixMilli(testNow)
	}
	w.logs[topic][p] = append(log, &r)
	return &r
}

// openFrom makes a transaction on partition 0 undecided.
func (w *world) openFrom(topic string, stable int64) { w.stable[topic] = map[int32]int64{0: stable} }

func (w *world) rules() rules {
	return rules{
		topics: w.topics, place: partitionOf, partitions: w.partitions, window: testWindow, autoCreate: true,
		now: func() time.Time { return time.UnixMilli(testNow).Add(w.later) }, progress: func(int32, int64) {}, memory: memory{bytes: defaultMemory, tables: 1, create: scratchIn("")},
	}
}

// audit judges the world as it is.
func (w *world) audit(t testing.TB) (Report, error) {
	t.Helper()
	return auditAll(t.Context(), w.rules(), w, w.partitions, 1)
}

func (w *world) open(_ context.Context, topic string, p int32, from int64) (stream, error) {
	s := &memStream{w: w, topic: topic, p: p, log: w.logs[topic][p]}
	if len(s.log) > 0 {
		s.end = s.log[len(s.log)-1].Offset + 1
	}
	from = max(from, s.start())
	for len(s.log) > 0 && s.log[0].Offset < from {
		s.pop()
	}
	return s, nil
}

// raw shows the log as if nothing had ever been aborted: worlds made by hand have no control records.
func (w *world) raw(_ context.Context, topic string, p int32, from int64) (rawReader, error) {
	s, err := w.open(context.Background(), topic, p, from)
	return &memRaw{s.(*memStream).log, s.start()}, err
}

// memRaw reads records from memory.
type memRaw struct {
	log   []*kgo.Record
	first int64
}

func (m *memRaw) start() int64 { return m.first }

func (m *memRaw) next(context.Context) (rec *kgo.Record, err error) {
	if len(m.log) > 0 {
		rec, m.log = m.log[0], m.log[1:]
	}
	return rec, nil
}

func (w *world) lookup(_ context.Context, topic string, p int32, offset int64) (*kgo.Record, error) {
	for _, r := range w.logs[topic][p] {
		if r.Offset == offset {
			return r, nil
		}
	}
	return nil, nil
}

func (w *world) committed(_ context.Context, p int32) (commit, error) {
	if w.moved != nil {
		w.moved(p, w.looks[p])
	}
	w.looks[p]++
	return w.commits[p], nil
}

func (w *world) members(context.Context) (int, error) { return w.joined, nil }

type memStream struct {
	w     *world
	topic string
	p     int32
	log   []*kgo.Record // not consumed
	end   int64
}

func (s *memStream) start() int64 { return s.w.first[where(s.topic, s.p)] }

func (s *memStream) peek(context.Context) (*kgo.Record, error) {
	if len(s.log) == 0 || s.log[0].Offset >= s.end {
		return nil, nil
	}
	if stable, open := s.w.stable[s.topic][s.p]; open && s.log[0].Offset >= stable {
		return nil, nil
	}
	return s.log[0], nil
}

func (s *memStream) rest() int64 {
	if len(s.log) == 0 {
		return 0
	}
	return s.end - s.log[0].Offset
}

func (s *memStream) pop() { s.log = s.log[1:] }

func (s *memStream) hidden() *OpenTransaction {
	if stable, open := s.w.stable[s.topic][s.p]; open && stable < s.end {
		return &OpenTransaction{s.topic, s.p, stable, s.end}
	}
	return nil
}

func (s *memStream) wait(context.Context) error {
	if !s.w.patient[where(s.topic, s.p)] {
		return errHidden
	}
	delete(s.w.stable[s.topic], s.p)
	return nil
}

// accountOn returns the n-th account id that belongs to a partition.
func (w *world) accountOn(p int32, n int) string {
	for i := 0; ; i++ {
		id := fmt.Sprintf("ACC-%d", i)
		if partitionOf([]byte(id), w.partitions) != p {
			continue
		}
		if n--; n < 0 {
			return id
		}
	}
}
