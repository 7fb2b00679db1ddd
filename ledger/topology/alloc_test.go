package topology_test

import (
	"strconv"
	"testing"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
)

// decoded is what decoding makes: three strings (key, event_id, account_id).
const decoded = 3

// stream feeds credits with fresh ids to one account and commits from time to time.
type stream struct {
	b     *bench
	value []byte
	in    pipeline.Input
}

func newStream(tb testing.TB) *stream {
	b := newBench(tb, topology.Config{AutoCreate: true}, nil)
	return &stream{b: b, in: pipeline.Input{Key: []byte("ACC-7"), Timestamp: noon.UnixMilli(), Clock: noon.UnixMilli()}}
}

func (s *stream) next() {
	s.value = append(s.value[:0], `{"event_id":"EVT-`...)
	s.value = strconv.AppendInt(s.value, s.b.offset, 10)
	s.value = append(append(s.value, `","account_id":"ACC-7",`...), good...)
	s.value = append(s.value, '}')
	s.in.Position = record.Position{Topic: "credit-events", Offset: s.b.offset}
	s.in.Value = s.value
	s.b.offset++
	if out, err := s.b.task.Process(&s.in); err != nil || len(out) != 1 || out[0].Topic != "ledger-updates" {
		s.b.t.Fatal(out, err)
	}
}

func TestTheStageAllocatesWhatDecodingMakesAndNoMore(t *testing.T) {
	s := newStream(t)
	const batch = 1000
	for range 3 * batch { // arenas and maps reach their size
		s.next()
	}
	s.b.commit()
	perRecord := testing.AllocsPerRun(5, func() {
		for range batch {
			s.next()
		}
		s.b.task.Drop()
		s.b.offset = 3 * batch
	}) / batch
	if perRecord > decoded+0.1 {
		t.Errorf("%.2f allocations a record, want the %d of decoding", perRecord, decoded)
	}
}

func BenchmarkStage(b *testing.B) {
	s := newStream(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.next()
		if i%10000 == 9999 {
			s.b.commit()
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	value := []byte(whole)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := topology.EventCodec.Decode(value); err != nil {
			b.Fatal(err)
		}
	}
}
