package session

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// replica is a Replayer that keeps the values it was given.
type replica struct {
	values   []string
	position int64
	resets   int
	told     []RestoreResult
	fails    string // the value that interrupts the restore
	proof    string // the value that proves the contents; "" = none does
}

func (r *replica) Position() int64 { return r.position }
func (r *replica) Replay(_, value []byte) error {
	if r.fails != "" && r.fails == string(value) {
		return errors.New("interrupted")
	}
	r.values = append(r.values, string(value))
	return nil
}
func (r *replica) SetPosition(next int64)     { r.position = next }
func (r *replica) Proven() bool               { return r.proof != "" && slices.Contains(r.values, r.proof) }
func (r *replica) Progress(res RestoreResult) { r.told = append(r.told, res) }
func (r *replica) Reset() error {
	r.values, r.position = nil, 0
	r.resets++
	return nil
}

var stateLog = TopicPartition{"state", 0}

func write(t *testing.T, client *kgo.Client, values ...string) {
	t.Helper()
	for _, v := range values {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "state", Key: []byte("k"), Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func deleteBefore(t *testing.T, client *kgo.Client, offset int64) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset("state", 0, offset, -1)
	if _, err := kadm.NewClient(client).DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
}

func restore(t *testing.T, client *kgo.Client, r *replica) RestoreResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	res, err := Restore(ctx, client, stateLog, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// An aborted transaction leaves neither a record nor a hole: the position ends behind its marker.
func TestRestoreReadsCommittedRecordsToTheEndOfTheLog(t *testing.T) {
	c, client := embedded(t, 1, "state")
	write(t, client, "a")
	producer := openTransaction(t, c, "app-i-0", "state")
	if err := producer.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	r := &replica{}
	restore(t, client, r)
	end, err := EndOffset(t.Context(), client, stateLog)
	if err != nil || !slices.Equal(r.values, []string{"a"}) || r.position != end {
		t.Errorf("replayed %q to position %d, want [a] to %d (%v)", r.values, r.position, end, err)
	}
}

func TestRestoreGoesOnFromItsPosition(t *testing.T) {
	_, client := embedded(t, 1, "state")
	write(t, client, "a", "b", "c")
	r := &replica{position: 2}
	if restore(t, client, r); !slices.Equal(r.values, []string{"c"}) || r.resets != 0 {
		t.Errorf("replayed %q with %d resets, want the rest alone", r.values, r.resets)
	}
}

// What an interruption left proves nothing of what was not read: the next restore goes on from there.
func TestInterruptedRestoreGoesOnWhereItStopped(t *testing.T) {
	_, client := embedded(t, 1, "state")
	write(t, client, "a", "b", "c")
	r := &replica{fails: "b"}
	if _, err := Restore(t.Context(), client, stateLog, r, nil); err == nil {
		t.Fatal("the restore was not interrupted")
	}
	r.fails = ""
	if restore(t, client, r); !slices.Equal(r.values, []string{"a", "b", "c"}) {
		t.Errorf("an interrupted restore counts as complete: replayed %q", r.values)
	}
}

// Contents whose continuation was deleted cannot be continued: what the deleted records changed is not in them.
func TestRestoreStartsOverWhenTheLogNoLongerReachesBack(t *testing.T) {
	_, client := embedded(t, 1, "state")
	write(t, client, "a", "b", "c", "d")
	deleteBefore(t, client, 3)
	r := &replica{position: 1, values: []string{"a"}}
	if restore(t, client, r); !slices.Equal(r.values, []string{"d"}) || r.resets != 1 || r.position != 4 {
		t.Errorf("replayed %q, %d resets, position %d: want [d], 1, 4", r.values, r.resets, r.position)
	}
}

func TestRestoreStartsOverWhenItsPositionLiesBehindTheEnd(t *testing.T) {
	_, client := embedded(t, 1, "state")
	write(t, client, "new")
	r := &replica{position: 9, values: []string{"of another topic"}}
	if restore(t, client, r); !slices.Equal(r.values, []string{"new"}) {
		t.Errorf("holds %q: the topic was truncated or made anew", r.values)
	}
}

// An open transaction of a zombie stands above the proof: nothing that counts can follow, so nobody waits for it.
func TestProofEndsTheRestoreBelowAnOpenTransaction(t *testing.T) {
	c, client := embedded(t, 1, "state")
	write(t, client, "a", "marker")
	openTransaction(t, c, "app-zombie-0", "state")
	r := &replica{proof: "marker"}
	if res := restore(t, client, r); !res.ByProof || r.position != 2 {
		t.Errorf("ended at %d, by proof %v: want 2 by proof", r.position, res.ByProof)
	}
}

// A broker may lose the offsets of a commit and keep its state: a proof counts only where nothing decided stands above it.
func TestProofWithCommittedRecordsAboveItIsNoEnd(t *testing.T) {
	_, client := embedded(t, 1, "state")
	write(t, client, "marker", "later")
	r := &replica{proof: "marker", values: []string{"marker"}, position: 1}
	if restore(t, client, r); !slices.Equal(r.values, []string{"marker", "later"}) {
		t.Errorf("stopped after %q", r.values)
	}
}

// Without a proof the end is the high watermark: the open transaction may be the previous owner's, already decided.
func TestRestoreWithoutProofWaitsForOpenTransactions(t *testing.T) {
	c, client := embedded(t, 1, "state")
	write(t, client, "a")
	producer := openTransaction(t, c, "app-i-0", "state")
	r := &replica{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	held, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		select {
		case <-held:
			ended <- producer.EndTransaction(context.Background(), kgo.TryCommit) // the restore may be done before its answer is here
		case <-ctx.Done():
			ended <- ctx.Err()
		}
	}()
	told := false
	_, err := Restore(ctx, client, stateLog, r, func(_ context.Context, cause error) {
		if cause == nil && !told { // a transaction is open
			told = true
			close(held)
		}
	})
	if err != nil || !told || !slices.Equal(r.values, []string{"a", "v"}) {
		t.Errorf("replayed %q, told %v, %v: want [a v] after the commit", r.values, told, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Compaction may leave nothing between the position and the end: an answer without batches is then the end, not a pause.
func TestTailThatWasCompactedAwayEndsAtTheLastStableOffset(t *testing.T) {
	p := &partitionReader{tp: stateLog}
	empty := kmsg.NewFetchResponseTopicPartition()
	empty.HighWatermark, empty.LastStableOffset = 9, 8
	if _, next, err := p.decode(&empty, 5); err != nil || next != 8 {
		t.Errorf("next is %d, %v, want 8", next, err)
	}
	empty.LastStableOffset = 5
	if _, next, err := p.decode(&empty, 5); err != nil || next != 5 {
		t.Errorf("next is %d, %v: an open transaction is no end", next, err)
	}
}

// Brokers hand out what is on their disk; the check sum is the reader's to look at.
func TestDamagedBatchIsNoEndOfTheLog(t *testing.T) {
	batch := kmsg.RecordBatch{Length: 49, Magic: 2, CRC: 1, NumRecords: 1}
	damaged := kmsg.NewFetchResponseTopicPartition()
	damaged.HighWatermark, damaged.LastStableOffset, damaged.RecordBatches = 1, 1, batch.AppendTo(nil)
	p := &partitionReader{tp: stateLog}
	if _, next, err := p.decode(&damaged, 0); !errors.Is(err, kerr.CorruptMessage) || next != 0 {
		t.Errorf("next is %d, %v, want a corrupt message at 0", next, err)
	}
}

// A new leader may lack the tail that its predecessor counted: the target is looked at again, or the restore never ends.
func TestTargetThatWasTruncatedEndsTheRestore(t *testing.T) {
	c, client := embedded(t, 1, "state")
	write(t, client, "a")
	c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) { // once
		resp := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		topic, p := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
		topic.Topic, p.Offset = "state", 9
		topic.Partitions = append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r := &replica{}
	if _, err := Restore(ctx, client, stateLog, r, func(context.Context, error) {}); err != nil || !slices.Equal(r.values, []string{"a"}) {
		t.Errorf("replayed %q, %v", r.values, err)
	}
}
