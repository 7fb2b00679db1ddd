package faults

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

// A commit is one transaction as a committed reader saw it: its marker names the partition and the
// worker that wrote it.
type commit struct {
	at        time.Time // when the reader saw it
	partition int32
	offset    int64  // of the marker
	writer    string // transactional id: <app>-<instance>-<worker>
}

func (c commit) by(instance string) bool {
	return strings.HasPrefix(c.writer, app+"-"+instance+"-")
}

// commits follows the state topic from the side.
type commits struct {
	mu   sync.Mutex
	seen []commit
	err  error
}

// followCommits reads until the test ends.
func followCommits(t *testing.T, seeds []string) *commits {
	t.Helper()
	cl := kafkatest.Client(t, seeds, kgo.ConsumeTopics(topics.StateTopic(app, "post")),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	c := &commits{}
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

func (c *commits) follow(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx) // errors are the broker's restarts: the client tries again
		now := time.Now()
		c.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) { c.add(now, r) })
		c.mu.Unlock()
	}
}

func (c *commits) add(now time.Time, r *kgo.Record) {
	if !state.IsMarker(r.Key) {
		return
	}
	m, err := state.ParseMarker(r.Value)
	if err != nil {
		c.err = fmt.Errorf("marker at %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		return
	}
	c.seen = append(c.seen, commit{now, r.Partition, r.Offset, m.Writer})
}

// count is the number of commits so far.
func (c *commits) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// failure is what could not be read.
func (c *commits) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// first returns the first commit, from index since, that fits.
func (c *commits) first(since int, fits func(commit) bool) (commit, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.seen[since:] {
		if fits(k) {
			return k, true
		}
	}
	return commit{}, false
}

// await waits for a commit that fits and comes after index since.
func (c *commits) await(t *testing.T, since int, limit time.Duration, what string, fits func(commit) bool) commit {
	t.Helper()
	var got commit
	kafkatest.Within(t, limit, what, func(context.Context) (err error) {
		k, ok := c.first(since, fits)
		if got = k; !ok {
			err = fmt.Errorf("%d commits since, none of them fits", c.count()-since)
		}
		return err
	})
	return got
}

// since counts the commits of an instance ("": of all) from an index on, and names their partitions.
func (c *commits) since(index int, instance string) (n int, partitions map[int32]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	partitions = map[int32]bool{}
	for _, k := range c.seen[index:] {
		if instance == "" || k.by(instance) {
			n++
			partitions[k.partition] = true
		}
	}
	return n, partitions
}

// written is the end of the state topic now, per partition: what lies below it was written before,
// even if its commit is seen later.
func written(ctx context.Context, adm *kadm.Client) (map[int32]int64, error) {
	topic := topics.StateTopic(app, "post")
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

// openTransactions are the transactional ids of an instance ("": of all) whose transaction is
// undecided on the broker now.
func openTransactions(ctx context.Context, adm *kadm.Client, instance string) ([]string, error) {
	return transactions(ctx, adm, instance, "Ongoing")
}

// owedMarkers are the ids whose transaction is decided and not yet written into all its partitions.
func owedMarkers(ctx context.Context, adm *kadm.Client) ([]string, error) {
	return transactions(ctx, adm, "", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
}

func transactions(ctx context.Context, adm *kadm.Client, instance string, states ...string) ([]string, error) {
	l, err := adm.ListTransactions(ctx, nil, states)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, x := range l.Sorted() {
		if strings.HasPrefix(x.TxnID, app+"-"+instance) {
			ids = append(ids, x.TxnID)
		}
	}
	return ids, nil
}
