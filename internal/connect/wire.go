package connect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What one step of a survey may take.
const (
	dialPatience   = 3 * time.Second
	answerPatience = 5 * time.Second
)

// maxAnswer bounds what is read of an answer; the answers that a survey asks for are small.
const maxAnswer = 16 << 20

// notKafkaError is an answer that no broker gives. It holds the first bytes.
type notKafkaError struct{ first []byte }

func (e *notKafkaError) Error() string { return fmt.Sprintf("the answer begins with %q", e.first) }

// wire is one connection on which requests are sent one at a time.
type wire struct {
	net.Conn
	format *kmsg.RequestFormatter
	last   int32
}

func newWire(conn net.Conn, clientID string) *wire {
	return &wire{Conn: conn, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
}

// ask sends a request, whose version the caller has set to one whose answer has the plain header, and reads the answer.
func (w *wire) ask(ctx context.Context, req kmsg.Request, resp kmsg.Response) error {
	deadline := time.Now().Add(answerPatience)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := w.SetDeadline(deadline); err != nil {
		return err
	}
	w.last++
	if _, err := w.Write(w.format.AppendRequest(nil, req, w.last)); err != nil {
		return err
	}
	body, err := w.read()
	if err != nil {
		return err
	}
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(body); err != nil {
		return &notKafkaError{body[:min(len(body), 8)]}
	}
	return nil
}

// read returns the body of one answer, without size and correlation id.
func (w *wire) read() ([]byte, error) {
	var head [8]byte
	if n, err := io.ReadFull(w, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, &notKafkaError{head[:n]}
		}
		return nil, err
	}
	size, id := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if size < 4 || size > maxAnswer || id != uint32(w.last) {
		return nil, &notKafkaError{head[:]}
	}
	body := make([]byte, size-4)
	_, err := io.ReadFull(w, body)
	return body, err
}

// apiVersions asks what the broker can do; it is the one question that every listener answers before a login.
func (w *wire) apiVersions(ctx context.Context) (*kmsg.ApiVersionsResponse, error) {
	req, resp := kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrApiVersionsResponse()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "tallystick", "1"
	return resp, w.ask(ctx, req, resp)
}

// logins offers a mechanism and returns those of the listener, and its verdict: nil when it takes ours, ILLEGAL_SASL_STATE when
// it wants no login at all.
func (w *wire) logins(ctx context.Context, mechanism string) (offered []string, verdict, err error) {
	req, resp := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLHandshakeResponse()
	req.Version, req.Mechanism = 1, mechanism
	if err := w.ask(ctx, req, resp); err != nil {
		return nil, nil, err
	}
	return resp.SupportedMechanisms, kerr.ErrorForCode(resp.ErrorCode), nil
}

// brokers asks for the cluster's brokers and for no topic: every listener answers it, after the login if it wants one.
func (w *wire) brokers(ctx context.Context) (*kmsg.MetadataResponse, error) {
	req, resp := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataResponse()
	req.Version, req.Topics = 8, []kmsg.MetadataRequestTopic{}
	return resp, w.ask(ctx, req, resp)
}
