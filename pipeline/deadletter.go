package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// DeadLetter is the error with which a handler sends its record to the dead letters, in the same transaction, with its writes
// undone. reason is one machine word ("conflict"); err, which may be nil, is for the reader.
func DeadLetter(reason string, err error) error { return &deadLetterError{reason: reason, err: err} }

// DeadLetterWith is DeadLetter with headers of its own, such as where the first of two conflicting events stands.
func DeadLetterWith(reason string, err error, headers ...record.Header) error {
	return &deadLetterError{reason: reason, err: err, headers: headers}
}

type deadLetterError struct {
	reason  string
	err     error
	headers []record.Header
}

func (d *deadLetterError) Error() string {
	if d.err == nil {
		return d.reason
	}
	return d.reason + ": " + d.err.Error()
}

func (d *deadLetterError) Unwrap() error { return d.err }

// Policy is what happens to a record whose handler returns an error that is no dead letter.
type Policy uint8

const (
	// Fail stops the task: nothing is lost, nothing is skipped, and someone has to look.
	Fail Policy = iota
	// Retry calls the handler up to three times within the transaction, then fails.
	Retry
	// Skip counts the record and goes on. Its offset is committed: for the stage, it is gone.
	Skip
	// ToDeadLetters sends the record to the dead letters with the reason handler_error.
	ToDeadLetters
)

// Headers of a dead letter. The first five are those of Kafka Streams (KIP-1034).
const (
	HeaderException = "__streams.errors.exception"
	HeaderMessage   = "__streams.errors.message"
	HeaderTopic     = "__streams.errors.topic"
	HeaderPartition = "__streams.errors.partition"
	HeaderOffset    = "__streams.errors.offset"
	HeaderReason    = "tallystick.reason"
	HeaderStage     = "tallystick.stage"
	HeaderFirst     = "tallystick.first" // topic/partition/offset of the first of two conflicting events
	HeaderClock     = "tallystick.clock" // the wall clock that judged a timestamp, RFC 3339
	HeaderValue     = "tallystick.value" // what a value that did not fit was: size and SHA-256
	HeaderTime      = "tallystick.time"  // the record time of the input, RFC 3339: a redrive gives it back
)

// HeaderRedriven marks a record of the dead letters as a note: it is no dead letter, but says that the one at the position in
// the header (topic/partition/offset) was sent to its input again. It stands in the same partition, and was written in the same
// transaction as the new input, whose position is in HeaderRedrivenAs. A note outlives its dead letter, because it is younger.
// Readers of dead letters pass over notes.
const (
	HeaderRedriven   = "tallystick.redriven"
	HeaderRedrivenAs = "tallystick.redriven.as"
	HeaderRedrivenBy = "tallystick.redriven.by" // user@host, as the operator's machine says
)

// HeaderLost marks a record of the dead letters as a note, too: retention deleted input of this partition before it was processed,
// from the position in the header (topic/partition/offset) to below the offset in HeaderLostNext, and an operator had the job go on
// behind it (reset apply --skip-lost).
const (
	HeaderLost     = "tallystick.lost"
	HeaderLostNext = "tallystick.lost.next"
	HeaderLostBy   = "tallystick.lost.by" // user@host, as the operator's machine says
)

// timeLayout is RFC 3339 to the millisecond, which is all that Kafka keeps.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

const maxMessage = 1 << 10 // bytes of HeaderMessage

// deadLetter builds the record for the dead letters. It is off the hot path and allocates.
func (t *Task) deadLetter(in *Input, d *deadLetterError) (Out, error) {
	out := Out{Topic: topics.DeadLetters(t.stage.p.app), Partition: t.partition, Key: clone(in.Key), Value: clone(in.Value), Timestamp: WhenWritten}
	for _, h := range in.Headers {
		if !isErrorHeader(h.Key) {
			out.Headers = append(out.Headers, record.Header{Key: h.Key, Value: clone(h.Value)})
		}
	}
	add := func(key, value string) {
		out.Headers = append(out.Headers, record.Header{Key: key, Value: []byte(value)})
	}
	add(HeaderException, d.reason)
	add(HeaderMessage, strings.ToValidUTF8(cut(d.Error(), maxMessage), "�"))
	add(HeaderTopic, in.Topic)
	add(HeaderPartition, strconv.Itoa(int(in.Partition)))
	add(HeaderOffset, strconv.FormatInt(in.Offset, 10))
	add(HeaderReason, d.reason)
	add(HeaderStage, t.stage.name)
	add(HeaderTime, time.UnixMilli(in.Timestamp).UTC().Format(timeLayout))
	out.Headers = append(out.Headers, d.headers...)
	return t.fitDeadLetter(out)
}

// fitDeadLetter drops the value of a dead letter that its topic would refuse: headers, hash and source position are enough to
// find the original.
func (t *Task) fitDeadLetter(out Out) (Out, error) {
	if t.limits.check(out.Topic, out.size()) == nil {
		return out, nil
	}
	sum := sha256.Sum256(out.Value)
	note := fmt.Sprintf("dropped size=%d sha256=%s", len(out.Value), hex.EncodeToString(sum[:]))
	out.Value = nil
	out.Headers = append(out.Headers, record.Header{Key: HeaderValue, Value: []byte(note)})
	if err := t.limits.check(out.Topic, out.size()); err != nil {
		return out, fmt.Errorf("dead letter without its value: %w", err)
	}
	return out, nil
}

func isErrorHeader(key string) bool {
	return strings.HasPrefix(key, "__streams.errors.") || strings.HasPrefix(key, "tallystick.")
}

func futureTimestamp(in *Input) *deadLetterError {
	clock := time.UnixMilli(in.Clock).UTC().Format(time.RFC3339Nano)
	return &deadLetterError{
		reason:  "future_timestamp",
		err:     fmt.Errorf("record time %s is more than %s ahead of the clock: fix the producer's clock and send it again", time.UnixMilli(in.Timestamp).UTC().Format(time.RFC3339), maxAhead),
		headers: []record.Header{{Key: HeaderClock, Value: []byte(clock)}},
	}
}

var errNullKey = errors.New("the record has no key: the key decides which task owns it")

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}
