package faultnet_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/faultnet"
)

// broker answers every request of its pipe and counts them.
type broker struct{ acted atomic.Int32 }

func (b *broker) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go b.serve(server)
	return client, nil
}

func (b *broker) serve(c net.Conn) {
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		request := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, request); err != nil {
			return
		}
		b.acted.Add(1)
		resp := kmsg.NewPtrEndTxnResponse()
		answer := append([]byte(nil), request[4:8]...) // the correlation id
		answer = resp.AppendTo(answer)
		if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func endTxn(correlation uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, 10)
	b = binary.BigEndian.AppendUint16(b, uint16(kmsg.EndTxn))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, correlation)
	return append(b, 0, 0)
}

// exchange sends one request and returns the error code of its answer.
func exchange(c net.Conn, correlation uint32) (int16, error) {
	if _, err := c.Write(endTxn(correlation)); err != nil {
		return 0, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return 0, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, answer); err != nil {
		return 0, err
	}
	resp := kmsg.NewPtrEndTxnResponse()
	err := resp.ReadFrom(answer[4:])
	return resp.ErrorCode, err
}

func connect(t *testing.T, n *faultnet.Network) net.Conn {
	t.Helper()
	c, err := n.Dial(t.Context(), "tcp", "broker:9092")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestDeedsDoWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		name  string
		order faultnet.Order
		acted int32
		reset bool
		code  int16
	}{
		{"pass", faultnet.Order{}, 1, false, 0},
		{"drop request", faultnet.Order{Deed: faultnet.DropRequest}, 0, true, 0},
		{"drop response", faultnet.Order{Deed: faultnet.DropResponse}, 1, true, 0},
		{"answer error", faultnet.Order{Deed: faultnet.AnswerError, Code: kerr.UnknownServerError.Code}, 1, false, kerr.UnknownServerError.Code},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &broker{}
			n := faultnet.New(b.dial)
			n.Patience = 10 * time.Second
			then := false
			c.order.Then = func() { then = true }
			n.Arm(&faultnet.Rule{Name: "x", Key: kmsg.EndTxn, Skip: 1, Left: 1, Order: c.order})
			conn := connect(t, n)
			if _, err := exchange(conn, 1); err != nil {
				t.Fatalf("the skipped request: %v", err)
			}
			code, err := exchange(conn, 2)
			if errors.Is(err, syscall.ECONNRESET) != c.reset || code != c.code || b.acted.Load() != 1+c.acted || !then {
				t.Errorf("error %v, code %d, the broker acted %d times, then %v", err, code, b.acted.Load(), then)
			}
			if n.Taken()["x"] != 1 {
				t.Errorf("taken %v", n.Taken())
			}
		})
	}
}

func TestAnswerIsLostAfterTheBrokerActed(t *testing.T) {
	b := &broker{}
	n := faultnet.New(b.dial)
	n.Patience = 10 * time.Second
	acted := int32(-1)
	n.Watch(func(r faultnet.Request) faultnet.Order {
		return faultnet.Order{Deed: faultnet.DropResponse, Then: func() { acted = b.acted.Load() }}
	})
	if _, err := exchange(connect(t, n), 7); err == nil || acted != 1 {
		t.Errorf("error %v, acted %d times when it was lost", err, acted)
	}
}

func TestLateRequestOutlivesItsSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{}
		n := faultnet.New(b.dial)
		n.Watch(func(faultnet.Request) faultnet.Order {
			return faultnet.Order{Deed: faultnet.DelayRequest, Delay: time.Minute, Then: n.Down}
		})
		conn := connect(t, n)
		if _, err := exchange(conn, 1); err == nil {
			t.Error("the sender got an answer from beyond its end")
		}
		if _, err := n.Dial(t.Context(), "tcp", "broker:9092"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial after its end: %v", err)
		}
		if time.Sleep(59 * time.Second); b.acted.Load() != 0 {
			t.Error("the request came early")
		}
		if time.Sleep(2 * time.Second); b.acted.Load() != 1 {
			t.Error("the request never came")
		}
		time.Sleep(time.Minute)
	})
}

func TestFrozenNetworkGoesOnWhereItStood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{}
		n := faultnet.New(b.dial)
		n.Watch(func(r faultnet.Request) faultnet.Order {
			if r.N == 1 {
				return faultnet.Order{Then: n.Freeze}
			}
			return faultnet.Order{}
		})
		conn := connect(t, n)
		time.AfterFunc(time.Hour, n.Thaw)
		began := time.Now()
		if _, err := exchange(conn, 1); err != nil || time.Since(began) != time.Hour {
			t.Errorf("error %v after %s", err, time.Since(began))
		}
		n.Freeze()
		time.AfterFunc(time.Hour, n.Heal)
		if _, err := exchange(conn, 2); err != nil || time.Since(began) != 2*time.Hour || b.acted.Load() != 2 {
			t.Errorf("error %v after %s", err, time.Since(began))
		}
		conn.Close()
		synctest.Wait()
	})
}
