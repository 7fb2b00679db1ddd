package operator

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// hang leaves a transaction in a partition that its coordinator knows nothing of, as bugs of brokers before KIP-890 did: a
// produce that arrives after the end. It returns the transaction's first offset.
func (d *desk) hang(t *testing.T, id, topic string, partition int32) int64 {
	t.Helper()
	old := kafkatest.Client(t, d.Seeds(), kgo.TransactionalID(id), kgo.MaxVersions(kversion.V3_5_0()))
	producer, epoch, err := old.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &id, -1, 5000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, transactionalBatch(producer, epoch)
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic, pt.Partitions = topic, append(pt.Partitions, p)
	req.Topics = append(req.Topics, pt)
	leader, err := d.leader(t, topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := old.Broker(int(leader)).Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	answer := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		t.Fatalf("the broker refuses a hanging transaction: %v", err)
	}
	return answer.BaseOffset
}

func (d *desk) leader(t *testing.T, topic string, partition int32) (int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &topic
	req.Topics = append(req.Topics, mt)
	resp, err := req.RequestWith(t.Context(), d.client)
	if err != nil {
		return 0, err
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.Partition == partition {
			return p.Leader, nil
		}
	}
	return 0, kerr.UnknownTopicOrPartition
}

// transactionalBatch is one record in a batch of an open transaction.
func transactionalBatch(producer int64, epoch int16) []byte {
	rec := kmsg.Record{Key: []byte("a"), Value: event("H-1", "a")}
	body := rec.AppendTo(nil)[1:] // its length is one byte while it is 0
	rec.Length = int32(len(body))
	now := time.Now().UnixMilli()
	const transactional = 0x10
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, Attributes: transactional, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: producer, ProducerEpoch: epoch, NumRecords: 1, Records: rec.AppendTo(nil)}
	const head, crcAt, crcEnd = 12, 17, 21 // offset and length; where the checksum is, and what it covers begins
	b.Length = int32(len(b.AppendTo(nil)) - head)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[crcEnd:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
