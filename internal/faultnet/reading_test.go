package faultnet_test

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/faultnet"
)

// A client reads while a request of its is sent whose answer is to be lost, and the broker takes longer than the network's patience.
// Who waits for the reader must let a bubble's clock go on, else the reader's deadline never comes.
func TestALostAnswerIsWaitedForWhileTheClientReads(t *testing.T) {
	hangs := time.AfterFunc(20*time.Second, func() { panic("the bubble's clock stands still") })
	defer hangs.Stop()
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		n := faultnet.New(func(context.Context, string, string) (net.Conn, error) { return client, nil })
		n.Arm(&faultnet.Rule{Name: "lost", Key: kmsg.EndTxn, Left: 1, Order: faultnet.Order{Deed: faultnet.DropResponse}})
		c := connect(t, n)
		go func() { _, _ = io.Copy(io.Discard, server) }() // takes requests and never answers
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		began := time.Now()
		if _, err := c.Write(endTxn(1)); err != nil {
			t.Errorf("write: %v", err)
		}
		if took := time.Since(began); took > 2*n.Patience {
			t.Errorf("the write took %s, the network's patience is %s", took, n.Patience)
		}
		if err := <-read; err == nil {
			t.Error("the client read an answer that was lost")
		}
	})
}
