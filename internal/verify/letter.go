package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	headerException = "__streams.errors.exception"
	headerTopic     = "__streams.errors.topic"
	headerPartition = "__streams.errors.partition"
	headerOffset    = "__streams.errors.offset"
	headerReason    = "tallystick.reason"
	headerFirst     = "tallystick.first"
	headerClock     = "tallystick.clock"
	headerValue     = "tallystick.value"
	headerRedriven  = "tallystick.redriven"
	headerLost      = "tallystick.lost"
	headerLostNext  = "tallystick.lost.next"
	headerLostBy    = "tallystick.lost.by"
	headerRedrive   = "redrive.source"
)

// letter holds what the headers of a dead letter say.
type letter struct {
	reason    reason
	known     bool   // reason is one of ours
	word      string // the reason as it stands
	clock     int64  // ms; noTime when there is none
	dropped   string // what is said of a value that did not fit
	exception string
}

// ownHeader is a header that a dead letter adds; the others are the original's.
func ownHeader(key string) bool {
	return strings.HasPrefix(key, "__streams.errors.") || strings.HasPrefix(key, "tallystick.")
}

// readLetter decodes the headers and returns what is wrong with them, "" if nothing.
func readLetter(o *outcome) string {
	seen := map[string]bool{}
	o.letter.clock = noTime
	o.first.offset, o.source.offset = -1, -1
	for _, h := range o.rec.Headers {
		if !ownHeader(h.Key) {
			continue
		}
		if seen[h.Key] {
			return fmt.Sprintf("its header %s is there twice: error headers are replaced, not stacked", h.Key)
		}
		seen[h.Key] = true
		if !o.header(h) {
			return fmt.Sprintf("its header %s is %s", h.Key, clip(h.Value))
		}
	}
	for _, key := range []string{headerException, headerTopic, headerPartition, headerOffset, headerReason} {
		if !seen[key] {
			return "it lacks the header " + key
		}
	}
	if o.letter.exception != o.letter.word {
		return fmt.Sprintf("its headers give two reasons, %q and %q", o.letter.exception, o.letter.word)
	}
	return ""
}

func (o *outcome) header(h kgo.RecordHeader) (ok bool) {
	l := &o.letter
	switch h.Key {
	case headerException:
		l.exception = string(h.Value)
	case headerReason:
		l.word = string(h.Value)
		l.reason, l.known = parseReason(h.Value)
	case headerTopic:
		o.source.topic = string(h.Value)
	case headerPartition:
		n, err := strconv.ParseInt(string(h.Value), 10, 32)
		o.source.partition = int32(n)
		return err == nil && n >= 0
	case headerOffset:
		n, err := strconv.ParseInt(string(h.Value), 10, 64)
		o.source.offset = n
		return err == nil && n >= 0
	case headerFirst:
		o.first, ok = parsePosition(h.Value)
		return ok
	case headerClock:
		at, err := time.Parse(time.RFC3339Nano, string(h.Value))
		l.clock = at.UnixMilli()
		return err == nil
	case headerValue:
		l.dropped = string(h.Value)
	}
	return true
}

// carries returns how the letter differs from its input, "" if key, value and headers are the original's.
func (o *outcome) carries(in *kgo.Record) string {
	switch {
	case !sameBytes(o.rec.Key, in.Key):
		return "its key is not the input's"
	case o.letter.dropped != "" && (o.rec.Value != nil || o.letter.dropped != dropNote(in.Value)):
		return "it dropped the value, and the note of its size and hash is not the input's"
	case o.letter.dropped == "" && !sameBytes(o.rec.Value, in.Value):
		return "its value is not the input's"
	case !sameHeaders(o.rec.Headers, in.Headers):
		return "its headers are not the input's"
	}
	return ""
}

func dropNote(value []byte) string {
	sum := sha256.Sum256(value)
	return fmt.Sprintf("dropped size=%d sha256=%s", len(value), hex.EncodeToString(sum[:]))
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// sameHeaders compares what is not ours, in order.
func sameHeaders(a, b []kgo.RecordHeader) bool {
	a, b = original(a), original(b)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || !bytes.Equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func original(headers []kgo.RecordHeader) (kept []kgo.RecordHeader) {
	for _, h := range headers {
		if !ownHeader(h.Key) {
			kept = append(kept, h)
		}
	}
	return kept
}

// redriveSource is the position in the header of a redriven record.
func redriveSource(in *kgo.Record) (p position, ok bool) {
	for _, h := range in.Headers {
		if h.Key == headerRedrive {
			return parsePosition(h.Value)
		}
	}
	return p, false
}
