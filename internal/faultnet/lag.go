package faultnet

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// MarkerLag makes a topic look as it does on a leader that a transaction's marker has not reached yet, while the
// group coordinator already shows the transaction's offsets. The embedded broker never does that by itself; three real ones
// do after a fifth of all commits. Set Topic and ID before the first request.
type MarkerLag struct {
	Topic   string
	ID      [16]byte     // the topic's, as newer Fetch requests name it
	records atomic.Int64 // the last stable offset looks so much older; 0 = as it is
	hits    atomic.Int64
}

// Set makes the last stable offset look older by so many records; 0 ends it.
func (m *MarkerLag) Set(records int64) { m.records.Store(records) }

// Hits returns how many answers were changed.
func (m *MarkerLag) Hits() int64 { return m.hits.Load() }

func (m *MarkerLag) on() bool { return m.records.Load() > 0 }

func (m *MarkerLag) is(topic string, id [16]byte) bool {
	return topic == m.Topic || topic == "" && id == m.ID
}

// stable is the last stable offset that a lagging leader would tell.
func (m *MarkerLag) stable(end int64) int64 { return max(0, end-m.records.Load()) }

// cut hides the newest records of the state topic. It reports whether anything changed.
func (m *MarkerLag) cut(resp kmsg.Response) (changed bool) {
	switch r := resp.(type) {
	case *kmsg.ListOffsetsResponse:
		for i := range r.Topics {
			if r.Topics[i].Topic != m.Topic {
				continue
			}
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				p.Offset, changed = m.stable(p.Offset), true
			}
		}
	case *kmsg.FetchResponse:
		for i := range r.Topics {
			if !m.is(r.Topics[i].Topic, r.Topics[i].TopicID) {
				continue
			}
			for j := range r.Topics[i].Partitions {
				changed = m.cutPartition(&r.Topics[i].Partitions[j]) || changed
			}
		}
		if changed {
			time.Sleep(50 * time.Millisecond) // a broker would hold the fetch; an answer at once would stop the bubble's clock
		}
	}
	if changed {
		m.hits.Add(1)
	}
	return changed
}

func (m *MarkerLag) cutPartition(p *kmsg.FetchResponseTopicPartition) bool {
	if p.HighWatermark <= 0 {
		return false
	}
	stable := min(m.stable(p.HighWatermark), p.LastStableOffset)
	p.LastStableOffset = stable
	keep := 0
	for b := p.RecordBatches; len(b)-keep >= 12; {
		first := int64(binary.BigEndian.Uint64(b[keep:]))
		size := 12 + int(binary.BigEndian.Uint32(b[keep+8:]))
		if first >= stable || keep+size > len(b) {
			break
		}
		keep += size
	}
	p.RecordBatches = p.RecordBatches[:keep]
	return true
}
