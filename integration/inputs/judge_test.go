package inputs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// drained waits until the group has committed all of both inputs.
func drained(t *testing.T, client *kgo.Client, limit time.Duration) {
	t.Helper()
	adm := kadm.NewClient(client)
	kafkatest.Within(t, limit, "the end of both inputs", func(ctx context.Context) error {
		ends, err := adm.ListEndOffsets(ctx, pricesTopic, ordersTopic)
		if err != nil {
			return err
		}
		committed, err := adm.FetchOffsets(ctx, app)
		if err != nil {
			return err
		}
		behind := int64(0)
		ends.Each(func(end kadm.ListedOffset) {
			o, _ := committed.Lookup(end.Topic, end.Partition)
			behind += end.Offset - max(0, o.At)
		})
		if behind > 0 {
			return fmt.Errorf("%d offsets behind", behind)
		}
		return nil
	})
}

// output is one of the job's outputs, read back.
type output struct {
	count, number, price int64
	kind                 string
}

func parse(t *testing.T, r *kgo.Record) (o output) {
	t.Helper()
	if _, err := fmt.Sscanf(string(r.Value), "%d %s %d %d", &o.count, &o.kind, &o.number, &o.price); err != nil {
		t.Fatalf("%s has %q: %v", r.Key, r.Value, err)
	}
	return o
}

// judge follows the outputs of each key: the counter that both handlers move grows by one, the records of each input come in
// order and once, an order leaves with the price that was the last one then, and nothing that was fed is missing.
func judge(t *testing.T, seeds []string, fed map[string]map[string]int64) (outputs int) {
	t.Helper()
	type history struct {
		count, last int64
		number      map[string]int64
	}
	histories := map[string]*history{}
	for p := range int32(partitions) {
		for _, r := range kafkatest.Committed(t, seeds, pricedTopic, p) {
			o := parse(t, r)
			h := histories[string(r.Key)]
			if h == nil {
				h = &history{number: map[string]int64{}}
				histories[string(r.Key)] = h
			}
			if o.kind == "price" {
				h.last = o.number
			}
			if o.count != h.count+1 || o.number != h.number[o.kind]+1 || o.price != h.last {
				t.Errorf("%s has %q after count %d, %s %d, last price %d", r.Key, r.Value, h.count, o.kind, h.number[o.kind], h.last)
			}
			h.count, h.number[o.kind] = o.count, o.number
			outputs++
		}
	}
	for kind, byKey := range fed {
		for key, want := range byKey {
			if h := histories[key]; h == nil || h.number[kind] != want {
				t.Errorf("%s: of %d records of %s the outputs have %+v", key, want, kind, h)
			}
		}
	}
	return outputs
}

// together fails unless the offsets of a task's inputs carry the metadata of one transaction.
func together(t *testing.T, client *kgo.Client) {
	t.Helper()
	committed, err := kadm.NewClient(client).FetchOffsets(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(partitions) {
		prices, _ := committed.Lookup(pricesTopic, p)
		orders, _ := committed.Lookup(ordersTopic, p)
		if prices.Metadata == "" || prices.Metadata != orders.Metadata {
			t.Errorf("partition %d: prices were committed with %q, orders with %q", p, prices.Metadata, orders.Metadata)
		}
	}
}
