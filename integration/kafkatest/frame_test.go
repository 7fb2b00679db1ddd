package kafkatest

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestARequestThatCannotBeReadFailsTheTestAndHoldsNobody(t *testing.T) {
	p := newProxy()
	p.Inject(Fault{Key: kmsg.EndTxn, Deed: DropRequest, If: func(kmsg.Request) bool { return true }})
	frame := make([]byte, 16)
	frame[5] = byte(kmsg.EndTxn.Int16())
	done := make(chan *Injected, 1)
	go func() { done <- p.match(kmsg.EndTxn, frame) }()
	select {
	case hit := <-done:
		if hit != nil {
			t.Error("a fault took a request that it cannot have looked at")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the proxy waits for itself")
	}
	if err := p.failure(); err == nil || !strings.Contains(err.Error(), "EndTxn") {
		t.Errorf("the proxy says %v", err)
	}
}

// A client that reads an end of file takes the broker for one that refuses it, and gives up early.
func TestADroppedRequestResetsTheConnectionEachTime(t *testing.T) {
	broker, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	p, err := NewProxy("127.0.0.1:0", broker.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Inject(Fault{Key: kmsg.EndTxn, Deed: DropRequest})
	frame := make([]byte, 16)
	frame[3], frame[5] = 12, byte(kmsg.EndTxn.Int16())
	for n := range 200 {
		c, err := p.Dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("connection %d: %v, want a reset", n, err)
		}
		c.Close()
	}
}
