//go:build synctests

package simulation

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/record"
)

// history is what the outputs of one key tell, in the order in which they were committed.
type history struct {
	count, last int64
	next        map[string]int64 // by kind: the last number
}

// pairJudge reads what the job has left and holds it against what was fed. It shares nothing with the job but the words of its
// outputs.
type pairJudge struct {
	verdicts
	keys map[string]*history
}

// verdicts is what a judge has found.
type verdicts struct {
	w     *world
	found map[string]bool
}

func newVerdicts(w *world) verdicts { return verdicts{w, map[string]bool{}} }

func (v verdicts) say(verdict, format string, args ...any) {
	v.found[verdict] = true
	v.w.fail("%s: %s", verdict, fmt.Sprintf(format, args...))
}

func (v verdicts) names() []string { return slices.Sorted(maps.Keys(v.found)) }

func judgePairs(w *world, ctx context.Context) []string {
	j := &pairJudge{newVerdicts(w), map[string]*history{}}
	for _, r := range w.committed(ctx, pricedTopic) {
		j.output(string(r.Key), string(r.Value))
	}
	if n := len(w.committed(ctx, deadTopic)); n > 0 {
		j.say("dead", "%d dead letters", n)
	}
	j.books(w.feeder.source.(*pairSource).books)
	j.state(ctx)
	j.offsets(ctx)
	return j.names()
}

func (j *pairJudge) history(key string) *history {
	h := j.keys[key]
	if h == nil {
		h = &history{next: map[string]int64{}}
		j.keys[key] = h
	}
	return h
}

// output follows one key: its counter grows by one with each record of either input, the records of each input come in order,
// once, and an order leaves with the price that was the last one then.
func (j *pairJudge) output(key, value string) {
	var count, number, price int64
	var kind string
	if _, err := fmt.Sscanf(value, "%d %s %d %d", &count, &kind, &number, &price); err != nil {
		j.say("ghost", "%s has %q: %v", key, value, err)
		return
	}
	h := j.history(key)
	switch was := h.next[kind]; {
	case number >= ghostNumber:
		j.say("ghost", "%s has %q of an aborted transaction", key, value)
	case number <= was:
		j.say("duplicate", "%s has %q after %s %d", key, value, kind, was)
	case number > was+1:
		j.say("lost", "%s has %q after %s %d", key, value, kind, was)
	}
	if count != h.count+1 {
		j.say("chain", "%s has %q after count %d", key, value, h.count)
	}
	h.next[kind] = max(h.next[kind], number)
	if kind == "price" {
		h.last = number
	}
	if price != h.last {
		j.say("chain", "%s has %q, its last price was %d", key, value, h.last)
	}
	h.count = count
}

func (j *pairJudge) books(books pairBooks) {
	for kind, keys := range books {
		for key, want := range keys {
			if got := j.history(key).next[kind]; got < want {
				j.say("lost", "%s: %d of %d records of %s came", key, got, want, kind)
			}
		}
	}
}

// state holds the last value of each row in the state topic against the outputs.
func (j *pairJudge) state(ctx context.Context) {
	rows := map[string]int64{}
	for _, r := range j.w.committed(ctx, pairState) {
		if n := int(r.Key[0]); n > 0 {
			store, key := string(r.Key[1:1+n]), string(r.Key[1+n:])
			value, err := record.Int64.Decode(r.Value)
			if err != nil {
				j.say("state", "%s of %s: %v", store, key, err)
			}
			rows[store+" "+key] = value
		}
	}
	for key, h := range j.keys {
		if got := rows["count "+key]; got != h.count {
			j.say("state", "%s counts %d in the state, %d in its outputs", key, got, h.count)
		}
		if got := rows["last "+key]; got != h.last {
			j.say("state", "the last price of %s is %d in the state, %d in its outputs", key, got, h.last)
		}
	}
}

// offsets sees to it that a task's inputs were committed together: their metadata is that of the task's last transaction.
func (j *pairJudge) offsets(ctx context.Context) {
	got, err := kadm.NewClient(j.w.admin).FetchOffsets(ctx, app)
	if err != nil {
		j.w.fail("offsets: %v", err)
	}
	for p := range int32(partitions) {
		prices, _ := got.Lookup(pricesTopic, p)
		orders, _ := got.Lookup(ordersTopic, p)
		if prices.Metadata == "" || prices.Metadata != orders.Metadata {
			j.say("offset", "partition %d: prices were committed with %q, orders with %q", p, prices.Metadata, orders.Metadata)
		}
	}
}

// committed returns the committed records of a topic, each partition's in order.
func (w *world) committed(ctx context.Context, topic string) (records []*kgo.Record) {
	ends, err := kadm.NewClient(w.admin).ListEndOffsets(ctx, topic)
	if err != nil {
		w.fail("end of %s: %v", topic, err)
		return nil
	}
	from := map[string]map[int32]kgo.Offset{topic: {}}
	left := 0
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			from[topic][end.Partition] = kgo.NewOffset().AtStart()
			left++
		}
	})
	if left == 0 {
		return nil
	}
	client, err := kgo.NewClient(append(w.direct(), kgo.ConsumePartitions(from), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		w.fail("read %s: %v", topic, err)
		return nil
	}
	defer client.Close()
	for left > 0 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if end, _ := ends.Lookup(topic, r.Partition); r.Offset == end.Offset-1 {
				left--
			}
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
	}
	if ctx.Err() != nil {
		w.fail("read %s: %v", topic, ctx.Err())
	}
	slices.SortStableFunc(records, func(a, b *kgo.Record) int { return bytes.Compare(a.Key, b.Key) })
	return records
}
