package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
)

// deadLetter is one record of the dead letters, with what its headers say.
type deadLetter struct {
	Position string     `json:"position"` // partition/offset, as dlq show takes it
	Written  time.Time  `json:"written"`
	Reason   string     `json:"reason"`
	Stage    string     `json:"stage"`
	Message  string     `json:"message"`
	Source   string     `json:"source"`         // topic/partition/offset of the input
	Time     *time.Time `json:"time,omitempty"` // record time of the input; letters of older versions do not have it
	First    string     `json:"first,omitempty"`
	Clock    string     `json:"clock,omitempty"`
	Dropped  string     `json:"dropped,omitempty"` // what is known of a value that did not fit
	Redriven *redriven  `json:"redriven,omitempty"`
	at       record.Position
	source   record.Position
	unplaced error // source could not be read
	key      []byte
}

// redriven is a note: when a letter was sent again, as which input, and by whom.
type redriven struct {
	At   time.Time `json:"at"`
	As   string    `json:"as"` // topic/partition/offset of the new input
	By   string    `json:"by"`
	Note string    `json:"note"` // partition/offset of the note
}

func (r *redriven) String() string {
	return fmt.Sprintf("%s as %s by %s", r.At.UTC().Format(time.RFC3339), r.As, r.By)
}

// readDeadLetter decodes a record of the dead letters.
func readDeadLetter(r *kgo.Record) *deadLetter {
	l := &deadLetter{Position: fmt.Sprintf("%d/%d", r.Partition, r.Offset), Written: r.Timestamp.UTC(), key: bytes.Clone(r.Key),
		at: record.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}}
	own := map[string]string{}
	for _, h := range r.Headers {
		if ownHeader(h.Key) {
			own[h.Key] = string(h.Value)
		}
	}
	l.Reason, l.Stage, l.Message = own[pipeline.HeaderReason], own[pipeline.HeaderStage], own[pipeline.HeaderMessage]
	l.First, l.Clock, l.Dropped = own[pipeline.HeaderFirst], own[pipeline.HeaderClock], own[pipeline.HeaderValue]
	if l.Reason == "" {
		l.Reason = own[pipeline.HeaderException]
	}
	l.Source = strings.Join([]string{own[pipeline.HeaderTopic], own[pipeline.HeaderPartition], own[pipeline.HeaderOffset]}, "/")
	l.source, l.unplaced = parsePosition(l.Source, "")
	if at, err := time.Parse(time.RFC3339Nano, own[pipeline.HeaderTime]); err == nil {
		l.stamp(at)
	}
	return l
}

func (l *deadLetter) stamp(at time.Time) {
	at = at.UTC()
	l.Time = &at
}

// readNote decodes a note, and says of which letter it is; false for a letter.
func readNote(r *kgo.Record) (letter string, n *redriven, ok bool) {
	for _, h := range r.Headers {
		if h.Key == pipeline.HeaderRedriven {
			letter, ok = string(h.Value), true
		}
	}
	if !ok {
		return "", nil, false
	}
	n = &redriven{At: r.Timestamp.UTC(), Note: fmt.Sprintf("%d/%d", r.Partition, r.Offset)}
	for _, h := range r.Headers {
		switch h.Key {
		case pipeline.HeaderRedrivenAs:
			n.As = string(h.Value)
		case pipeline.HeaderRedrivenBy:
			n.By = string(h.Value)
		}
	}
	return letter, n, true
}

// newNote is the record that says that l was sent again as the input at as.
func newNote(l *deadLetter, as *kgo.Record, by string) *kgo.Record {
	at := record.Position{Topic: as.Topic, Partition: as.Partition, Offset: as.Offset}
	return &kgo.Record{Topic: l.at.Topic, Partition: l.at.Partition, Headers: []kgo.RecordHeader{
		{Key: pipeline.HeaderRedriven, Value: []byte(l.at.String())},
		{Key: pipeline.HeaderRedrivenAs, Value: []byte(at.String())},
		{Key: pipeline.HeaderRedrivenBy, Value: []byte(by)},
	}}
}

// ownHeader is a header that the engine adds to a dead letter; the others are the input's.
func ownHeader(key string) bool {
	return strings.HasPrefix(key, "__streams.errors.") || strings.HasPrefix(key, "tallystick.")
}

// describes reports whether what a letter says of the value that it dropped is true of value.
func (l *deadLetter) describes(value []byte) bool {
	return l.Dropped == fmt.Sprintf("dropped size=%d sha256=%x", len(value), sha256.Sum256(value))
}

// advice is what to do about a reason, and whether sending the record again can help at all.
type advice struct {
	futile bool // the same record meets the same fate, whatever is fixed
	text   string
}

// adviceOf knows the ledger's reasons and the engine's.
func adviceOf(reason string) advice {
	switch reason {
	case "conflict":
		return advice{true, "compare it with the first event of that id (dlq show names the fields that differ) and have what is right sent under a new event_id"}
	case "outside_dedupe_window":
		return advice{true, "it may have been applied before its id was forgotten: look for it in ledger-updates; if it is not there, have it sent under a new event_id"}
	case "future_timestamp":
		return advice{false, "fix the producer's clock; then redrive, which stamps it with the present time"}
	case "wrong_partition":
		return advice{false, "fix the producer's partitioner (or the key partitioner here); then redrive, which writes it to the partition of its key"}
	case "null_key":
		return advice{true, "it has no key, so that no partition is its own: have the producer send it with one"}
	case "handler_error":
		return advice{false, "see the message; fix the code, run it, then redrive"}
	case "null_value", "empty_value", "key_mismatch", "cloudevents_structured":
		return advice{true, "the record itself is wrong: have the producer send what it meant, under a new event_id if this one is in use"}
	}
	return advice{false, "if the producer was wrong, have it send what it meant; if this program was too strict, run the fixed one and redrive"}
}

// sized is a number of bytes of what may be absent.
func sized(b []byte) string {
	if b == nil {
		return "null"
	}
	return strconv.Itoa(len(b)) + " bytes"
}
