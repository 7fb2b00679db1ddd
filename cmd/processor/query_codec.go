package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tallystick/tallystick/record"
)

// Keys and values are known here by their codec's id alone: who only reads a store needs no type of the job's.

// base64Key begins a key that is given as bytes.
const base64Key = "base64:"

// encodeKey turns what a person types into the stored key.
func encodeKey(codec, text string) ([]byte, error) {
	if b, ok := strings.CutPrefix(text, base64Key); ok {
		return base64.StdEncoding.DecodeString(b)
	}
	if codec != record.Int64.ID() {
		return []byte(text), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("key %q: the store's keys are whole numbers of 64 bits", text)
	}
	return record.Int64.Append(nil, n)
}

// decoded shows stored bytes as JSON: as they are when they are JSON, else as the number or text that they stand for, else as
// {"base64": …}.
func decoded(codec string, b []byte) json.RawMessage {
	if format, version, _ := strings.Cut(codec, "+"); format == "json" {
		if version != "" && len(b) > 0 && b[0] < ' ' { // record.Versioned's mark
			b = b[1:]
		}
		if json.Valid(b) {
			return json.RawMessage(b)
		}
	}
	if n, err := record.Int64.Decode(b); err == nil && codec == record.Int64.ID() {
		return strconv.AppendInt(nil, n, 10)
	}
	return recordText(b).append(nil)
}

// keyText shows a key as it can be typed again.
func keyText(key json.RawMessage) string {
	var bytes recordText
	switch {
	case json.Unmarshal(key, &bytes) != nil: // a number
		return string(key)
	case utf8.Valid(bytes):
		return string(bytes)
	}
	return base64Key + base64.StdEncoding.EncodeToString(bytes)
}
