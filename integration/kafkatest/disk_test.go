package kafkatest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestABrokerWhoseDiskIsFullEndsAndComesBackWhenThereIsRoom(t *testing.T) {
	var data string
	t.Run("cluster", func(t *testing.T) {
		c := Start(t, Options{Brokers: 3, FirstPort: firstPort, DiskMiB: 64})
		cl := Client(t, c.Seeds())
		topic := Name(t, "t")
		CreateTopic(t, cl, topic, 1)
		full := c.Leader(t, topic, 0)
		data = full.disk.dir
		full.FillDisk(t)
		n := 0
		Within(t, 60*time.Second, "the broker with the full disk ends", func(ctx context.Context) error {
			n++
			// Small ones fit into pages that a log has taken already.
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: make([]byte, 100_000)}).FirstErr(); err != nil {
				return err
			}
			if !full.Ended() {
				return errors.New("it runs")
			}
			return nil
		})
		full.FreeDisk(t)
		if err := full.Start(); err != nil {
			t.Fatal(err)
		}
		c.Ready(t)
		if got := len(Committed(t, c.Seeds(), topic, 0)); got < n {
			t.Errorf("%d records of %d that were acknowledged", got, n)
		}
	})
	mounts, err := os.ReadFile("/proc/mounts")
	if data != "" && (err != nil || strings.Contains(string(mounts), data)) {
		t.Errorf("%s is still mounted: %v", data, err)
	}
}
