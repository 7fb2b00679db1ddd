package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFateOfErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Fate
	}{
		{kerr.TransactionalIDAuthorizationFailed, Fatal},
		{kerr.FencedInstanceID, Rebuild},
		{&FatalError{errors.New("topic is gone")}, Fatal},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, Unreachable},
		{io.EOF, Unreachable},
		{fmt.Errorf("flush: %w", context.DeadlineExceeded), Unreachable},
		{kerr.ProducerFenced, Rebuild},
		{errUncertain, Rebuild},
		{errors.New("never seen before"), Rebuild},
	} {
		if got := FateOf(c.err); got != c.want {
			t.Errorf("FateOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

// A time-out fails thousands of records at once; none of their inputs is to blame, and no policy may skip them.
func TestOnlyARecordsOwnFaultIsBlamedOnIt(t *testing.T) {
	failure := func(err error) Failure { return Failure{&kgo.Record{Topic: "out"}, err} }
	records, other := blame([]Failure{failure(kerr.MessageTooLarge), failure(kerr.InvalidTimestamp)})
	if len(records) != 2 || other != nil {
		t.Errorf("%d blamed, %v", len(records), other)
	}
	records, other = blame([]Failure{failure(kerr.InvalidProducerEpoch), failure(kerr.MessageTooLarge)})
	if len(records) != 1 || FateOf(other) != Rebuild {
		t.Errorf("%d blamed, %v", len(records), other)
	}
	for _, err := range []error{kerr.TopicAuthorizationFailed, kerr.PolicyViolation} {
		if records, other := blame([]Failure{failure(err)}); len(records) != 0 || FateOf(other) != Fatal {
			t.Errorf("%v: %d blamed, fate %d, want none and fatal", err, len(records), FateOf(other))
		}
	}
}
