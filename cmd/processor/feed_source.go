package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/ledger/generate"
)

// feedSource hands out the records to feed, one by one, each with the number of its line, record or event, from 1. next returns
// io.EOF behind the last. An error of one record is an *inputError, after which the next one can be read; every other error ends
// the feed.
type feedSource interface {
	next() (r *kgo.Record, number int64, err error)
}

// inputError is about one record of the input: it is refused, and the feed goes on.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// lineMax bounds the memory for one line. No broker takes a record of this size.
const lineMax = 128 << 20

// lines reads one line at a time, without its newline. Blank lines are passed over.
type lines struct {
	r      *bufio.Reader
	number int64
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 256<<10)} }

// read returns a line that is the caller's.
func (l *lines) read() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		l.number++
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

func (l *lines) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil // the last line may lack its newline
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fail(exitFailed, fmt.Errorf("line %d: %w", l.number+1, err), "the lines before it were fed")
		case len(line) > lineMax:
			return nil, fmt.Errorf("line %d is longer than %d bytes: this is no file of JSON lines", l.number+1, lineMax)
		}
	}
}

// eventLines makes each line the value of a record, byte for byte, and its account_id the key.
type eventLines struct{ *lines }

func (s eventLines) next() (*kgo.Record, int64, error) {
	line, err := s.read()
	if err != nil {
		return nil, s.number, err
	}
	return &kgo.Record{Key: accountKey(line), Value: line}, s.number, nil
}

// accountKey is the value of the member account_id of a JSON object, nil when there is none: such a record has no key, and the
// processor says what is wrong with it.
func accountKey(line []byte) []byte {
	d := jsontext.NewDecoder(bytes.NewBuffer(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return nil
		}
		if name.String() != "account_id" {
			if err := d.SkipValue(); err != nil {
				return nil
			}
			continue
		}
		id, err := d.ReadToken()
		if err != nil || id.Kind() != '"' {
			return nil
		}
		return append([]byte{}, id.String()...)
	}
}

// tailLines reads what tail -o jsonl wrote: key, value, headers and time come back byte for byte.
type tailLines struct {
	*lines
	keepPartitions bool
}

func (s tailLines) next() (*kgo.Record, int64, error) {
	line, err := s.read()
	if err != nil {
		return nil, s.number, err
	}
	var t tailRecord
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := errors.Join(d.Decode(&t), trailing(d)); err != nil {
		return nil, s.number, &inputError{fmt.Errorf("no line of tail -o jsonl: %w", err)}
	}
	if t.Topic == "" && t.Key == nil && t.Value == nil {
		return nil, s.number, &inputError{errors.New("no line of tail -o jsonl: it has neither topic nor key nor value")}
	}
	r := &kgo.Record{Key: t.Key, Value: t.Value, Timestamp: t.Timestamp}
	for _, h := range t.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if s.keepPartitions {
		r.Partition = t.Partition
	}
	return r, s.number, nil
}

// trailing is an error when something follows the value that d has read: a second record would be lost.
func trailing(d *json.Decoder) error {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object; tail -o jsonl writes one a line, -o json does not")
	}
	return nil
}

// formatted reads records in franz-go's format language. After a mistake nobody knows where the next record begins, so it ends
// the feed.
type formatted struct {
	reader *kgo.RecordReader
	number int64
}

func newFormatted(r io.Reader, layout string) (*formatted, error) {
	reader, err := kgo.NewRecordReader(r, layout)
	if err != nil {
		return nil, fmt.Errorf("--format %q: %w", layout, err)
	}
	return &formatted{reader: reader}, nil
}

func (s *formatted) next() (*kgo.Record, int64, error) {
	s.number++
	r, err := s.reader.ReadRecord()
	if err != nil && !errors.Is(err, io.EOF) {
		err = fail(exitFailed, fmt.Errorf("record %d does not fit the format: %w", s.number, err), "the records before it were fed; see processor feed --help")
	}
	return r, s.number, err
}

// generated makes a workload and counts what a correct ledger makes of it.
type generated struct {
	generator *generate.Generator
	number    int64
	expected  map[generate.Class]int64
}

func newGenerated(cfg generate.Config) (*generated, error) {
	g, err := generate.New(cfg)
	if err != nil {
		return nil, err
	}
	return &generated{generator: g, expected: map[generate.Class]int64{}}, nil
}

func (s *generated) next() (*kgo.Record, int64, error) {
	r, ok := s.generator.Next()
	if !ok {
		return nil, s.number, io.EOF
	}
	s.number++
	s.expected[r.Class]++
	out := inputRecord(r)
	out.Topic = "" // the client's
	return out, s.number, nil
}
