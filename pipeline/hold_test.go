package pipeline

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Few large records are as much as many small ones. And what was held is fetched again before the next wait, not after it.
func TestInputIsHeldByBytesAndFetchedAgainBeforeThePollWaits(t *testing.T) {
	l := pairedLoop(t)
	l.p.cfg.MaxTaskIdle = time.Hour
	table, in := &l.tasks[0].inputs[0], &l.tasks[0].inputs[1]
	table.stable = 1
	large := &kgo.Record{Topic: "in", Key: []byte("k"), Value: make([]byte, maxQueuedBytes/4)}
	in.queue = []*kgo.Record{large, large, large}
	if l.hold(); in.held {
		t.Errorf("held with %d bytes", 3*len(large.Value))
	}
	in.queue = append(in.queue, large)
	if l.hold(); !in.held {
		t.Errorf("not held with %d bytes", 4*len(large.Value))
	}
	in.queue = in.queue[2:]
	if l.hold(); !in.held {
		t.Error("fetched again although half is left: it would be held again at once")
	}
	in.queue = nil
	l.feedMany(10)
	l.sess.Poll(t.Context(), time.Millisecond, 1) // a wake-up that was on its way; nothing is fetched
	if err := l.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if in.held || len(in.queue) == 0 {
		t.Errorf("held %v, %d records came: want some, at the first poll", in.held, len(in.queue))
	}
}
