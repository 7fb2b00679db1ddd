package verify

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recording is a real run of the job under crashes and rebalances on the embedded broker, log by log, with the records of
// aborted transactions and the control records: written by internal/simulation's TestRecordARun. It is a history.
type recording struct {
	rules
	logs    map[string][][]*kgo.Record
	commits []commit
	reread  func(topic string, p int32) // before a log is read as it is, once
	used    map[*kgo.Record]bool        // by a fault
	became  map[*kgo.Record]*kgo.Record // what faults made of records
	leaked  map[*kgo.Record]bool        // shown to readers although aborted
	shown   map[string]shown            // visible's answers, while the recording is judged

	signs     []sign // of the faults that were made
	undecided bool   // by one of them
}

// line is a record in the file.
type line struct {
	T string
	P int32
	O, MS,
	ID int64
	K, V []byte
	H    [][2][]byte
	E    int16
	C, X bool
}

// recordings are the runs in testdata. With bumped, their control records carry the epoch that a broker of transaction
// version 2 gives them; the embedded broker leaves that out.
func loadRecording(t testing.TB, file string, bumped bool) *recording {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		App        string
		Window     time.Duration
		Now        time.Time
		Partitions int32
		Commits    []struct {
			Next     int64
			Metadata string
		}
		Records []line
	}
	if err := json.NewDecoder(z).Decode(&data); err != nil {
		t.Fatal(err)
	}
	r := &recording{logs: map[string][][]*kgo.Record{}, used: map[*kgo.Record]bool{}, rules: rules{
		topics: Topics{}.withDefaults(data.App), partitions: data.Partitions, place: partitionOf, window: data.Window, autoCreate: true,
		now: func() time.Time { return data.Now }, raw: true, progress: func(int32, int64) {},
	}}
	for _, topic := range []string{r.topics.Input, r.topics.Updates, r.topics.Skipped, r.topics.DeadLetters, r.topics.State} {
		r.logs[topic] = make([][]*kgo.Record, data.Partitions)
	}
	for _, l := range data.Records {
		rec := l.record()
		if l.C && bumped {
			rec.ProducerEpoch++
		}
		r.logs[l.T][l.P] = append(r.logs[l.T][l.P], rec)
	}
	for _, c := range data.Commits {
		r.commits = append(r.commits, newCommit(c.Next, c.Metadata))
	}
	return r
}

func (l *line) record() *kgo.Record {
	r := &kgo.Record{Topic: l.T, Partition: l.P, Offset: l.O, Timestamp: time.UnixMilli(l.MS), Key: l.K, Value: l.V, ProducerID: l.ID, ProducerEpoch: l.E,
		Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: l.X, Control: l.C})}
	for _, h := range l.H {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(h[0]), Value: h[1]})
	}
	return r
}

// clone is a recording that can be spoiled.
func (r *recording) clone() *recording {
	c := &recording{rules: r.rules, logs: map[string][][]*kgo.Record{}, commits: r.commits, used: map[*kgo.Record]bool{},
		became: map[*kgo.Record]*kgo.Record{}, leaked: map[*kgo.Record]bool{}}
	for topic, logs := range r.logs {
		c.logs[topic] = slices.Clone(logs)
	}
	return c
}

// audit judges the recording as it stands now.
func (r *recording) audit(t testing.TB) (Report, error) {
	t.Helper()
	r.shown = map[string]shown{}
	return auditAll(t.Context(), r.rules, r, r.partitions, 1)
}

type shown struct {
	log  []*kgo.Record
	open *OpenTransaction
}

// visible is what read_committed shows of a partition: up to the first transaction that is open.
func (r *recording) visible(topic string, p int32) (log []*kgo.Record, open *OpenTransaction) {
	known, ok := r.shown[where(topic, p)]
	if !ok {
		known.log, known.open = r.look(topic, p)
		if r.shown != nil {
			r.shown[where(topic, p)] = known
		}
	}
	return known.log, known.open
}

func (r *recording) look(topic string, p int32) (log []*kgo.Record, open *OpenTransaction) {
	ends := r.ends(topic, p)
	all := r.logs[topic][p]
	for i, rec := range all {
		switch end, in := ends[i], rec.Attrs.IsTransactional(); {
		case rec.Attrs.IsControl():
		case in && end == stillOpen:
			return log, &OpenTransaction{topic, p, rec.Offset, all[len(all)-1].Offset + 1}
		case !in || end == endCommit || r.leaked[rec]:
			log = append(log, rec)
		}
	}
	return log, nil
}

// ends says of each record of a log how its transaction ends.
func (r *recording) ends(topic string, p int32) []ending {
	log := r.logs[topic][p]
	ends, next := make([]ending, len(log)), map[int64]ending{}
	for i, rec := range slices.Backward(log) {
		if how, ok := control(rec); ok && rec.Attrs.IsControl() {
			next[rec.ProducerID] = how
		}
		ends[i] = next[rec.ProducerID]
	}
	return ends
}

func (r *recording) open(_ context.Context, topic string, p int32, from int64) (stream, error) {
	log, hidden := r.visible(topic, p)
	s := &recordedStream{log: log, open: hidden}
	for len(s.log) > 0 && s.log[0].Offset < from {
		s.pop()
	}
	return s, nil
}

func (r *recording) raw(_ context.Context, topic string, p int32, from int64) (rawReader, error) {
	if r.reread != nil {
		r.reread(topic, p)
	}
	log := r.logs[topic][p]
	i, _ := slices.BinarySearchFunc(log, from, func(rec *kgo.Record, at int64) int { return int(rec.Offset - at) })
	return &memRaw{log: log[i:]}, nil
}

func (r *recording) lookup(_ context.Context, topic string, p int32, offset int64) (*kgo.Record, error) {
	log, _ := r.visible(topic, p)
	for _, rec := range log {
		if rec.Offset == offset {
			return rec, nil
		}
	}
	return nil, nil
}

func (r *recording) members(context.Context) (int, error) { return 0, nil }

func (r *recording) committed(_ context.Context, p int32) (commit, error) { return r.commits[p], nil }

type recordedStream struct {
	log  []*kgo.Record
	open *OpenTransaction
}

func (s *recordedStream) start() int64               { return 0 }
func (s *recordedStream) rest() int64                { return int64(len(s.log)) }
func (s *recordedStream) pop()                       { s.log = s.log[1:] }
func (s *recordedStream) wait(context.Context) error { return errHidden }

func (s *recordedStream) peek(context.Context) (*kgo.Record, error) {
	if len(s.log) == 0 {
		return nil, nil
	}
	return s.log[0], nil
}

func (s *recordedStream) hidden() *OpenTransaction {
	if len(s.log) > 0 {
		return nil
	}
	return s.open
}

var recordedRuns = []string{"testdata/run-3.json.gz", "testdata/run-4.json.gz"}

// The runs that the corpus is made of are clean, in every mode, and hold what the faults need.
func TestRecordedRunsAreClean(t *testing.T) {
	for _, file := range recordedRuns {
		for _, bumped := range []bool{false, true} {
			r, err := loadRecording(t, file, bumped).audit(t)
			if err != nil || !r.OK() {
				t.Errorf("%s: error %v, %v", file, err, r.Violations)
			}
			if r.Inputs < 550 || r.Raw.Aborted < 5 || r.Raw.Committed < 100 || r.Duplicates == 0 || len(r.DeadLetters) == 0 || len(r.Rejected) == 0 {
				t.Errorf("%s: %+v", file, fmt.Sprintf("%+v %+v", r, r.Raw))
			}
		}
	}
}
