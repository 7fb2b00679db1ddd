package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/topics"
)

// Config is what a session needs. All fields but Client are required.
type Config struct {
	App      string // group id and prefix of the transactional id
	Instance string // prefix of the group instance id
	Worker   int
	Inputs   []string
	Topology Topology
	Admin    *kgo.Client // shared by the workers of a process; the session does not close it
	Client   []kgo.Opt   // connection and security; applied before the session's own options

	SessionTimeout     time.Duration // session.timeout.ms: how long a silent member keeps its tasks
	HeartbeatInterval  time.Duration // heartbeat.interval.ms
	RebalanceTimeout   time.Duration // how long the group waits for members to join again
	TransactionTimeout time.Duration // transaction.timeout.ms: how long the broker lets a transaction be open

	// Assign is the restore gate. It is called on the client's goroutine with the tasks that the group gave to this member,
	// stable offsets at hand, before the first fetch of their partitions; it sets Start and Pause of each. ctx ends when a
	// revoke begins: then it returns ctx.Err() at once and is called again later. It must not call the session.
	Assign         func(ctx context.Context, tasks []*Assignment) error
	MaxRecordBytes int // the smallest max.message.bytes of the topics it writes: the client's batches must fit each of them

	// Partition places a record that names no partition by its key.
	Partition func(topic string, key []byte, partitions int) int
	// Janitor ends the transactions of dead instances that keep offsets from becoming stable.
	Janitor Janitor
	// Unplaced is told that a stable group leaves this many partitions of the inputs to nobody, before the member joins again. It
	// is called on a goroutine of the session; nil is allowed.
	Unplaced func(partitions int)
}

// Assignment is one task given to this member: all its inputs, under one token.
type Assignment struct {
	Task    TaskID
	Inputs  []AssignedInput // by topic
	Missing []string        // inputs of the task that are not with this member: it must not run
	Token   *Token
	Pause   bool // set by Assign: the owner will call Resume for its inputs when the task is ready
}

// AssignedInput is a task's partition of one input.
type AssignedInput struct {
	TopicPartition
	Committed CommittedOffset
	Start     int64 // set by Assign: the first offset to fetch
}

// Partitions returns the partitions that were given with the task.
func (a *Assignment) Partitions() []TopicPartition {
	tps := make([]TopicPartition, len(a.Inputs))
	for i, in := range a.Inputs {
		tps[i] = in.TopicPartition
	}
	return tps
}

// Session is one worker's kgo.GroupTransactSession: one client, one group member, one producer, one transactional id. Its
// methods belong to one goroutine, except Wake.
type Session struct {
	cfg     Config
	id      string
	gts     *kgo.GroupTransactSession
	opened  chan struct{} // closed when gts is set; callbacks wait for it
	inTxn   bool
	begun   producer // who the open transaction belongs to
	promise func(*kgo.Record, error)

	revoked   atomic.Bool // the transact session's sticky flag may be set
	blocked   atomic.Bool // a rebalance waits for AllowRebalance
	woken     atomic.Bool
	uncounted atomic.Bool                        // nobody has looked yet whether the generation leaves a task to nobody
	joining   atomic.Bool                        // the member is between two generations of the group
	joined    chan struct{}                      // holds a signal when it is not any more
	ended     context.CancelFunc                 // ends what runs beside the owner; nil before Open
	cancel    atomic.Pointer[context.CancelFunc] // ends the running poll

	mu       sync.Mutex // guards what callbacks and promises share with the owner
	grants   map[TaskID]grant
	failures []Failure
	waiting  map[TopicPartition]bool // assigned, and not through the gate yet
	watching bool                    // a watchdog runs
	closed   bool                    // assignments that come now are dead at birth
	assigned map[TaskID][]string     // the inputs of each task that the group last gave to this member
	unseen   bool                    // assigned is new since it was looked at
}

// Failure is a record that was not written, and why.
type Failure struct {
	Record *kgo.Record
	Err    error
}

// Open fences the worker's transactional id, so that everything an earlier incarnation left is decided before any offset is
// read, and then joins the group. ctx bounds both; the session outlives it.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	s := &Session{cfg: cfg, id: TransactionalID(cfg.App, cfg.Instance, cfg.Worker), opened: make(chan struct{}), joined: make(chan struct{}, 1), grants: map[TaskID]grant{}, waiting: map[TopicPartition]bool{}}
	s.promise = s.delivered
	s.joining.Store(true)
	if err := s.fence(ctx); err != nil {
		return nil, err
	}
	gts, err := kgo.NewGroupTransactSession(s.options()...)
	if err != nil {
		return nil, fmt.Errorf("open session %q: %w", s.id, err)
	}
	s.gts = gts
	close(s.opened)
	beside, ended := context.WithCancel(context.Background())
	s.ended = ended
	go s.census(beside)
	if mutant.On("no-fence-at-start") {
		return s, nil
	}
	if _, _, err := gts.Client().ProducerID(ctx); err != nil {
		s.Close(ctx)
		return nil, fmt.Errorf("producer id of %q: %w", s.id, topics.Asked{TransactionalID: s.id}.Explain(err))
	}
	return s, nil
}

func (s *Session) fence(ctx context.Context) error {
	if mutant.On("no-fence-at-start") {
		return nil
	}
	return Fence(ctx, s.cfg.Admin, s.id, s.cfg.TransactionTimeout)
}

// ID returns the transactional id.
func (s *Session) ID() string { return s.id }

func (s *Session) options() []kgo.Opt {
	return append(append([]kgo.Opt{kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression())}, s.cfg.Client...),
		kgo.MaxBufferedRecords(1<<20), kgo.MaxBufferedBytes(0), // more than a transaction holds: Produce never waits
		kgo.RecordDeliveryTimeout(0), kgo.RecordRetries(math.MaxInt64), kgo.UnknownTopicRetries(-1), // the commit's deadline decides
		kgo.TransactionalID(s.id), kgo.TransactionTimeout(s.cfg.TransactionTimeout),
		kgo.ConsumerGroup(s.cfg.App), kgo.InstanceID(InstanceID(s.cfg.Instance, s.cfg.Worker)), kgo.ConsumeTopics(s.cfg.Inputs...),
		kgo.Balancers(NewBalancer(s.cfg.Topology, s.onJoining, s.onSynced)),
		kgo.SessionTimeout(s.cfg.SessionTimeout), kgo.HeartbeatInterval(s.cfg.HeartbeatInterval), kgo.RebalanceTimeout(s.cfg.RebalanceTimeout),
		kgo.FetchIsolationLevel(isolation()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NoResetOffset()), // never jump over deleted input
		kgo.KeepControlRecords(),               // else lag never reaches zero on transactional input
		kgo.FetchMaxWait(250*time.Millisecond), // offsets are fetched require-stable, always: the client has no other way
		kgo.RecordPartitioner(partitioner(s.cfg.Partition)), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchMaxBytes(int32(s.cfg.MaxRecordBytes)), kgo.BrokerMaxWriteBytes(int32(max(100<<20, 2*s.cfg.MaxRecordBytes))),
		kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsCallbackBlocked(s.onBlocked),
		kgo.OnPartitionsAssigned(s.onAssigned), kgo.OnPartitionsRevoked(s.onLost), kgo.OnPartitionsLost(s.onExpelled),
		kgo.AdjustFetchOffsetsFn(s.adjust),
	)
}

func isolation() kgo.IsolationLevel {
	if mutant.On("read-uncommitted") {
		return kgo.ReadUncommitted()
	}
	return kgo.ReadCommitted()
}

// partitioner honours an explicit partition (>= 0) and places other records by key.
type partitioner func(topic string, key []byte, partitions int) int

func (p partitioner) ForTopic(string) kgo.TopicPartitioner { return p }
func (partitioner) RequiresConsistency(*kgo.Record) bool   { return true }
func (p partitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return p(r.Topic, r.Key, n)
}

// Poll returns up to n records within wait, or earlier when Wake is called. An ended wait is a context error among the
// fetches. When it returns, no rebalance runs before AllowRebalance.
func (s *Session) Poll(ctx context.Context, wait time.Duration, n int) kgo.Fetches {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	s.cancel.Store(&cancel)
	if s.woken.Swap(false) {
		cancel()
	}
	for {
		if fetches := s.gts.PollRecords(ctx, n); len(fetches) > 0 { // an empty result does not block rebalances
			return fetches
		}
	}
}

// Wake ends the running poll, or the next one, at once. It may be called from any goroutine.
func (s *Session) Wake() {
	s.woken.Store(true)
	if cancel := s.cancel.Load(); cancel != nil {
		(*cancel)()
	}
}

// Drained reports whether the client holds no fetched record.
func (s *Session) Drained() bool { return s.gts.Client().BufferedFetchRecords() == 0 }

// Blocked reports whether a rebalance waits for the open transaction to end.
func (s *Session) Blocked() bool { return s.blocked.Load() }

// AllowRebalance lets a waiting rebalance run. Call it between transactions, on every turn of the loop: within one, the
// revoke would abort it.
func (s *Session) AllowRebalance() {
	s.blocked.Store(false)
	s.dropUnassigned()
	s.gts.AllowRebalance()
}

// AwaitJoin waits until the member has joined the group's new generation, d at most, and reports whether it has. A transaction
// that begins in between cannot commit: its offsets would carry the old generation.
func (s *Session) AwaitJoin(ctx context.Context, d time.Duration) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for s.joining.Load() && !mutant.On("begin-before-the-join") {
		select {
		case <-s.joined:
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// InTransaction reports whether a transaction is open.
func (s *Session) InTransaction() bool { return s.inTxn }

// Rewound clears what a revoke between transactions left behind: the transact session's sticky flag, which would abort the
// next commit for nothing. Clearing it puts every cursor back to the last commit, so when Rewound reports true, everything
// polled and not processed must be dropped. Call it between transactions, after each poll.
func (s *Session) Rewound(ctx context.Context) (bool, error) {
	if !s.revoked.Swap(false) || mutant.On("revoked-flag-kept") {
		return false, nil
	}
	if _, err := s.gts.End(ctx, kgo.TryAbort); err != nil {
		return true, fmt.Errorf("clear the revoked flag: %w", err)
	}
	return true, nil
}

// producer is the identity under which a transaction is written.
type producer struct {
	id    int64
	epoch int16
}

// Begin opens a transaction. It sends nothing, unless the producer id must be made anew: that waits until ctx ends at most.
func (s *Session) Begin(ctx context.Context) (err error) {
	s.dropUnassigned()
	if s.begun.id, s.begun.epoch, err = s.gts.Client().ProducerID(ctx); err != nil {
		return fmt.Errorf("producer id: %w", topics.Asked{TransactionalID: s.id}.Explain(err))
	}
	s.mu.Lock()
	if !mutant.On("failures-outlive-their-transaction") {
		s.failures = nil
	}
	s.mu.Unlock()
	if err := s.gts.Begin(); err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	s.inTxn = true
	return nil
}

// Produce adds a record to the transaction. It does not wait; a record that fails for good shows in the outcome of Commit.
// The record is the session's until the transaction ended. No context: a cancelled produce can be written or not.
func (s *Session) Produce(r *kgo.Record) {
	if mutant.On("no-transaction") || mutant.On("dead-letter-outside-transaction") && r.Topic == topics.DeadLetters(s.cfg.App) {
		s.produceOutside(r)
		return
	}
	s.gts.Produce(context.Background(), r, s.promise)
}

// produceOutside is the sabotage of the mutants no-transaction and dead-letter-outside-transaction: a plain producer.
func (s *Session) produceOutside(r *kgo.Record) {
	client, err := kgo.NewClient(append(slices.Clone(s.cfg.Client), kgo.RecordPartitioner(partitioner(s.cfg.Partition)))...)
	if err == nil {
		defer client.Close()
		err = client.ProduceSync(context.Background(), r).FirstErr()
	}
	s.delivered(r, err)
}

func (s *Session) delivered(r *kgo.Record, err error) {
	if err == nil || errors.Is(err, kgo.ErrAborting) || mutant.On("ignore-failed-promise") {
		return
	}
	s.mu.Lock()
	s.failures = append(s.failures, Failure{r, err})
	s.mu.Unlock()
}

func (s *Session) failed() []Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures
}

// Resume fetches partitions that the gate had paused.
func (s *Session) Resume(tps ...TopicPartition) {
	s.gts.Client().ResumeFetchPartitions(byTopic(tps))
}

// Pause stops fetching partitions, for a task that stopped.
func (s *Session) Pause(tps ...TopicPartition) {
	s.gts.Client().PauseFetchPartitions(byTopic(tps))
}

func byTopic(tps []TopicPartition) map[string][]int32 {
	m := map[string][]int32{}
	for _, tp := range tps {
		m[tp.Topic] = append(m[tp.Topic], tp.Partition)
	}
	return m
}

// Close ends the client and kills all tokens. It does not end an open transaction and does not leave the group: a static
// member keeps its partitions for its return. It waits until ctx ends at most; Close with BlockRebalanceOnPoll would hang
// for ever where CloseAllowingRebalance does not.
func (s *Session) Close(ctx context.Context) {
	s.killAll()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.closeClient()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (s *Session) closeClient() {
	if mutant.On("close-without-allowing-rebalance") {
		s.gts.Close()
		return
	}
	s.gts.CloseAllowingRebalance()
}

func (s *Session) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.ended != nil {
		s.ended()
	}
	for id, g := range s.grants {
		if !mutant.On("tokens-outlive-their-session") {
			g.token.Kill()
		}
		delete(s.grants, id)
	}
	clear(s.waiting)
}
