package kafkatest

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const firstPort = 21400

func TestKilledBrokerComesBackWithItsRecords(t *testing.T) {
	begin := time.Now()
	c := Start(t, Options{FirstPort: firstPort})
	t.Logf("one broker ready after %v", time.Since(begin).Round(time.Millisecond))
	cl := Client(t, c.Seeds())
	topic := Name(t, "t")
	CreateTopic(t, cl, topic, 1)
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.Brokers[0].Kill()
	begin = time.Now()
	if err := c.Brokers[0].Start(); err != nil {
		t.Fatal(err)
	}
	c.Ready(t)
	t.Logf("ready again after %v", time.Since(begin).Round(time.Millisecond))
	if got := Committed(t, c.Seeds(), topic, 0); len(got) != 1 {
		t.Fatalf("%d records after the restart, want 1", len(got))
	}
}
