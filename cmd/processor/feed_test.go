package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/pipeline"
)

const credits = "credit-events"

// readAll is what tail -o jsonl prints, by partition and offset.
func readAll(t *testing.T, b *devbroker.Broker, topic string) []tailRecord {
	t.Helper()
	out, errs, code := processor(t, b, "", "tail", topic, "--to-end", "-o", "jsonl")
	if code != exitOK {
		t.Fatalf("tail exits %d: %s", code, errs)
	}
	var all []tailRecord
	for line := range strings.Lines(out) {
		var r tailRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b tailRecord) int { return int(a.Partition-b.Partition)<<20 + int(a.Offset-b.Offset) })
	return all
}

// fed runs feed -o json and returns its report.
func fed(t *testing.T, b *devbroker.Broker, stdin string, args ...string) (*feedReport, string, exitCode) {
	t.Helper()
	out, errs, code := processor(t, b, stdin, append([]string{"feed", "-o", "json"}, args...)...)
	r := newFeedReport("")
	if err := json.Unmarshal([]byte(out), r); err != nil && code != exitUsage && code != exitNotFound {
		t.Fatalf("exit %d: %v in %q: %s", code, err, out, errs)
	}
	return r, errs, code
}

func TestFeedKeepsLinesAndTakesTheKeyFromThem(t *testing.T) {
	b, _ := testBroker(t, credits, 4, nil)
	input := []struct{ line, key string }{
		{`{"event_id":"1","account_id":"priya","amount":"1.00"}`, "priya"},
		{` { "account_id" : "\u0041da" , "x": {"account_id":"no"} } `, "Ada"},
		{`{"x":[{"account_id":"no"}],"account_id":"z","account_id":"second"}`, "z"},
		{`{"account_id":"half`, "-"}, {`not json`, "-"}, {`{"account_id":7}`, "-"}, {`["account_id"]`, "-"}, {`{}`, "-"}, {"\x00\xff", "-"},
		{`{"account_id":""}`, ""}, {`{"account_id":"cut","amount"`, "cut"}, {"{\"account_id\":\"cr\"}\r", "cr"},
	}
	var text string
	for _, in := range input {
		text += in.line + "\n\n" // blank lines are passed over
	}
	r, errs, code := fed(t, b, strings.TrimSuffix(text, "\n\n"))
	if code != exitOK || r.Acknowledged != int64(len(input)) || r.WithoutKey != 6 {
		t.Fatalf("exit %d, %+v: %s", code, r, errs)
	}
	got := map[string]tailRecord{}
	for _, rec := range readAll(t, b, credits) {
		got[string(rec.Value)] = rec
	}
	for _, in := range input {
		rec, ok := got[in.line]
		switch {
		case !ok:
			t.Errorf("%q is not in the topic byte for byte", in.line)
		case in.key == "-" && rec.Key != nil, in.key != "-" && (rec.Key == nil || string(rec.Key) != in.key):
			t.Errorf("%q has the key %q, want %q", in.line, rec.Key, in.key)
		case in.key != "-" && rec.Partition != pipeline.Murmur2.Partition(rec.Key, 4):
			t.Errorf("%q is on partition %d", in.line, rec.Partition)
		}
	}
}

func TestFeedPlacesKeysAsKafkaDoes(t *testing.T) {
	ours, kafkas := byKey(pipeline.Murmur2).ForTopic("x"), kgo.StickyKeyPartitioner(nil).ForTopic("x")
	for i := range 500 {
		r := &kgo.Record{Key: []byte(strings.Repeat("é", i%9) + fmt.Sprint(i*i))}
		if a, b := ours.Partition(r, 7), kafkas.Partition(r, 7); a != b {
			t.Fatalf("%q goes to %d, Kafka's own producers send it to %d", r.Key, a, b)
		}
	}
}

func TestFeedTailFeedIsByteIdentical(t *testing.T) {
	b, cl := testBroker(t, "events", 3, nil)
	for i, r := range []*kgo.Record{
		{}, {Key: []byte{}, Value: []byte{}}, {Key: []byte("null"), Value: []byte("null")}, {Key: []byte("a"), Value: nil},
		{Key: []byte("bin\xff\x00"), Value: []byte("\xfe\n\r\t\"<>&\u2028")}, {Key: []byte("k"), Value: []byte(`{"base64":"eA=="}`)},
		{Key: []byte("h"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "b", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "b", Value: []byte("\xff")}, {}}},
	} {
		r.Topic, r.Partition, r.Timestamp = "events", int32(i%3), time.UnixMilli(int64(i)*1_000_000_000_007)
		produce(t, cl, r)
	}
	if err := b.Cluster().CreateTopic("copy", 3, nil); err != nil {
		t.Fatal(err)
	}
	first, _, _ := processor(t, b, "", "tail", "events", "--to-end", "-o", "jsonl")
	if r, errs, code := fed(t, b, first, "--from-tail", "--keep-partitions", "--topic", "copy"); code != exitOK || r.Acknowledged != 7 {
		t.Fatalf("exit %d, %+v: %s", code, r, errs)
	}
	second, _, _ := processor(t, b, "", "tail", "copy", "--to-end", "-o", "jsonl")
	if a, b := sortedLines(first), sortedLines(strings.ReplaceAll(second, `"topic":"copy"`, `"topic":"events"`)); a != b {
		t.Errorf("first\n%s\nsecond\n%s", a, b)
	}
}

func sortedLines(s string) string {
	return strings.Join(slices.Sorted(strings.Lines(s)), "")
}

func TestFeedAndTailShareTheFormatLanguage(t *testing.T) {
	const layout = `%K{big32}%k%V{big32}%v%H{big32}%h{%K{big32}%k%V{big32}%v}`
	b, cl := testBroker(t, "events", 1, nil)
	produce(t, cl, rec(0, "k\n", "v\x00"), &kgo.Record{Topic: "events", Key: []byte("h"), Value: []byte("x"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}})
	if err := b.Cluster().CreateTopic("copy", 1, nil); err != nil {
		t.Fatal(err)
	}
	first, _, _ := processor(t, b, "", "tail", "events", "--to-end", "-f", layout)
	if r, errs, code := fed(t, b, first, "-f", layout, "--topic", "copy"); code != exitOK || r.Acknowledged != 2 {
		t.Fatalf("exit %d, %+v: %s", code, r, errs)
	}
	if second, _, _ := processor(t, b, "", "tail", "copy", "--to-end", "-f", layout); second != first {
		t.Errorf("%q became %q", first, second)
	}
	if _, errs, code := fed(t, b, "\x00\x00", "-f", layout, "--topic", "copy"); code != exitFailed || !strings.Contains(errs, "record 1 does not fit the format") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestFeedRefusesWhatTheTopicCannotTakeAndGoesOn(t *testing.T) {
	b, _ := testBroker(t, credits, 2, map[string]string{"max.message.bytes": "1048588", "message.timestamp.after.max.ms": "3600000"})
	big := `{"account_id":"a","x":"` + strings.Repeat("x", 10<<20) + `"}`
	r, errs, code := fed(t, b, "{\"account_id\":\"a\"}\n"+big+"\n{\"account_id\":\"b\"}\n")
	if code != exitFailed || r.Acknowledged != 2 || r.Refused != 1 {
		t.Fatalf("exit %d, %+v: %s", code, r, errs)
	}
	if f := r.Refusals[0]; f.Number != 2 || f.Bytes != int64(len(big))+1 || !strings.Contains(f.Cause, "topic credit-events takes (max.message.bytes=1048588)") {
		t.Errorf("%+v", f)
	}
	ahead := fmt.Sprintf(`{"key":"a","value":"x","timestamp":%q}`, time.Now().Add(2*time.Hour).Format(time.RFC3339))
	r, _, code = fed(t, b, "nonsense\n"+ahead+"\n{\"key\":\"a\",\"value\":null}\n{\"kee\":1}\n", "--from-tail")
	if code != exitFailed || r.Acknowledged != 1 || r.Refused != 3 {
		t.Fatalf("exit %d, %+v", code, r)
	}
	for i, says := range []string{"no line of tail -o jsonl", "message.timestamp.after.max.ms=3600000", "no line of tail -o jsonl"} {
		if !strings.Contains(r.Refusals[i].Cause, says) {
			t.Errorf("%+v, want %q", r.Refusals[i], says)
		}
	}
}

func TestFeedKeepsEventsOutOfACompactedTopic(t *testing.T) {
	b, _ := testBroker(t, "other-post-state", 1, map[string]string{"cleanup.policy": "compact"})
	for _, args := range [][]string{nil, {"--generate", "1"}} {
		r, errs, code := fed(t, b, "{\"account_id\":\"a\"}\n", append(args, "--topic", "other-post-state")...)
		if code != exitUsage || r.Acknowledged != 0 || !strings.Contains(errs, "compacted") || !strings.Contains(errs, "hint: ") {
			t.Errorf("%q: exit %d, %+v: %s", args, code, r, errs)
		}
	}
	if r, errs, code := fed(t, b, "a b\n", "-f", "%k %v\n", "--topic", "other-post-state"); code != exitOK || r.Acknowledged != 1 {
		t.Errorf("exit %d, %+v: %s", code, r, errs)
	}
}

func TestFeedFromTailRefusesWhatWouldLoseOrInventARecord(t *testing.T) {
	b, _ := testBroker(t, credits, 1, nil)
	line := `{"topic":"t","partition":0,"offset":0,"timestamp":"2026-01-01T00:00:00Z","key":"a","value":"x"}`
	for _, input := range []string{"null", "{}", line + line, line + ",", line + " x"} {
		r, errs, code := fed(t, b, input+"\n", "--from-tail")
		if code != exitFailed || r.Acknowledged != 0 || r.Refused != 1 || !strings.Contains(errs, "1 record was refused") {
			t.Errorf("%s: exit %d, %+v: %s", input, code, r, errs)
		}
	}
}

func TestFeedTakesAsMuchAsTheTopicAllows(t *testing.T) {
	b, _ := testBroker(t, credits, 1, map[string]string{"max.message.bytes": "20000000"})
	if r, errs, code := fed(t, b, `{"account_id":"a","x":"`+strings.Repeat("x", 10<<20)+`"}`); code != exitOK || r.Acknowledged != 1 {
		t.Errorf("exit %d, %+v: %s", code, r, errs)
	}
}

func TestFeedNamesTheRefusalOfTheBroker(t *testing.T) {
	b, _ := testBroker(t, credits, 1, nil)
	for _, c := range []struct {
		err  *kerr.Error
		code exitCode
		says string
	}{
		{kerr.MessageTooLarge, exitFailed, "max.message.bytes"},
		{kerr.InvalidRecord, exitFailed, "INVALID_RECORD"},
		{kerr.TopicAuthorizationFailed, exitFailed, "READ, WRITE and DESCRIBE"},
	} {
		fault := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: c.err, Count: -1})
		r, errs, code := fed(t, b, `{"account_id":"a"}`)
		fault.Remove()
		if text := fmt.Sprint(errs, r.Refusals); code != c.code || r.Acknowledged != 0 || !strings.Contains(text, c.says) {
			t.Errorf("%s: exit %d, %+v: %s", c.err.Message, code, r, text)
		}
	}
}

func TestFeedGeneratesTheSameEventsFromTheSameSeed(t *testing.T) {
	b, _ := testBroker(t, credits, 4, nil)
	args := []string{"--generate", "300", "--accounts", "10", "--duplicates", "5%", "--conflicts", "0.02", "--malformed", "3%", "--refused", "5%", "--seed", "7"}
	var expected int64
	for range 2 {
		r, errs, code := fed(t, b, "", args...)
		if code != exitOK || r.Acknowledged != 300 || len(r.Expected) < 4 {
			t.Fatalf("exit %d, %+v: %s", code, r, errs)
		}
		expected = 0
		for _, e := range r.Expected {
			expected += e.Records
		}
	}
	if expected != 300 {
		t.Errorf("%d outcomes expected for 300 events", expected)
	}
	all := readAll(t, b, credits)
	counts := map[string]int{}
	for _, r := range all {
		counts[string(r.Key)+"\x00"+string(r.Value)]++
	}
	for k, n := range counts {
		if n%2 != 0 {
			t.Errorf("%q is there %d times: the two runs differ", k, n)
		}
	}
	if len(all) != 600 {
		t.Errorf("%d records", len(all))
	}
}

func TestFeedPacesItself(t *testing.T) {
	b, _ := testBroker(t, credits, 1, nil)
	start := time.Now()
	if _, errs, code := fed(t, b, "", "--generate", "20", "--rate", "100"); code != exitOK {
		t.Fatal(errs)
	}
	if took := time.Since(start); took < 190*time.Millisecond {
		t.Errorf("20 records at 100/s took %s", took)
	}
}

func TestFeedReadsFiles(t *testing.T) {
	b, _ := testBroker(t, credits, 1, nil)
	file := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(file, []byte("{\"account_id\":\"a\"}\n{\"account_id\":\"b\"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, errs, code := fed(t, b, "", file); code != exitOK || r.Acknowledged != 2 || r.Partitions[0].LastOffset != 1 {
		t.Errorf("exit %d, %+v: %s", code, r, errs)
	}
	out, _, code := processor(t, b, "{\"account_id\":\"a\"}\nx\n", "feed", "-")
	if code != exitOK || !strings.Contains(out, "credit-events: 2 acknowledged") || !strings.Contains(out, "offsets 2 to 3") || !strings.Contains(out, "without a key: 1") {
		t.Errorf("exit %d, %s", code, out)
	}
}

func TestFeedRefusesFlagsThatContradict(t *testing.T) {
	b, _ := testBroker(t, credits, 1, nil)
	for _, c := range []struct {
		args []string
		code exitCode
		says string
	}{
		{[]string{"--seed", "3"}, exitUsage, "--generate"},
		{[]string{"--generate", "3", "file"}, exitUsage, "no file"},
		{[]string{"-f", "%v\n", "--from-tail"}, exitUsage, "give one"},
		{[]string{"--keep-partitions"}, exitUsage, "--from-tail"},
		{[]string{"--generate", "3", "--duplicates", "150%"}, exitUsage, "no share"},
		{[]string{"--generate", "3", "--duplicates", "70%", "--malformed", "70%"}, exitUsage, "add up"},
		{[]string{"--rate", "-1"}, exitUsage, "--rate"},
		{[]string{"--generate", "3", "--accounts", "0"}, exitUsage, "--accounts 0"},
		{[]string{"--topic", "ledger-post-state"}, exitUsage, "the job itself writes"},
		{[]string{"--topic", "ledger-updates", "--generate", "1"}, exitUsage, "the job itself writes"},
		{[]string{"--topic", "ledger-dead-letters"}, exitUsage, "the job itself writes"},
		{[]string{"-f", "%Q"}, exitUsage, "--format"},
		{[]string{"/no/such/file"}, exitUsage, "/no/such/file"},
		{[]string{"--topic", "nowhere"}, exitNotFound, "topics apply"},
	} {
		if _, errs, code := fed(t, b, "", c.args...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%q exits %d, want %d and %q: %s", c.args, code, c.code, c.says, errs)
		}
	}
}

// endless is a workload without an end; it says when n records were handed out.
type endless struct {
	generated
	n       int64
	reached func()
}

func (e *endless) next() (*kgo.Record, int64, error) {
	r, number, err := e.generated.next()
	if number == e.n {
		e.reached()
	}
	return r, number, err
}

func TestFeedAccountsForEveryRecordWhenItIsStopped(t *testing.T) {
	b, _ := testBroker(t, credits, 1, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	g, err := newGenerated(generate.Config{Events: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	source := &endless{*g, 5000, func() { cancel(interruptedError{syscall.SIGINT}) }}
	c, _, _ := newTestCLI()
	f := &feeder{client: testClient(t, b, kgo.DefaultProduceTopic(credits)), target: feedTarget{topic: credits}, report: newFeedReport(credits), progress: newProgress(c, "feed", 0)}
	defer f.progress.done()
	if code := exitOf(ctx, io.Discard, f.report.failure(f.run(ctx, source)), false); code != exitInterrupted {
		t.Errorf("exit %d", code)
	}
	if sum := f.report.Acknowledged + f.report.Unacknowledged; sum != source.number && sum != source.number-1 { // the last one may not have been sent
		t.Errorf("%d handed out, %d acknowledged, %d not", source.number, f.report.Acknowledged, f.report.Unacknowledged)
	}
	if there := int64(len(readAll(t, b, credits))); there < f.report.Acknowledged {
		t.Errorf("%d acknowledged, %d there", f.report.Acknowledged, there)
	}
}

func TestFeedSaysThatNobodyAnswers(t *testing.T) {
	b, _ := testBroker(t, credits, 1, nil)
	b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c, _, stderr := newTestCLI("PROCESSOR_BOOTSTRAP_SERVERS=" + b.Addrs()[0])
	if code := c.execute(ctx, []string{"feed", "--generate", "1"}); code != exitUnavailable {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
