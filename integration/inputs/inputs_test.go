package inputs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const firstPort = 22400

func newCrew(t *testing.T, idle time.Duration) (crew, *kgo.Client) {
	t.Helper()
	seeds := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort}).Seeds()
	dir, err := os.MkdirTemp("", "tallystick-inputs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the processes' logs are kept in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c := crew{t, seeds, dir, idle}
	client := kafkatest.Client(t, seeds)
	c.apply(client, partitions)
	return c, client
}

// Three processes share six tasks of two inputs. Each in turn is killed in the middle of its work and started again, one is
// added and one taken away: tasks move between four members, and must move whole.
func TestTwoInputsSurviveKillsAndRebalances(t *testing.T) {
	c, client := newCrew(t, 200*time.Millisecond)
	f := newFeeder(t, c.seeds)
	names := []string{"a", "b", "c"}
	running := map[string]*kafkatest.Process{}
	for _, name := range names {
		running[name] = c.start(name)
	}
	f.feed(500)
	drained(t, client, 60*time.Second)
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 6 {
		name := names[round%3]
		f.feed(200 + rng.IntN(200))
		running[name].Kill()
		f.feed(100)
		running[name] = c.start(name)
		f.feed(rng.IntN(300))
		split(t, client)
	}
	running["d"] = c.start("d")
	f.feed(500)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := running["a"].Terminate(ctx); err != nil {
		t.Fatal(err)
	}
	f.feed(500)
	drained(t, client, 60*time.Second)
	split(t, client)
	outputs := judge(t, c.seeds, f.fed)
	together(t, client)
	t.Logf("%d outputs, each as it must be", outputs)
}

// split fails when a member holds an input of a task without the other. What a member has that is between two generations is
// not known; the engine's own check does not depend on it.
func split(t *testing.T, client *kgo.Client) {
	t.Helper()
	groups, err := kadm.NewClient(client).DescribeGroups(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range groups[app].Members {
		assigned, ok := m.Assigned.AsConsumer()
		if !ok {
			continue
		}
		of := map[string][]int32{}
		for _, topic := range assigned.Topics {
			of[topic.Topic] = slices.Sorted(slices.Values(topic.Partitions))
		}
		if !slices.Equal(of[pricesTopic], of[ordersTopic]) {
			t.Errorf("member %s has prices %v and orders %v", m.ClientID, of[pricesTopic], of[ordersTopic])
		}
	}
}

// A task that starts behind two long inputs takes them in the order of their times: each order finds the price that was there
// before it.
func TestBacklogIsTakenByTime(t *testing.T) {
	c, client := newCrew(t, 0)
	const perKey = 500
	began := time.Now().Add(-time.Hour)
	var records []*kgo.Record
	for i := range int64(perKey) {
		for key := range keys {
			price, order := made("price", fmt.Sprintf("key-%d", key), i+1), made("order", fmt.Sprintf("key-%d", key), i+1)
			price.Timestamp, order.Timestamp = began.Add(time.Duration(2*i)*time.Second), began.Add(time.Duration(2*i+1)*time.Second)
			records = append(records, order, price)
		}
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.start("a")
	drained(t, client, 60*time.Second)
	wrong, orders := 0, 0
	for p := range int32(partitions) {
		for _, r := range kafkatest.Committed(t, c.seeds, pricedTopic, p) {
			o := parse(t, r)
			if o.kind != "order" {
				continue
			}
			orders++
			if o.price != o.number {
				wrong++
			}
		}
	}
	if wrong > 0 || orders != keys*perKey {
		t.Errorf("%d of %d orders met another price than the one before them, want 0 of %d", wrong, orders, keys*perKey)
	}
}
