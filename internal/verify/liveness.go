package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Alive is what the judgement of Liveness saw.
type Alive struct {
	Bound   time.Duration `json:"bound_ns"`
	Members int           `json:"members"` // of the group, when it began; with none the job does not claim to run, and nothing is judged
	Took    time.Duration `json:"took_ns"` // until everything that stood in the input was processed, or the bound
}

// pulse is what liveness asks of the brokers.
type pulse interface {
	members(ctx context.Context) (int, error)
	stable(ctx context.Context, partition int32) (int64, error)
	// progress is the committed offset as it stands; one that is pending is not found.
	progress(ctx context.Context, partition int32) (commit, error)
	after(ctx context.Context, partition int32, offset int64) (*kgo.Record, error)
}

// beat is how often committed offsets are looked at.
const beat = 200 * time.Millisecond

// liveness notes where each partition of the input ends, below undecided transactions, and gives the job the bound's time to
// commit so far.
func liveness(ctx context.Context, k pulse, input string, partitions int32, bound time.Duration, r *Report) error {
	began := time.Now()
	members, err := k.members(ctx)
	if err != nil {
		return err
	}
	r.Alive = &Alive{Bound: bound, Members: members}
	if members == 0 {
		return nil
	}
	ends := map[int32]int64{}
	for p := range partitions {
		if ends[p], err = k.stable(ctx, p); err != nil {
			return err
		}
	}
	behind, err := outlast(ctx, k, ends, bound)
	r.Alive.Took = time.Since(began)
	if err != nil || len(behind) == 0 {
		return err
	}
	if members, err = k.members(ctx); err != nil || members == 0 { // it was stopped meanwhile
		return err
	}
	return late(ctx, k, input, bound, ends, behind, r)
}

// outlast waits until the committed offsets have reached the ends, or the bound; it returns those that have not. A partition that has
// reached its end is not asked again, and an offset that is pending says nothing new: of a busy job one often is.
func outlast(ctx context.Context, k pulse, ends map[int32]int64, bound time.Duration) (behind map[int32]commit, err error) {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	behind = map[int32]commit{}
	for p, end := range ends {
		if end > 0 {
			behind[p] = newCommit(-1, "")
		}
	}
	for {
		for p := range behind {
			c, err := k.progress(ctx, p)
			if err != nil {
				return nil, err
			}
			if c.found {
				behind[p] = c
			}
			if c.next >= ends[p] {
				delete(behind, p)
			}
		}
		if len(behind) == 0 || !pause(bounded, beat) {
			return behind, ctx.Err()
		}
	}
}

// late reports the partitions that are behind, each with the first record that waits.
func late(ctx context.Context, k pulse, input string, bound time.Duration, ends map[int32]int64, behind map[int32]commit, r *Report) error {
	for p := range int32(len(ends)) {
		c, is := behind[p]
		if !is {
			continue
		}
		first, err := k.after(ctx, p, max(c.next, 0))
		if err != nil {
			return err
		}
		if first == nil || first.Offset >= ends[p] { // nothing but control records and aborted ones: no input waits
			continue
		}
		r.add(Violation{Liveness, p, fmt.Sprintf("%s/%d has records up to offset %d, the group has members, and %v later there is %s",
			input, p, ends[p]-1, bound, c), present("waits", first)})
	}
	return nil
}

// members counts those of the job's group.
func (k *kafka) members(ctx context.Context) (n int, err error) {
	err = k.retry(ctx, func() error {
		groups, err := kadm.NewClient(k.client).DescribeGroups(ctx, k.app)
		g := groups[k.app]
		n = len(g.Members)
		if err = cmp.Or(err, g.Err); errors.Is(err, kerr.GroupIDNotFound) { // nobody ever joined it, or it expired
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("members of group %q: %w", k.app, err)
	}
	return n, nil
}

func (k *kafka) progress(ctx context.Context, partition int32) (c commit, err error) {
	err = k.retry(ctx, func() error {
		c, err = k.committedOnce(ctx, partition)
		if errors.Is(err, kerr.UnstableOffsetCommit) {
			c, err = newCommit(-1, ""), nil
		}
		return err
	})
	return c, err
}

// stable is the last stable offset of an input partition.
func (k *kafka) stable(ctx context.Context, partition int32) (int64, error) {
	return k.offsetAs(ctx, committedOnly, k.input, partition, atEnd)
}

// after returns the first committed record of an input partition from an offset on, nil when there is none yet.
func (k *kafka) after(ctx context.Context, partition int32, offset int64) (*kgo.Record, error) {
	s, err := k.open(ctx, k.input, partition, offset)
	if err != nil {
		return nil, err
	}
	return s.peek(ctx)
}
