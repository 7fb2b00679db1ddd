package faultnet

import "github.com/twmb/franz-go/pkg/kmsg"

// readCommitted reports whether a Fetch or ListOffsets request asks for stable records only.
func readCommitted(frame []byte) bool {
	req, err := DecodeRequest(frame)
	if err != nil {
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

// rewrite changes an answer.
func (n *Network) rewrite(e expectation, correlation int32, frame []byte) []byte {
	resp, err := DecodeResponse(e.key, e.version, frame)
	if err != nil {
		return frame
	}
	if e.replace {
		SetCode(resp, e.code)
	} else if !e.stable || !n.Lag.cut(resp) {
		return frame
	}
	return EncodeResponse(resp, correlation)
}
