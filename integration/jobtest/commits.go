package jobtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// A Commit is one transaction as a committed reader saw it: its marker names the partition and the
// worker that wrote it.
type Commit struct {
	// At is when the reader saw it, Written when its writer made the marker.
	At, Written time.Time
	// Partition is the task, Offset that of the marker in the state topic.
	Partition int32
	Offset    int64
	// Writer is the transactional id: <App>-<instance>-<worker>.
	Writer string
}

// By reports whether a worker of this instance wrote it.
func (c Commit) By(instance string) bool {
	return strings.HasPrefix(c.Writer, App+"-"+instance+"-")
}

// Commits follows the state topic from the side.
type Commits struct {
	mu   sync.Mutex
	seen []Commit
	err  error
}

// FollowCommits reads until the test ends.
func FollowCommits(t testing.TB, seeds []string) *Commits {
	t.Helper()
	cl := kafkatest.Client(t, seeds, kgo.ConsumeTopics(topics.StateTopic(App, "post")),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50*time.Millisecond), kgo.DialTimeout(2*time.Second),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	c := &Commits{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.follow(ctx, cl)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return c
}

func (c *Commits) follow(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx) // errors are the broker's restarts: the client tries again
		now := time.Now()
		c.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) { c.add(now, r) })
		c.mu.Unlock()
	}
}

func (c *Commits) add(now time.Time, r *kgo.Record) {
	if !state.IsMarker(r.Key) {
		return
	}
	m, err := state.ParseMarker(r.Value)
	if err != nil {
		c.err = fmt.Errorf("marker at %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		return
	}
	c.seen = append(c.seen, Commit{At: now, Written: r.Timestamp, Partition: r.Partition, Offset: r.Offset, Writer: m.Writer})
}

// All are the commits so far, in the order in which they were seen. The caller does not write to them.
func (c *Commits) All() []Commit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[:len(c.seen):len(c.seen)]
}

// Count is the number of commits so far.
func (c *Commits) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// Failure is what could not be read.
func (c *Commits) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// First returns the first commit, from index since, that fits.
func (c *Commits) First(since int, fits func(Commit) bool) (Commit, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.seen[since:] {
		if fits(k) {
			return k, true
		}
	}
	return Commit{}, false
}

// Await waits for a commit that fits and comes after index since.
func (c *Commits) Await(t testing.TB, since int, limit time.Duration, what string, fits func(Commit) bool) Commit {
	t.Helper()
	var got Commit
	kafkatest.Within(t, limit, what, func(context.Context) (err error) {
		k, ok := c.First(since, fits)
		if got = k; !ok {
			err = fmt.Errorf("%d commits since, none of them fits", c.Count()-since)
		}
		return err
	})
	return got
}

// Since counts the commits of an instance ("": of all) from an index on, and names their partitions.
func (c *Commits) Since(index int, instance string) (n int, partitions map[int32]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	partitions = map[int32]bool{}
	for _, k := range c.seen[index:] {
		if instance == "" || k.By(instance) {
			n++
			partitions[k.Partition] = true
		}
	}
	return n, partitions
}

// Recovered is when the last of so many partitions showed its readers its first commit that was written after a moment, or how
// many have shown none yet.
func (c *Commits) Recovered(partitions int, after time.Time) (at time.Time, err error) {
	first := map[int32]time.Time{}
	all := c.All()
	for i := len(all) - 1; i >= 0 && all[i].At.After(after); i-- {
		if all[i].Written.After(after) {
			first[all[i].Partition] = all[i].At
		}
	}
	for _, seen := range first {
		if seen.After(at) {
			at = seen
		}
	}
	if len(first) < partitions {
		err = fmt.Errorf("%d of %d partitions have committed what was written since", len(first), partitions)
	}
	return at, err
}

// Written is the end of the state topic now, per partition: what lies below it was written before,
// even if its commit is seen later.
func Written(ctx context.Context, adm *kadm.Client) (map[int32]int64, error) {
	topic := topics.StateTopic(App, "post")
	l, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends := map[int32]int64{}
	for p, o := range l[topic] {
		if o.Err != nil {
			return nil, o.Err
		}
		ends[p] = o.Offset
	}
	return ends, nil
}

// OpenTransactions are the transactional ids of an instance ("": of all) whose transaction is
// undecided on the broker now.
func OpenTransactions(ctx context.Context, adm *kadm.Client, instance string) ([]string, error) {
	return transactions(ctx, adm, instance, "Ongoing")
}

// OwedMarkers are the ids whose transaction is decided and not yet written into all its partitions.
func OwedMarkers(ctx context.Context, adm *kadm.Client) ([]string, error) {
	return transactions(ctx, adm, "", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
}

func transactions(ctx context.Context, adm *kadm.Client, instance string, states ...string) ([]string, error) {
	l, err := adm.ListTransactions(ctx, nil, states)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, x := range l.Sorted() {
		if strings.HasPrefix(x.TxnID, App+"-"+instance) {
			ids = append(ids, x.TxnID)
		}
	}
	return ids, nil
}

// AwaitEnd waits until everything in the input is committed by the instances, none of which may have ended.
func AwaitEnd(t testing.TB, cl *kgo.Client, input string, partitions int32, instances []*Instance) {
	t.Helper()
	kafkatest.Within(t, 2*time.Minute, "the whole input is committed", func(ctx context.Context) error {
		for _, i := range instances {
			i.Running(t)
		}
		return Drained(ctx, cl, input, partitions)
	})
}

// Drained is an error as long as a part of the input is not committed.
func Drained(ctx context.Context, cl *kgo.Client, input string, partitions int32) error {
	for p := range partitions {
		_, end, err := kafkatest.Ends(ctx, cl, input, p)
		if err != nil {
			return err
		}
		next, err := kafkatest.StableOffset(ctx, cl, App, input, p)
		if err != nil {
			return err
		}
		if next != end {
			return fmt.Errorf("%s/%d: committed %d of %d", input, p, next, end)
		}
	}
	return nil
}
