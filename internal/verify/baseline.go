package verify

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"
)

// baselineMagic is the first line of a baseline file; the number is the version of what follows: a line of JSON, then for each
// partition its accounts and its ids that still count, then the SHA-256 of everything before it.
const baselineMagic = "tallystick verify baseline 1\n"

// BaselineError says why an audit cannot go on from a baseline file. Nothing is known to be wrong with the history.
type BaselineError struct {
	File   string
	Reason string // cause and remedy
}

func (e *BaselineError) Error() string { return fmt.Sprintf("baseline %s: %s", e.File, e.Reason) }

// BaselineInfo says what a report owes to an earlier audit.
type BaselineInfo struct {
	Written time.Time `json:"written"`
	Inputs  int64     `json:"inputs"` // judged by it, and not again
}

// subject is what a baseline is of: it fits nothing else.
type subject struct {
	App         string            `json:"app"`
	Topics      Topics            `json:"topics"`
	IDs         map[string]string `json:"topic_ids"` // a topic that was created again has another
	Partitions  int32             `json:"partitions"`
	WindowMS    int64             `json:"dedupe_window_ms"`
	AutoCreate  bool              `json:"auto_create"`
	Partitioner string            `json:"partitioner"`
}

type baselineHeader struct {
	Written time.Time           `json:"written"`
	Subject subject             `json:"subject"`
	Parts   []baselinePartition `json:"partitions"`
	Again   int64               `json:"applied_again"`
}

// baselinePartition is what an audit knows besides accounts and ids.
type baselinePartition struct {
	Begin      int64                `json:"next_input"`
	Resume     [laneCount]int64     `json:"next_outcomes"`
	StreamTime int64                `json:"stream_time_ms"`
	Accounts   int                  `json:"accounts"`
	Inputs     int64                `json:"inputs"`
	Applied    int64                `json:"applied"`
	Duplicates int64                `json:"duplicates"`
	Mended     int64                `json:"mended"`
	Rejected   map[string]int64     `json:"rejected"`
	Letters    map[string]int64     `json:"dead_letters"`
	Sums       map[string][2]string `json:"sums"` // credits and debits by currency, in ten-thousandths
	Redriven   map[string]int64     `json:"redriven"`
}

// writeBaseline writes a file that is there whole or not at all.
func (x *rounds) writeBaseline(name string, s subject, now time.Time) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return &BaselineError{name, fmt.Sprintf("%v: name a folder that exists and can be written", err)}
	}
	defer func() {
		if err != nil {
			err = &BaselineError{name, fmt.Sprintf("%v: free space or name another folder; the file that was there is as it was", errors.Join(err, f.Close(), os.Remove(f.Name())))}
		}
	}()
	if err := x.encode(f, s, now); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func (x *rounds) encode(to io.Writer, s subject, now time.Time) error {
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), spillBuffer)
	h := baselineHeader{Written: now.UTC(), Subject: s, Again: x.again}
	for _, a := range x.audits {
		h.Parts = append(h.Parts, a.baseline())
	}
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, _ = w.WriteString(baselineMagic) // Flush repeats the errors
	_, _ = w.Write(append(line, '\n'))
	for _, a := range x.audits {
		a.encodeAccounts(w)
		if err := a.encodeIDs(w); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = to.Write(sum.Sum(nil))
	return err
}

func (a *audit) baseline() baselinePartition {
	r := &a.report
	p := baselinePartition{
		Begin: a.judged, Resume: a.stopped, StreamTime: a.inbox.streamTime, Accounts: len(a.accounts), Inputs: r.inputs, Applied: r.applied,
		Duplicates: r.duplicates, Mended: r.mended, Rejected: map[string]int64{}, Letters: map[string]int64{}, Sums: map[string][2]string{}, Redriven: a.redriven,
	}
	addCounts(p.Rejected, r.rejected)
	addCounts(p.Letters, r.letters)
	for c, t := range r.sums {
		p.Sums[c.String()] = [2]string{t.credits.value().String(), t.debits.value().String()}
	}
	return p
}

func (a *audit) encodeAccounts(w *bufio.Writer) {
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(a.accounts)) {
		acc := a.accounts[id]
		b = append(binary.AppendUvarint(b[:0], uint64(len(id))), id...)
		b = append(append(b, acc.currency[:]...), byte(acc.digits), byte(acc.status))
		for _, n := range [...]amount{acc.balance, acc.held, acc.minimum} {
			b = binary.AppendVarint(binary.AppendVarint(b, n.units), int64(n.frac))
		}
		b = binary.AppendVarint(binary.AppendVarint(b, acc.version), acc.last)
		_, _ = w.Write(b)
	}
}

// encodeIDs writes the ids that still count, each behind a one, and a zero behind the last.
func (a *audit) encodeIDs(w *bufio.Writer) error {
	horizon := a.inbox.horizon(a.inbox.streamTime)
	b := make([]byte, 0, 1+entrySize)
	err := a.inbox.ids.each(func(e *entry) {
		if e.bucketEnd > horizon {
			_, _ = w.Write(e.append(append(b, 1)))
		}
	})
	_ = w.WriteByte(0)
	return err
}

// readBaseline makes new rounds go on from a file. It takes memory for what they keep, not for the file.
func (x *rounds) readBaseline(name string, s subject) (info BaselineInfo, err error) {
	defer func() {
		if b := (*BaselineError)(nil); err != nil && !errors.As(err, &b) && !errors.As(err, new(*SpillError)) {
			err = &BaselineError{name, fmt.Sprintf("%v: name a file that verify --write-baseline wrote", err)}
		}
	}()
	f, err := os.Open(name)
	if err != nil {
		return info, err
	}
	defer func() { _ = f.Close() }() // it was only read
	body, err := checkedBody(name, f)
	if err != nil {
		return info, err
	}
	r := bufio.NewReaderSize(body, spillBuffer)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return info, err
	}
	var h baselineHeader
	if err := json.Unmarshal(line, &h); err != nil {
		return info, err
	}
	if why := h.Subject.differs(s); why != "" {
		return info, &BaselineError{name, why}
	}
	if len(h.Parts) != len(x.audits) {
		return info, fmt.Errorf("it tells of %d partitions, the job has %d", len(h.Parts), len(x.audits))
	}
	x.again, info.Written = h.Again, h.Written
	for p, a := range x.audits {
		info.Inputs += h.Parts[p].Inputs
		if err := errors.Join(a.restore(&h.Parts[p]), a.decodeAccounts(r, h.Parts[p].Accounts), a.decodeIDs(r)); err != nil {
			return info, err
		}
	}
	return info, nil
}

// checkedBody returns what stands between the magic line and the sum, once the sum is right.
func checkedBody(name string, f *os.File) (io.Reader, error) {
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	magic := make([]byte, min(stat.Size(), int64(len(baselineMagic))))
	if _, err := io.ReadFull(f, magic); err != nil {
		return nil, err
	}
	if string(magic) != baselineMagic {
		if bytes.HasPrefix(magic, []byte(baselineMagic[:len(baselineMagic)-2])) {
			return nil, &BaselineError{name, fmt.Sprintf("it is of version %s, this command reads version 1: use the command that wrote it, or begin anew with the whole history", magic[len(magic)-2:len(magic)-1])}
		}
		return nil, errors.New("it is no baseline")
	}
	size := stat.Size() - sha256.Size
	sum := sha256.New()
	if err := sumMatches(f, sum, size); err != nil {
		return nil, &BaselineError{name, err.Error()}
	}
	return io.NewSectionReader(f, int64(len(baselineMagic)), size-int64(len(baselineMagic))), nil
}

func sumMatches(f io.ReaderAt, sum hash.Hash, size int64) error {
	var want [sha256.Size]byte
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return err
	}
	if _, err := f.ReadAt(want[:], max(size, 0)); err != nil || size < int64(len(baselineMagic)) || !bytes.Equal(want[:], sum.Sum(nil)) {
		return errors.New("its contents do not match its checksum: it was cut short or changed; take a copy that is whole, or begin anew with the whole history")
	}
	return nil
}

// differs says why a baseline of s does not fit the job at hand.
func (s subject) differs(now subject) string {
	switch {
	case s.App != now.App:
		return fmt.Sprintf("it is of application.id %q, not of %q: name that job's own file", s.App, now.App)
	case s.Topics != now.Topics:
		return fmt.Sprintf("it is of the topics %v, not of %v: name that job's own file", s.Topics, now.Topics)
	case s.WindowMS != now.WindowMS:
		return fmt.Sprintf("it was written with dedupe.window %dms, now it is %dms: give the one that the job runs with; if the job's was changed, begin anew with the whole history", s.WindowMS, now.WindowMS)
	case s.AutoCreate != now.AutoCreate || s.Partitioner != now.Partitioner:
		return fmt.Sprintf("it was written with accounts.auto_create %v and partitioner %s, now they are %v and %s: give those that the job runs with", s.AutoCreate, s.Partitioner, now.AutoCreate, now.Partitioner)
	case s.Partitions != now.Partitions:
		return fmt.Sprintf("it is of %d partitions, the topics have %d: keys have moved; begin anew with the whole history", s.Partitions, now.Partitions)
	}
	for topic, id := range now.IDs {
		if s.IDs[topic] != id {
			return fmt.Sprintf("topic %s was deleted and created again since it was written: begin anew with the whole history", topic)
		}
	}
	if !reflect.DeepEqual(s, now) {
		return "it is of another job: name this job's own file"
	}
	return ""
}

func (a *audit) restore(p *baselinePartition) error {
	a.continued = p.Begin > a.begin // with nothing judged, the head of the input is looked at as in a first audit
	a.begin, a.judged, a.resume, a.stopped = p.Begin, p.Begin, p.Resume, p.Resume
	a.inbox.streamTime = p.StreamTime
	a.report.inputs, a.report.applied, a.report.duplicates, a.mending.mended = p.Inputs, p.Applied, p.Duplicates, p.Mended
	for letter, at := range p.Redriven {
		a.redriven[letter] = at
	}
	for i := range reasonCount {
		a.report.rejected[i], a.report.letters[i] = p.Rejected[i.String()], p.Letters[i.String()]
	}
	for code, sums := range p.Sums {
		c, _, ok := parseCurrency([]byte(code))
		credits, ok1 := new(big.Int).SetString(sums[0], 10)
		debits, ok2 := new(big.Int).SetString(sums[1], 10)
		if !ok || !ok1 || !ok2 {
			return fmt.Errorf("its sums of %q cannot be read", code)
		}
		t := a.tally(c)
		t.credits.high.Set(credits)
		t.debits.high.Set(debits)
	}
	return nil
}

func (a *audit) decodeAccounts(r *bufio.Reader, n int) error {
	for range n {
		size, err := binary.ReadUvarint(r)
		if err != nil || size > maxIDBytes {
			return errors.Join(err, errors.New("an account in it cannot be read"))
		}
		id, fixed := make([]byte, size), [5]byte{}
		_, err1 := io.ReadFull(r, id)
		_, err2 := io.ReadFull(r, fixed[:])
		var n [8]int64
		for i := range n {
			var err error
			if n[i], err = binary.ReadVarint(r); err != nil {
				return err
			}
		}
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		a.accounts[string(id)] = &account{
			currency: currency(fixed[:3]), digits: int(fixed[3]), status: status(fixed[4]), version: n[6], last: n[7],
			balance: amount{n[0], int32(n[1])}, held: amount{n[2], int32(n[3])}, minimum: amount{n[4], int32(n[5])},
		}
	}
	return nil
}

func (a *audit) decodeIDs(r *bufio.Reader) error {
	var b [entrySize]byte
	horizon := a.inbox.horizon(a.inbox.streamTime)
	for {
		more, err := r.ReadByte()
		if err != nil || more == 0 {
			return err
		}
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return err
		}
		a.inbox.file(readEntry(b[:]), horizon)
		if a.inbox.ids.err != nil {
			return a.inbox.ids.err
		}
	}
}
