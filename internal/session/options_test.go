package session

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Each of these options carries a guarantee, and most have another default.
func TestClientOptionsThatGuaranteesStandOn(t *testing.T) {
	s := bare()
	s.id = "app-i-0"
	s.cfg.App, s.cfg.Instance, s.cfg.Inputs = "app", "i", []string{"in"}
	s.cfg.SessionTimeout, s.cfg.HeartbeatInterval, s.cfg.RebalanceTimeout, s.cfg.TransactionTimeout = 9*time.Second, 2*time.Second, 14*time.Second, 19*time.Second
	s.cfg.MaxRecordBytes = 4321
	client, err := kgo.NewClient(s.options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, c := range []struct {
		why  string
		opt  any
		want any
	}{
		{"input of aborted transactions is none", kgo.FetchIsolationLevel, int8(1)}, // read_committed
		{"a deleted record must not be jumped over", kgo.ConsumeResetOffset, kgo.NoResetOffset()},
		{"lag of transactional input reaches zero", kgo.KeepControlRecords, true},
		{"no revoke inside a transaction", kgo.BlockRebalanceOnPoll, true},
		{"a record without an answer keeps the transaction open", kgo.RecordDeliveryTimeout, time.Duration(0)},
		{"what is acknowledged survives its leader", kgo.RequiredAcks, kgo.AllISRAcks()},
		{"a broker that forgets us fences nobody later than promised", kgo.TransactionTimeout, 19 * time.Second},
		{"take-over bound", kgo.SessionTimeout, 9 * time.Second},
		{"a batch must fit every topic", kgo.ProducerBatchMaxBytes, int32(4321)},
	} {
		if got := client.OptValue(c.opt); got != c.want {
			t.Errorf("%s: option is %v, want %v", c.why, got, c.want)
		}
	}
	if got := client.OptValues(kgo.InstanceID); len(got) == 0 || got[0] != "i-0" {
		t.Errorf("group.instance.id is %v, want i-0: a restart would wait for its own session", got)
	}
}

// State and dead letters of task n stand in partition n, whatever their keys.
func TestExplicitPartitionIsHonouredAndOthersGoByKey(t *testing.T) {
	p := partitioner(func(string, []byte, int) int { return 2 })
	if got := p.Partition(&kgo.Record{Partition: 1}, 4); got != 1 {
		t.Errorf("placed on %d, want the partition that was named", got)
	}
	if got := p.Partition(&kgo.Record{Partition: -1}, 4); got != 2 {
		t.Errorf("placed on %d, want the key's", got)
	}
}
