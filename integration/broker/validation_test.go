package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

func TestRecordStampedMoreThanAnHourAheadIsRefused(t *testing.T) {
	seeds := kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort})
	cl, topic := kafkatest.Client(t, seeds), kafkatest.Name(t, "t")
	kafkatest.CreateTopic(t, cl, topic, 1)
	for ahead, want := range map[time.Duration]error{50 * time.Minute: nil, 70 * time.Minute: kerr.InvalidTimestamp} {
		r := &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.Now().Add(ahead)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); !errors.Is(err, want) {
			t.Errorf("%v ahead: %v, want %v", ahead, err, want)
		}
	}
}

func TestKeylessRecordOnACompactedTopicIsRefused(t *testing.T) {
	seeds := kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort})
	cl, topic := kafkatest.Client(t, seeds), kafkatest.Name(t, "t")
	kafkatest.CreateTopic(t, cl, topic, 1, "cleanup.policy", "compact")
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("without a key: %v", err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte{}, Value: []byte("v")}).FirstErr(); err != nil {
		t.Errorf("with an empty key: %v", err)
	}
}

func TestUnknownTopicConfigIsRefused(t *testing.T) {
	seeds := kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort})
	adm := kadm.NewClient(kafkatest.Client(t, seeds))
	for name, value := range map[string]string{"retention.minutes": "5", "cleanup.policy": "compress"} {
		_, err := adm.CreateTopic(t.Context(), 1, -1, map[string]*string{name: &value}, kafkatest.Name(t, "t"))
		if !errors.Is(err, kerr.InvalidConfig) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

func TestDeleteRecordsOnACompactedTopicIsRefused(t *testing.T) {
	seeds := kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort})
	cl, topic := kafkatest.Client(t, seeds), kafkatest.Name(t, "t")
	kafkatest.CreateTopic(t, cl, topic, 1, "cleanup.policy", "compact")
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var upTo kadm.Offsets
	upTo.AddOffset(topic, 0, 1, -1)
	r, err := kadm.NewClient(cl).DeleteRecords(t.Context(), upTo)
	if err == nil {
		err = r[topic][0].Err
	}
	if !errors.Is(err, kerr.PolicyViolation) {
		t.Errorf("delete records: %v", err)
	}
}
