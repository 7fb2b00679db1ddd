//go:build synctests

package simulation

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// recorded is a whole run as its topics hold it: what internal/verify's corpus of faulty histories is made of. Its reader
// stands there, in recording_test.go.
type recorded struct {
	App        string          `json:"app"`
	Window     time.Duration   `json:"window"`
	Now        time.Time       `json:"now"`
	Partitions int32           `json:"partitions"`
	Commits    []recordedGroup `json:"commits"` // by partition
	Records    []recordedLine  `json:"records"`
}

type recordedGroup struct {
	Next     int64  `json:"next"`
	Metadata string `json:"metadata"`
}

type recordedLine struct {
	Topic     string      `json:"t"`
	Partition int32       `json:"p"`
	Offset    int64       `json:"o"`
	Time      int64       `json:"ms"`
	Key       []byte      `json:"k"`
	Value     []byte      `json:"v"`
	Headers   [][2][]byte `json:"h,omitempty"`
	Producer  int64       `json:"id"`
	Epoch     int16       `json:"e"`
	Control   bool        `json:"c,omitempty"`
	InTxn     bool        `json:"x,omitempty"`
}

// TestRecordARun writes the run of a seed, which must be a clean one, as data.
func TestRecordARun(t *testing.T) {
	file := os.Getenv("RECORD")
	if file == "" {
		t.Skip("writes test data: SEED0=4 RECORD=../verify/testdata/run-4.json.gz go test -tags synctests -run TestRecordARun ./internal/simulation")
	}
	var r recorded
	synctest.Test(t, func(t *testing.T) {
		pl := plan{seed: uint64(envInt("SEED0", 4)), events: 600, steps: 6, kinds: chosen(ofLedger)}
		w := pl.world(t, newJournal())
		pl.live(w)
		w.judge()
		if v := w.verdict(); v != "" {
			t.Fatalf("seed %d is no clean run: %s", pl.seed, v)
		}
		r = w.recorded()
		t.Logf("aborts %d, lost tasks %d, %d records", w.tally.aborts.Load(), w.tally.lost.Load(), len(r.Records))
		w.close()
	})
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if err := json.NewEncoder(z).Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func (w *world) recorded() recorded {
	r := recorded{App: app, Window: w.window, Now: time.Now(), Partitions: partitions}
	offsets, err := kadm.NewClient(w.admin).FetchOffsets(w.ctx, app)
	if err != nil {
		w.t.Fatal(err)
	}
	for p := range int32(partitions) {
		o, _ := offsets.Lookup(inputTopic, p)
		r.Commits = append(r.Commits, recordedGroup{o.At, o.Metadata})
	}
	for _, topic := range w.job.topics {
		ends, err := kadm.NewClient(w.admin).ListEndOffsets(w.ctx, topic)
		if err != nil {
			w.t.Fatal(err)
		}
		ends.Each(func(end kadm.ListedOffset) {
			r.Records = append(r.Records, w.lines(w.ctx, topic, end.Partition, end.Offset)...)
		})
	}
	return r
}

func (w *world) lines(ctx context.Context, topic string, p int32, end int64) (lines []recordedLine) {
	from := map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().AtStart()}}
	client, err := kgo.NewClient(append(w.direct(), kgo.ConsumePartitions(from), kgo.KeepControlRecords())...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			w.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			line := recordedLine{Topic: topic, Partition: p, Offset: r.Offset, Time: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value,
				Producer: r.ProducerID, Epoch: r.ProducerEpoch, Control: r.Attrs.IsControl(), InTxn: r.Attrs.IsTransactional()}
			for _, h := range r.Headers {
				line.Headers = append(line.Headers, [2][]byte{[]byte(h.Key), h.Value})
			}
			lines = append(lines, line)
		})
	}
	return lines
}
