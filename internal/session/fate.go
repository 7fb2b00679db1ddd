package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/topics"
)

// Fate is what an error means for the session it came from.
type Fate uint8

const (
	// Rebuild: close the session, open a new one under the same ids, restore. Nothing is guessed.
	Rebuild Fate = iota
	// Fatal: no new session can help; a person must change something.
	Fatal
	// Unreachable: a Rebuild whose cause is the network or a broker that is down. It is retried for ever.
	Unreachable
)

var fatal = []error{
	kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.TransactionalIDAuthorizationFailed, kerr.DelegationTokenAuthorizationFailed, kerr.SaslAuthenticationFailed,
	kerr.UnsupportedSaslMechanism, kerr.InvalidTransactionTimeout, kerr.InvalidSessionTimeout,
	kerr.InconsistentGroupProtocol, kerr.UnsupportedVersion, kerr.InvalidCommitOffsetSize, kerr.InvalidGroupID,
	kerr.SecurityDisabled, kerr.UnsupportedForMessageFormat,
}

// FatalError marks an error as fatal that is not so by its kind, such as a topic that is missing when it is written.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FatalError) Unwrap() error { return e.Err }

// FateOf classifies an error of a session.
func FateOf(err error) Fate {
	if errors.As(err, new(*FatalError)) {
		return Fatal
	}
	for _, f := range fatal {
		if errors.Is(err, f) {
			return Fatal
		}
	}
	var op *net.OpError
	if errors.As(err, &op) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || kgo.IsRetryableBrokerErr(err) {
		return Unreachable
	}
	return Rebuild
}

// Transient reports whether an error is the network's, or of a broker that asks for patience: the same look may succeed a moment later.
func Transient(err error) bool { return FateOf(err) == Unreachable || kerr.IsRetriable(err) }

// recordFaults are the refusals that the record itself is to blame for.
var recordFaults = []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp}

// blamesRecord reports whether a failed produce is the record's fault, so that without it the transaction would commit.
func blamesRecord(err error) bool {
	if mutant.On("denial-blamed-on-records") && errors.Is(err, kerr.TopicAuthorizationFailed) {
		return true
	}
	for _, f := range recordFaults {
		if errors.Is(err, f) {
			return true
		}
	}
	return false
}

// blame parts the failures that a record is to blame for from the others, of which it returns the first.
func blame(failures []Failure) (records []Failure, other error) {
	for _, f := range failures {
		switch {
		case blamesRecord(f.Err):
			records = append(records, f)
		case other == nil:
			other = producing(f)
		}
	}
	return records, other
}

// producing gives a failed produce that is not the record's fault the fate it has: a topic that is missing or refuses us
// needs a person, everything else a new session.
func producing(f Failure) error {
	err := fmt.Errorf("produce to topic %q: %w", f.Record.Topic, topics.Asked{Right: "WRITE", Topic: f.Record.Topic}.Explain(f.Err))
	if errors.Is(f.Err, kerr.UnknownTopicOrPartition) || errors.Is(f.Err, kerr.PolicyViolation) {
		return &FatalError{err}
	}
	return err
}

// IsFence reports whether a newer producer with the same transactional id, a newer member with the same instance id, or the
// coordinator's time-out, has taken over. Once is no proof of a second process: a join that hung and was sent again arrives
// twice, and then fences the member that it made itself.
func IsFence(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.FencedInstanceID)
}

// LosesInput reports whether a fetch failed because records that were not read are gone, or their topic is: only a person can
// say how to go on.
func LosesInput(err error) bool {
	return errors.As(err, new(*kgo.ErrDataLoss)) || errors.Is(err, kerr.OffsetOutOfRange) ||
		errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

// OutOfRange reports whether a fetch asked for an offset that the partition does not hold.
func OutOfRange(err error) bool { return errors.Is(err, kerr.OffsetOutOfRange) }

// passes reports whether the same request may succeed a moment later.
func passes(err error) bool {
	if err == nil || errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.Canceled) {
		return false
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Retriable || ke.Code == kerr.ConcurrentTransactions.Code || ke.Code == kerr.UnstableOffsetCommit.Code || ke.Code == kerr.UnknownTopicOrPartition.Code || ke.Code == kerr.UnknownServerError.Code
	}
	return FateOf(err) != Fatal
}
