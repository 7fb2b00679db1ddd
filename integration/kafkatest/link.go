package kafkatest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/faultnet"
)

// A link is one client's connection through a proxy to one broker. A broker answers in the order of the requests.
type link struct {
	p              *Proxy
	client, broker net.Conn
	translate      bool // change broker addresses in answers into the proxy's

	end   sync.Once
	ended chan struct{} // closed by reset

	mu      sync.Mutex
	due     []expectation // answers to come, oldest first
	drained chan struct{} // not nil: closed when none is due any more

	silent bool // no answer passes any more; of the goroutine that passes them
}

// An expectation is what is known of an answer before it comes.
type expectation struct {
	correlation int32
	key         kmsg.Key
	version     int16
	hit         *Injected // nil, or a fault of the answer
}

// run passes frames both ways until one side ends.
func (l *link) run() {
	go func() {
		l.responses()
		l.client.Close()
	}()
	for {
		frame, err := readFrame(l.client)
		if err != nil || len(frame) < 12 || !l.request(frame) {
			return
		}
	}
}

// reset ends the connection as a dead peer does: the client sees ECONNRESET.
func (l *link) reset() {
	l.end.Do(func() {
		close(l.ended)
		if tcp, ok := l.client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // fails only on a connection that is closed
		}
		l.client.Close()
		if l.broker != nil {
			l.broker.Close()
		}
	})
}

// request passes one request on, or does to it what a fault says. It reports whether the connection lives on.
func (l *link) request(frame []byte) bool {
	e := expectation{correlation: faultnet.Correlation(frame), key: kmsg.Key(binary.BigEndian.Uint16(frame[4:])), version: int16(binary.BigEndian.Uint16(frame[6:]))}
	l.p.count(l.p.arrived, e.key)
	if !l.pause(l.p.latency()) || !l.p.await(l, func() bool { return l.p.frozen&Requests == 0 && !l.p.held[e.key] }) {
		return false
	}
	hit := l.p.match(e.key, frame)
	if hit != nil && !hit.fault.Deed.onResponse() {
		return l.mistreat(frame, e, hit)
	}
	e.hit = hit
	return l.pass(frame, e)
}

// mistreat does a deed on a request.
func (l *link) mistreat(frame []byte, e expectation, hit *Injected) bool {
	hit.happens()
	switch hit.fault.Deed {
	case DropRequest:
		return false
	case Hang:
		_, _ = io.Copy(io.Discard, l.client) // until the client gives up
		return false
	case Refuse:
		return l.refuse(frame, e, hit.fault.Code)
	case DelayRequest:
		return l.pause(hit.fault.Delay) && l.pass(frame, e)
	}
	return l.pass(frame, e)
}

// pass hands a request to the broker.
func (l *link) pass(frame []byte, e expectation) bool {
	l.mu.Lock()
	l.due = append(l.due, e)
	l.mu.Unlock()
	if _, err := l.broker.Write(frame); err != nil {
		return false
	}
	l.p.count(l.p.passed, e.key)
	return true
}

// refuse answers in the broker's place, when what it still has to answer is answered.
func (l *link) refuse(frame []byte, e expectation, code int16) bool {
	req, err := faultnet.DecodeRequest(frame)
	if err != nil {
		l.p.fail(err)
		return false
	}
	resp := refusal(req)
	if resp == nil || !faultnet.SetCode(resp, code) {
		l.p.fail(fmt.Errorf("a proxy cannot refuse %s: teach refusal and faultnet.SetCode", e.key.Name()))
		return false
	}
	select {
	case <-l.allAnswered():
	case <-l.ended:
		return false
	}
	if !l.p.await(l, func() bool { return l.p.frozen&Responses == 0 }) {
		return false
	}
	_, err = l.client.Write(faultnet.EncodeResponse(resp, e.correlation))
	return err == nil
}

// refusal is an answer without errors to a request, with everything that it asks for.
func refusal(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind()
	switch r := req.(type) {
	case *kmsg.TxnOffsetCommitRequest:
		answer := resp.(*kmsg.TxnOffsetCommitResponse)
		for _, t := range r.Topics {
			topic := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition})
			}
			answer.Topics = append(answer.Topics, topic)
		}
	case *kmsg.ProduceRequest:
		answer := resp.(*kmsg.ProduceResponse)
		for _, t := range r.Topics {
			topic := kmsg.ProduceResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition = p.Partition
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
	}
	return resp
}

// pause waits, also when the client is gone: what it sent sits in a socket.
func (l *link) pause(d time.Duration) bool {
	if d == 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-l.ended:
		return false
	}
}

func (p *Proxy) latency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// responses passes answers back until the broker ends the connection or a fault does.
func (l *link) responses() {
	for {
		frame, err := readFrame(l.broker)
		if err != nil || len(frame) < 8 {
			return
		}
		e := l.expected(int32(binary.BigEndian.Uint32(frame[4:])))
		if e.hit != nil {
			e.hit.happens()
		}
		if !l.p.await(l, func() bool { return l.p.frozen&Responses == 0 }) || !l.answer(frame, e) {
			return
		}
	}
}

// expected takes the request that an answer belongs to. Those before it want no answer (acks=0).
func (l *link) expected(correlation int32) expectation {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, e := range l.due {
		if e.correlation == correlation {
			l.due = l.due[n+1:]
			l.drain()
			return e
		}
	}
	return expectation{}
}

// allAnswered is closed when no answer is due; nothing is passed on until then.
func (l *link) allAnswered() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := make(chan struct{})
	l.drained = done
	l.drain()
	return done
}

// drain wants the lock.
func (l *link) drain() {
	if len(l.due) == 0 && l.drained != nil {
		close(l.drained)
		l.drained = nil
	}
}

// answer passes one answer on. It reports whether the connection lives on.
func (l *link) answer(frame []byte, e expectation) bool {
	if e.hit != nil {
		switch e.hit.fault.Deed {
		case DropResponse:
			l.reset()
			return false
		case HangResponse:
			l.silent = true
		case AnswerError:
			frame = l.rewrite(frame, e, func(resp kmsg.Response) bool { return faultnet.SetCode(resp, e.hit.fault.Code) })
		}
	}
	if l.silent {
		return true
	}
	if l.translate && namesBrokers(e.key) {
		frame = l.rewrite(frame, e, l.p.translate)
	}
	_, err := l.client.Write(frame)
	return err == nil
}

// rewrite changes an answer, if change says that it did.
func (l *link) rewrite(frame []byte, e expectation, change func(kmsg.Response) bool) []byte {
	resp, err := faultnet.DecodeResponse(e.key, e.version, frame)
	if err != nil {
		l.p.fail(err)
		return frame
	}
	if !change(resp) {
		return frame
	}
	return faultnet.EncodeResponse(resp, e.correlation)
}

// readFrame returns one whole frame, its length included.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
