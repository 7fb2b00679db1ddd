package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
)

// testBroker is a broker with one topic, and a producer on it.
func testBroker(t *testing.T, topic string, partitions int32, config map[string]string) (*devbroker.Broker, *kgo.Client) {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Cluster().CreateTopic(topic, partitions, config); err != nil {
		t.Fatal(err)
	}
	return b, testClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

func testClient(t *testing.T, b *devbroker.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addrs()...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produce(t *testing.T, cl *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// transaction produces in one transaction, whose end is the caller's.
func transaction(t *testing.T, b *devbroker.Broker, id string, records ...*kgo.Record) func(kgo.TransactionEndTry) {
	t.Helper()
	cl := testClient(t, b, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, records...)
	return func(how kgo.TransactionEndTry) {
		t.Helper()
		if err := cl.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
}

// processor runs one command line against the broker and returns stdout, stderr and the exit code.
func processor(t *testing.T, b *devbroker.Broker, stdin string, args ...string) (string, string, exitCode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, stdout, stderr := newTestCLI("PROCESSOR_BOOTSTRAP_SERVERS=" + b.String())
	c.stdin = strings.NewReader(stdin)
	code := c.execute(ctx, args)
	return stdout.String(), stderr.String(), code
}

func rec(partition int32, key, value string) *kgo.Record {
	return &kgo.Record{Topic: "events", Partition: partition, Key: []byte(key), Value: []byte(value), Timestamp: time.UnixMilli(1_700_000_000_000)}
}

func TestTailToEndStopsWhateverStandsAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		fill func(t *testing.T, b *devbroker.Broker, cl *kgo.Client)
		want []string // values
		says string
	}{
		"nothing": {fill: func(*testing.T, *devbroker.Broker, *kgo.Client) {}},
		"plain records": {fill: func(t *testing.T, _ *devbroker.Broker, cl *kgo.Client) {
			produce(t, cl, rec(0, "a", "1"), rec(2, "b", "2"))
		}, want: []string{"1", "2"}},
		"commit marker": {fill: func(t *testing.T, b *devbroker.Broker, _ *kgo.Client) {
			transaction(t, b, "x", rec(1, "a", "1"))(kgo.TryCommit)
		}, want: []string{"1"}},
		"aborted records": {fill: func(t *testing.T, b *devbroker.Broker, cl *kgo.Client) {
			produce(t, cl, rec(0, "a", "1"))
			transaction(t, b, "x", rec(0, "a", "hidden"), rec(1, "b", "hidden"))(kgo.TryAbort)
		}, want: []string{"1"}},
		"open transaction": {fill: func(t *testing.T, b *devbroker.Broker, cl *kgo.Client) {
			produce(t, cl, rec(0, "a", "1"))
			transaction(t, b, "upstream-7", rec(0, "a", "not yet"))
			produce(t, cl, rec(0, "a", "behind it"))
		}, want: []string{"1"}, says: "partition 0: stopping at offset 1, 2 before the end: an open transaction of upstream-7 since "},
		"compacted": {fill: func(t *testing.T, b *devbroker.Broker, cl *kgo.Client) {
			for _, v := range []string{"1", "2", "3"} {
				produce(t, cl, &kgo.Record{Topic: "events", Key: []byte("a"), Value: []byte(v)})
			}
			b.Cluster().Compact()
		}, want: []string{"2", "3"}}, // the cleaner leaves the last batch alone
	} {
		t.Run(name, func(t *testing.T) {
			b, cl := testBroker(t, "events", 3, map[string]string{"cleanup.policy": "compact"})
			c.fill(t, b, cl)
			out, errs, code := processor(t, b, "", "tail", "events", "--to-end", "-f", `%v\n`)
			if got := strings.Fields(out); code != exitOK || !slices.Equal(got, c.want) {
				t.Errorf("exit %d, got %q, want %q", code, got, c.want)
			}
			if !strings.Contains(errs, c.says) || c.says == "" && errs != "" {
				t.Errorf("says %q, want %q", errs, c.says)
			}
		})
	}
}

func TestTailUncommittedShowsOpenTransactions(t *testing.T) {
	b, _ := testBroker(t, "events", 1, nil)
	transaction(t, b, "x", rec(0, "a", "open"))
	if out, errs, code := processor(t, b, "", "tail", "events", "--to-end", "--uncommitted", "-f", `%v\n`); code != exitOK || out != "open\n" || errs != "" {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestTailTellsNullEmptyAndTheTextNullApart(t *testing.T) {
	b, cl := testBroker(t, "events", 1, nil)
	values := [][]byte{nil, {}, []byte("null"), []byte(`"quoted"`), []byte("line\nbreak"), {0xff, 0}, []byte("Łukasz")}
	for _, v := range values {
		produce(t, cl, &kgo.Record{Topic: "events", Value: v, Timestamp: time.UnixMilli(0)})
	}
	out, _, _ := processor(t, b, "", "tail", "events", "--to-end")
	want := []string{"null", `""`, `"null"`, `"\"quoted\""`, `"line\nbreak"`, `"\xff\x00"`, "Łukasz"}
	for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if line != fmt.Sprintf("0/%d\t1970-01-01T00:00:00.000Z\tnull\t%s", i, want[i]) {
			t.Errorf("line %q, want the value %s", line, want[i])
		}
	}
	out, _, _ = processor(t, b, "", "tail", "events", "--to-end", "-o", "jsonl")
	for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		var r tailRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !bytes.Equal(r.Value, values[i]) || (r.Value == nil) != (values[i] == nil) {
			t.Errorf("%s: value %q, want %q", line, r.Value, values[i])
		}
	}
	_, errs, _ := processor(t, b, "", "tail", "events", "--to-end", "-f", `%v\n`)
	if !strings.Contains(errs, "7 records have no key or no value") {
		t.Errorf("a lossy format does not say so: %q", errs)
	}
}

// notify is a stdout that says when a text was written to it.
type notify struct {
	text  string
	found func()
	buf   bytes.Buffer
}

func (n *notify) Write(p []byte) (int, error) {
	n.buf.Write(p)
	if strings.Contains(n.buf.String(), n.text) {
		n.found()
	}
	return len(p), nil
}

func TestTailGoesOnWithNewRecordsUntilItIsStopped(t *testing.T) {
	b, cl := testBroker(t, "events", 2, nil)
	produce(t, cl, rec(0, "a", "first"))
	ctx, cancel := context.WithCancelCause(t.Context())
	c, _, stderr := newTestCLI("PROCESSOR_BOOTSTRAP_SERVERS=" + b.String())
	last := &notify{text: "last", found: func() { cancel(interruptedError{syscall.SIGINT}) }}
	first := &notify{text: "first", found: sync.OnceFunc(func() { go cl.Produce(t.Context(), rec(1, "b", "last"), nil) })}
	c.stdout = io.MultiWriter(first, last)
	if code := c.execute(ctx, []string{"tail", "events", "-f", `%v\n`}); code != exitInterrupted {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if got := last.buf.String(); got != "first\nlast\n" {
		t.Errorf("printed %q", got)
	}
}

func TestTailJSONIsOneArray(t *testing.T) {
	b, cl := testBroker(t, "events", 2, nil)
	for want := range 3 {
		out, _, code := processor(t, b, "", "tail", "events", "--to-end", "-o", "json")
		var got []tailRecord
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != want || code != exitOK {
			t.Errorf("exit %d, %d records, want %d: %v in %s", code, len(got), want, err, out)
		}
		produce(t, cl, rec(int32(want%2), "k", "v"))
	}
}

func TestTailBeginsWhereItIsTold(t *testing.T) {
	b, cl := testBroker(t, "events", 1, nil)
	for i := range 5 {
		r := rec(0, "k", fmt.Sprint(i))
		r.Timestamp = time.Date(2026, 1, 1, 12, 0, i, 0, time.UTC)
		produce(t, cl, r)
	}
	for from, want := range map[string]string{
		"start": "01234", "end": "", "3": "34", "-2": "34", "-99": "01234", "99": "", "2026-01-01T12:00:02Z": "234", "2026-01-01T13:00:00+01:00": "01234", "2030-01-01T00:00:00Z": "",
	} {
		if out, errs, code := processor(t, b, "", "tail", "events", "--to-end", "--from", from, "-f", "%v"); code != exitOK || out != want {
			t.Errorf("--from %s: exit %d, %q, want %q: %s", from, code, out, want, errs)
		}
	}
	if out, _, _ := processor(t, b, "", "tail", "events", "-n", "2", "-f", "%v"); out != "01" {
		t.Errorf("-n 2 prints %q", out)
	}
}

func TestTailSaysThatAnOffsetIsBeyondTheEnd(t *testing.T) {
	b, cl := testBroker(t, "events", 1, nil)
	produce(t, cl, rec(0, "k", "v"))
	_, said, code := processor(t, b, "", "tail", "events", "--from", "1000", "--to-end")
	if code != exitOK || !strings.Contains(said, "partition 0: offset 1000 is beyond the end 1: beginning at the end") {
		t.Errorf("exit %d: %s", code, said)
	}
	if _, said, _ = processor(t, b, "", "tail", "events", "--from", "1", "--to-end"); strings.Contains(said, "beyond") {
		t.Errorf("the end itself is no mistake: %s", said)
	}
}

func TestTailSaysWhatRetentionTookWhileItRead(t *testing.T) {
	b, cl := testBroker(t, "events", 1, nil)
	produce(t, cl, rec(0, "k", "1"), rec(0, "k", "2"), rec(0, "k", "3"))
	r := &topicReader{client: cl, topic: "events", cursors: []*cursor{{next: 0, target: 3}}}
	if err := b.Cluster().DeleteRecords("events", 0, 2); err != nil {
		t.Fatal(err)
	}
	var skipped int64
	var values string
	for !r.cursors[0].done() {
		got, err := r.round(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range got {
			skipped += f.skipped
			for _, r := range f.partition.Records {
				values += string(r.Value)
			}
		}
	}
	if skipped != 2 || values != "3" {
		t.Errorf("skipped %d, read %q", skipped, values)
	}
}

// A cleaner may take the last records of a closed segment: then no answer ever holds an offset at the end.
func TestTailEndsWhereCompactionTookTheTail(t *testing.T) {
	b, cl := testBroker(t, "events", 1, nil)
	produce(t, cl, rec(0, "k", "1"), rec(0, "k", "2"))
	b.Cluster().ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		topic := req.(*kmsg.FetchRequest).Topics[0]
		resp.Topics = []kmsg.FetchResponseTopic{{TopicID: topic.TopicID, Partitions: []kmsg.FetchResponseTopicPartition{{HighWatermark: 2, LastStableOffset: 2}}}}
		return resp, nil, true
	})
	if out, errs, code := processor(t, b, "", "tail", "events", "--to-end", "-f", "%v"); code != exitOK || out != "" {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
}

func TestTailStopsWhenTheTopicIsMadeAgain(t *testing.T) {
	b, cl := testBroker(t, "events", 1, nil)
	r := &topicReader{client: cl, topic: "events", cursors: []*cursor{{next: 0, target: noTarget}}}
	if _, err := r.round(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := b.Cluster().DeleteTopic("events"); err != nil {
		t.Fatal(err)
	}
	if err := b.Cluster().CreateTopic("events", 1, nil); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := r.round(t.Context(), 0)
		if err != nil {
			if !strings.Contains(err.Error(), "made again") {
				t.Errorf("got %v", err)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("another topic of the same name is read as if it were the old one")
		}
	}
}

func TestTailFollowsMovedLeaders(t *testing.T) {
	b, err := devbroker.Start(devbroker.Options{Brokers: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Cluster().CreateTopic("events", 1, nil); err != nil {
		t.Fatal(err)
	}
	cl := testClient(t, b)
	r := &topicReader{client: cl, topic: "events", cursors: []*cursor{{next: 0, target: 3}}}
	for i := range int32(3) {
		if err := b.Cluster().MoveTopicPartition("events", 0, i); err != nil {
			t.Fatal(err)
		}
		produce(t, cl, rec(0, "k", "v"))
		for r.cursors[0].next <= int64(i) {
			if _, err := r.round(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTailReadsAPartitionOnceThatIsNamedTwice(t *testing.T) {
	b, cl := testBroker(t, "events", 2, nil)
	produce(t, cl, &kgo.Record{Topic: "events", Partition: 1, Value: []byte("x")})
	if out, errs, code := processor(t, b, "", "tail", "events", "--to-end", "-p", "1", "-p", "1,1"); code != exitOK || countLines(out) != 1 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestTailRefusesWhatIsNotThere(t *testing.T) {
	b, _ := testBroker(t, "events", 2, nil)
	for _, c := range []struct {
		args []string
		code exitCode
		says string
	}{
		{[]string{"tail"}, exitUsage, "takes one topic"},
		{[]string{"tail", "nowhere"}, exitNotFound, "nowhere"},
		{[]string{"tail", "events", "-p", "7"}, exitNotFound, "no partition 7"},
		{[]string{"tail", "events", "--from", "yesterday"}, exitUsage, "--from"},
		{[]string{"tail", "events", "--from", "2026-01-01T12:00:00"}, exitUsage, "zone"},
		{[]string{"tail", "events", "-f", "%Q"}, exitUsage, "--format"},
	} {
		if _, errs, code := processor(t, b, "", c.args...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%q exits %d, want %d: %s", c.args, code, c.code, errs)
		}
	}
}
