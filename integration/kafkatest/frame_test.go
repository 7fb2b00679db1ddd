package kafkatest

import (
	"strings"
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
