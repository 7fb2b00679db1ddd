package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// history is where the judge reads: Kafka, or a test's own.
type history interface {
	// open begins to read committed records of a partition from its start, or from the offset given if that is later, up to
	// the end that the partition has now.
	open(ctx context.Context, topic string, partition int32, from int64) (stream, error)
	// lookup returns the committed record at an offset, nil when there is none: compacted, aborted, a control record.
	lookup(ctx context.Context, topic string, partition int32, offset int64) (*kgo.Record, error)
	// raw begins to read the log of a partition as it is, from an offset on: undecided and aborted records and control
	// records too.
	raw(ctx context.Context, topic string, partition int32, from int64) (rawReader, error)
	// committed returns the group's committed offset of an input partition, once no transaction is pending on it.
	committed(ctx context.Context, partition int32) (commit, error)
	// members counts those of the group.
	members(ctx context.Context) (int, error)
}

// stream reads one partition. What it returns stays valid.
type stream interface {
	// peek returns the next record, nil when there is none to see now.
	peek(ctx context.Context) (*kgo.Record, error)
	// pop consumes what peek returned.
	pop()
	// hidden reports, when peek has returned nil, that undecided transactions lie before the end; nil means that the end is
	// reached.
	hidden() *OpenTransaction
	// wait blocks until peek may see more. It returns errHidden when the patience for open transactions is over.
	wait(ctx context.Context) error
	// rest is how many offsets lie between what was consumed and the end.
	rest() int64
	// start is the first offset that the partition still has.
	start() int64
}

// errHidden says that a transaction stayed open.
var errHidden = errors.New("a transaction is still open")

// UndecidedError says what kept the checker from judging a partition. Nothing was found wrong there, and nothing proven.
type UndecidedError struct {
	Partition int32
	Reason    string // cause and remedy

	midway bool // it may have come between an input and its outcomes: no later round can go on from there
}

func (e *UndecidedError) Error() string {
	return fmt.Sprintf("partition %d: %s", e.Partition, e.Reason)
}
