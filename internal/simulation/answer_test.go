//go:build synctests

package simulation

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyProduce         int16 = 0
	keyFetch           int16 = 1
	keyListOffsets     int16 = 2
	keyOffsetFetch     int16 = 9
	keyJoinGroup       int16 = 11
	keyHeartbeat       int16 = 12
	keySyncGroup       int16 = 14
	keyInitProducerID  int16 = 22
	keyEndTxn          int16 = 26
	keyTxnOffsetCommit int16 = 28
)

// markerLag makes the state topic look as it does on a leader that a transaction's marker has not reached yet, while the
// group coordinator already shows the transaction's offsets. The embedded broker never does that by itself; three real ones
// do after a fifth of all commits.
type markerLag struct {
	topic   string
	id      [16]byte
	records atomic.Int64 // the last stable offset looks so much older; 0 = as it is
	hits    atomic.Int64
}

func (m *markerLag) set(records int64) { m.records.Store(records) }

func (m *markerLag) on() bool { return m.records.Load() > 0 }

func (m *markerLag) is(topic string, id [16]byte) bool {
	return topic == m.topic || topic == "" && id == m.id
}

// stable is the last stable offset that a lagging leader would tell.
func (m *markerLag) stable(end int64) int64 { return max(0, end-m.records.Load()) }

// readCommitted reports whether a Fetch or ListOffsets request, with its length in front, asks for stable records only.
func readCommitted(key, version int16, b []byte) bool {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	at := 14 + max(0, int(int16(binary.BigEndian.Uint16(b[12:])))) // behind length, key, version, correlation id and client id
	if req.IsFlexible() {
		at++ // no tags
	}
	if at > len(b) || req.ReadFrom(b[at:]) != nil {
		return false
	}
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		return r.IsolationLevel == 1
	case *kmsg.ListOffsetsRequest:
		return r.IsolationLevel == 1
	}
	return false
}

// rewrite changes an answer, correlation id first.
func (n *network) rewrite(e expectation, f []byte) []byte {
	resp := kmsg.ResponseForKey(e.key)
	resp.SetVersion(e.version)
	header := 4
	if resp.IsFlexible() {
		header = 5
	}
	if len(f) < header || resp.ReadFrom(f[header:]) != nil {
		return f
	}
	if e.replace {
		setCode(resp, e.code)
	} else if !e.stable || !n.lag.cut(resp) {
		return f
	}
	return resp.AppendTo(append([]byte(nil), f[:header]...))
}

// cut hides the newest records of the state topic. It reports whether anything changed.
func (m *markerLag) cut(resp kmsg.Response) (changed bool) {
	switch r := resp.(type) {
	case *kmsg.ListOffsetsResponse:
		for i := range r.Topics {
			if r.Topics[i].Topic != m.topic {
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

func (m *markerLag) cutPartition(p *kmsg.FetchResponseTopicPartition) bool {
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

// setCode puts an error code where an answer carries it.
func setCode(resp kmsg.Response, code int16) {
	switch r := resp.(type) {
	case *kmsg.EndTxnResponse:
		r.ErrorCode = code
	case *kmsg.InitProducerIDResponse:
		r.ErrorCode = code
	case *kmsg.HeartbeatResponse:
		r.ErrorCode = code
	case *kmsg.TxnOffsetCommitResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				r.Topics[i].Partitions[j].ErrorCode = code
			}
		}
	case *kmsg.ProduceResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				r.Topics[i].Partitions[j].ErrorCode = code
			}
		}
	}
}
