package campaign

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

// commits are what committed readers of the state topic have seen.
type commits struct{ *jobtest.Commits }

// after are the commits that were written and seen after a moment.
func (c commits) after(from time.Time) (list []jobtest.Commit) {
	all := c.All()
	i := len(all)
	for i > 0 && all[i-1].At.After(from) {
		i--
	}
	for _, k := range all[i:] {
		if k.Written.After(from) {
			list = append(list, k)
		}
	}
	return list
}

// recovered is when each partition had committed something written after from, or what is missing.
func (c commits) recovered(from time.Time) (time.Time, error) { return c.Recovered(partitions, from) }

// stood is the longest time within which a partition showed its readers nothing new, from its last commit before one moment
// to its first commit after the other.
func (c commits) stood(from, until time.Time) time.Duration {
	last, longest := map[int32]time.Time{}, time.Duration(0)
	for _, k := range c.All() {
		before, known := last[k.Partition]
		if known && k.At.After(from) && before.Before(until) {
			longest = max(longest, k.At.Sub(before))
		}
		last[k.Partition] = k.At
	}
	return longest
}

// last are the workers that made the last commit of a partition.
func (c commits) last() map[string]bool {
	writers, last := map[int32]string{}, map[string]bool{}
	for _, k := range c.All() {
		writers[k.Partition] = k.Writer
	}
	for _, writer := range writers {
		last[writer] = true
	}
	return last
}

// by counts the commits of an instance written after a moment.
func (c commits) by(instance string, from time.Time) (n int) {
	for _, k := range c.after(from) {
		if k.By(instance) {
			n++
		}
	}
	return n
}

// again says that an instance has committed nothing written after a moment.
func (c commits) again(instance string, from time.Time) error {
	if c.by(instance, from) == 0 {
		return fmt.Errorf("no commit of %s", instance)
	}
	return nil
}

// awaitBy waits for a commit of an instance written after a moment.
func (c commits) awaitBy(t *testing.T, instance string, from time.Time) {
	t.Helper()
	kafkatest.Within(t, patience, instance+" commits", func(context.Context) error { return c.again(instance, from) })
}
