package faultnet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A frame is one request or answer as it is on the wire, its four bytes of length in front. A request goes on with key,
// version, correlation id and client id, an answer with the correlation id; flexible ones have tags behind that, of which
// nobody uses any.

// Correlation reads the id that ties an answer to its request.
func Correlation(request []byte) int32 { return int32(binary.BigEndian.Uint32(request[8:])) }

// DecodeRequest reads a frame with a request. Its fields share the frame's memory.
func DecodeRequest(frame []byte) (kmsg.Request, error) {
	if len(frame) < 14 {
		return nil, errors.New("a request ends in its header")
	}
	key := kmsg.Key(binary.BigEndian.Uint16(frame[4:]))
	req := key.Request()
	if req == nil {
		return nil, fmt.Errorf("request with the unknown key %d", key)
	}
	req.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
	at := 14 + max(0, int(int16(binary.BigEndian.Uint16(frame[12:])))) // behind the client id
	if req.IsFlexible() {
		at++
	}
	if at > len(frame) {
		return nil, fmt.Errorf("a %s request ends in its header", key.Name())
	}
	if err := req.ReadFrom(frame[at:]); err != nil {
		return nil, fmt.Errorf("%s request of version %d: %w", key.Name(), req.GetVersion(), err)
	}
	return req, nil
}

// DecodeResponse reads a frame with the answer to a request of this key and version. Its fields share the frame's memory.
func DecodeResponse(key kmsg.Key, version int16, frame []byte) (kmsg.Response, error) {
	resp := key.Response()
	if resp == nil {
		return nil, fmt.Errorf("answer to the unknown key %d", key)
	}
	resp.SetVersion(version)
	at := headerOf(resp)
	if at > len(frame) {
		return nil, fmt.Errorf("an answer to %s ends in its header", key.Name())
	}
	if err := resp.ReadFrom(frame[at:]); err != nil {
		return nil, fmt.Errorf("answer to %s of version %d: %w", key.Name(), version, err)
	}
	return resp, nil
}

// EncodeResponse makes the frame of an answer.
func EncodeResponse(resp kmsg.Response, correlation int32) []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(correlation))
	frame = resp.AppendTo(append(frame, make([]byte, headerOf(resp)-len(frame))...))
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// headerOf is what stands before an answer's body: length, correlation id, and the number of tags in a flexible one. The
// answer to ApiVersions never has that: who asks for it does not know yet what the broker speaks (KIP-511).
func headerOf(resp kmsg.Response) int {
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		return 9
	}
	return 8
}

// SetCode puts an error code where an answer carries it, and reports whether it knows the place.
func SetCode(resp kmsg.Response, code int16) bool {
	switch r := resp.(type) {
	case *kmsg.EndTxnResponse:
		r.ErrorCode = code
	case *kmsg.InitProducerIDResponse:
		r.ErrorCode = code
	case *kmsg.HeartbeatResponse:
		r.ErrorCode = code
	case *kmsg.JoinGroupResponse:
		r.ErrorCode = code
	case *kmsg.SyncGroupResponse:
		r.ErrorCode = code
	case *kmsg.AddOffsetsToTxnResponse:
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
	default:
		return false
	}
	return true
}
