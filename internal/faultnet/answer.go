package faultnet

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// readCommitted reports whether a Fetch or ListOffsets request, with its length in front, asks for stable records only.
func readCommitted(key kmsg.Key, version int16, b []byte) bool {
	req := key.Request()
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
func (n *Network) rewrite(e expectation, f []byte) []byte {
	resp := e.key.Response()
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
	} else if !e.stable || !n.Lag.cut(resp) {
		return f
	}
	return resp.AppendTo(append([]byte(nil), f[:header]...))
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
