package topology

import (
	"errors"
	"time"
)

var (
	errShape = errors.New("write it as 2026-11-30T10:00:00Z, with a zone (RFC 3339)")
	errDate  = errors.New("there is no such date or time")
)

const (
	dateTime = "dddd-dd-ddTdd:dd:dd" // d is a digit
	zone     = "dd:dd"
)

// parseTime reads RFC 3339 with a zone and returns UTC. Package time alone is too kind: it takes a comma before the
// fraction, hours of one digit, and zones of 99 hours. Digits behind the nanosecond do not count.
func parseTime(text []byte) (time.Time, error) {
	if !shaped(text) {
		return time.Time{}, errShape
	}
	var t time.Time
	if err := t.UnmarshalText(text); err != nil {
		return time.Time{}, errDate
	}
	return t.UTC(), nil
}

func shaped(text []byte) bool {
	if len(text) <= len(dateTime) || !fits(text[:len(dateTime)], dateTime) {
		return false
	}
	rest := text[len(dateTime):]
	if rest[0] == '.' {
		n := 1
		for n < len(rest) && digit(rest[n]) {
			n++
		}
		if n == 1 {
			return false
		}
		rest = rest[n:]
	}
	if string(rest) == "Z" {
		return true
	}
	return len(rest) == 1+len(zone) && (rest[0] == '+' || rest[0] == '-') && fits(rest[1:], zone) &&
		string(rest[1:3]) < "24" && string(rest[4:6]) < "60"
}

func fits(text []byte, shape string) bool {
	for i := range text {
		if c := shape[i]; c == 'd' && !digit(text[i]) || c != 'd' && text[i] != c {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
