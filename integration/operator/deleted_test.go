package operator

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/pipeline"
)

// Somebody deletes a topic in the midst of the transactions that write it. The job ends and names it, whether a record, a commit or
// the look for the topic met it first; the rest of the transaction is not committed, and the next start goes on behind the last one.
func TestATopicThatIsDeletedWhileItIsWrittenEndsTheJobByName(t *testing.T) {
	for _, topic := range []string{updates, letters} {
		t.Run(topic, func(t *testing.T) {
			d := newDesk(t, kafkatest.Options{})
			i := d.start(t, "pod-0")
			d.must(t, "feed", "--generate", "500", "--seed", "1", "--malformed", "10%")
			d.awaitLagZero(t)
			d.deleteWhileItIsWritten(t, topic, i)
			committed := d.committed(t)
			d.must(t, "topics", "apply")
			d.process(t)
			d.must(t, "feed", "--generate", "100", "--seed", "3", "--malformed", "10%")
			d.process(t)

			behind := d.sources(t, topic)
			for p, next := range committed {
				if len(behind[p]) == 0 || behind[p][0] < next {
					t.Errorf("%s/%d: its outcomes in the new %s are of %v, and %d was committed before", credits, p, topic, behind[p], next)
				}
			}
			d.onlyTheDeletedIsMissing(t, topic)
		})
	}
}

// deleteWhileItIsWritten returns when the job has ended and everything is fed.
func (d *desk) deleteWhileItIsWritten(t *testing.T, topic string, i *instance) {
	t.Helper()
	before := d.written(t.Context(), t, topic)
	var fed result
	done := make(chan struct{})
	go func() {
		defer close(done)
		fed = d.run(t, "feed", "--generate", "3000", "--rate", "1000", "--seed", "2", "--malformed", "10%")
	}()
	t.Cleanup(func() { <-done })
	kafkatest.Within(t, 20*time.Second, "each partition of "+topic+" is written", func(ctx context.Context) error {
		for p, end := range d.written(ctx, t, topic) {
			if end == before[p] {
				return errors.New("partition " + strconv.Itoa(int(p)) + " is not")
			}
		}
		return nil
	})
	if _, err := kadm.NewClient(d.client).DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	kafkatest.Within(t, 40*time.Second, "the job ends", func(ctx context.Context) error {
		select {
		case <-i.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	t.Logf("the job ended %v after the deletion", time.Since(deleted).Round(time.Millisecond))
	<-done
	fed.says(t, 0)
	result{errs: i.said(), code: i.ExitCode()}.says(t, 4, "topics do not exist: "+topic, "processor topics plan")
}

// written are the ends of a topic's partitions.
func (d *desk) written(ctx context.Context, t *testing.T, topic string) map[int32]int64 {
	t.Helper()
	l, err := kadm.NewClient(d.client).ListEndOffsets(ctx, topic)
	if err != nil || l.Error() != nil {
		t.Fatal(errors.Join(err, l.Error()))
	}
	ends := map[int32]int64{}
	l.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends
}

// committed are the next offsets of the input's partitions, once no transaction that moves them is undecided.
func (d *desk) committed(t *testing.T) map[int32]int64 {
	t.Helper()
	next := map[int32]int64{}
	for p := range d.written(t.Context(), t, credits) {
		kafkatest.Within(t, 40*time.Second, "the committed offset of a partition", func(ctx context.Context) (err error) {
			next[p], err = kafkatest.StableOffset(ctx, d.client, app, credits, p)
			return err
		})
	}
	return next
}

// sources are the offsets of the input that the records of an outcome's topic name, per partition of the input, in order.
func (d *desk) sources(t *testing.T, topic string) map[int32][]int64 {
	t.Helper()
	found := map[int32][]int64{}
	for p := range d.written(t.Context(), t, topic) {
		for _, r := range kafkatest.Committed(t, d.Seeds(), topic, p) {
			partition, offset := source(t, r)
			found[partition] = append(found[partition], offset)
		}
	}
	for _, offsets := range found {
		slices.Sort(offsets)
	}
	return found
}

// source is the input that a record is an outcome of.
func source(t *testing.T, r *kgo.Record) (partition int32, offset int64) {
	t.Helper()
	var outcome struct {
		Source struct {
			Partition int32
			Offset    int64
		}
	}
	if r.Topic != letters {
		if err := json.Unmarshal(r.Value, &outcome); err != nil {
			t.Fatalf("%s/%d/%d: %v", r.Topic, r.Partition, r.Offset, err)
		}
		return outcome.Source.Partition, outcome.Source.Offset
	}
	number := func(key string, bits int) int64 {
		i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == key })
		if i < 0 {
			t.Fatalf("%s/%d/%d has no header %s", r.Topic, r.Partition, r.Offset, key)
		}
		n, err := strconv.ParseInt(string(r.Headers[i].Value), 10, bits)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return int32(number(pipeline.HeaderPartition, 32)), number(pipeline.HeaderOffset, 64)
}

// onlyTheDeletedIsMissing fails the test unless each input has one outcome, or had it in the topic that is gone.
func (d *desk) onlyTheDeletedIsMissing(t *testing.T, topic string) {
	t.Helper()
	inputs, outcomes := int64(0), int64(0)
	for _, end := range d.written(t.Context(), t, credits) {
		inputs += end
	}
	for _, out := range []string{updates, letters, "ledger-skipped"} {
		for _, offsets := range d.sources(t, out) {
			outcomes += int64(len(offsets))
		}
	}
	var report struct {
		Counts map[string]int64 `json:"violation_counts"`
	}
	r := d.run(t, "verify", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("%v in %v", err, r)
	}
	for _, follows := range followers[topic] {
		delete(report.Counts, follows)
	}
	want := map[string]int64{"lost": inputs - outcomes}
	if r.code != 3 || !maps.Equal(report.Counts, want) || outcomes >= inputs {
		t.Errorf("verify exits %d with %v, want 3 with %v: %s is gone, and nothing else", r.code, report.Counts, want, topic)
	}
}

// followers are the verdicts that follow when outcomes are gone with a topic: the first update that is left of an account does
// not begin at nothing, and what hangs on its balance is not explained.
var followers = map[string][]string{updates: {"chain", "ghost", "money", "state"}}
