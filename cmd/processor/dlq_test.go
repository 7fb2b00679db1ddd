package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
)

const letters = "ledger-dead-letters"

// letterOf is a dead letter as the engine writes it.
func letterOf(partition int32, key, value []byte, reason, source string, headers ...kgo.RecordHeader) *kgo.Record {
	parts := strings.Split(source, "/")
	own := []string{pipeline.HeaderException, reason, pipeline.HeaderMessage, "why", pipeline.HeaderTopic, parts[0], pipeline.HeaderPartition, parts[1],
		pipeline.HeaderOffset, parts[2], pipeline.HeaderReason, reason, pipeline.HeaderStage, "post", pipeline.HeaderTime, time.Now().UTC().Format(timestampLayout)}
	for i := 0; i < len(own); i += 2 {
		headers = append(headers, kgo.RecordHeader{Key: own[i], Value: []byte(own[i+1])})
	}
	return &kgo.Record{Topic: letters, Partition: partition, Key: key, Value: value, Headers: headers}
}

func letterBroker(t *testing.T, all ...*kgo.Record) (*devbroker.Broker, *kgo.Client) {
	t.Helper()
	b, cl := testBroker(t, letters, 2, nil)
	if err := b.Cluster().CreateTopic(credits, 2, map[string]string{"retention.ms": "604800000"}); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, all...)
	return b, cl
}

func TestDLQListCountsByReason(t *testing.T) {
	k := []byte("a")
	b, _ := letterBroker(t, letterOf(0, k, k, "malformed_json", "credit-events/0/1"), letterOf(1, k, k, "malformed_json", "credit-events/1/1"),
		letterOf(0, k, k, "conflict", "credit-events/0/2"))
	out, errs, code := processor(t, b, "", "dlq", "list", "-o", "json")
	var rows []reasonRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != exitOK || len(rows) != 2 {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, errs)
	}
	if r := rows[0]; r.Reason != "malformed_json" || r.Letters != 2 || r.Stage != "post" || r.Redriven != 0 || r.First.IsZero() || r.Advice == "" {
		t.Errorf("%+v", r)
	}
	out, errs, _ = processor(t, b, "", "dlq", "list", "--each", "--reason", "malformed_json", "--limit", "1")
	if countLines(out) != 2 || !strings.Contains(errs, "the newest 1 of 2") {
		t.Errorf("%s%s", out, errs)
	}
	if out, _, _ = processor(t, b, "", "dlq", "list", "--each", "--since", "2999-01-01T00:00:00Z", "-o", "jsonl"); out != "" {
		t.Error(out)
	}
	if _, errs, code := processor(t, b, "", "dlq", "list", "--application-id", "other"); code != exitNotFound || !strings.Contains(errs, "is application.id right?") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// null, "" and the text "null" look different, in the table and in JSON.
func TestDLQShowPrintsTheBytes(t *testing.T) {
	k := []byte("a")
	for i, c := range []struct {
		value       []byte
		table, json string
	}{{nil, "value        null  (null)", `"value":null`}, {[]byte{}, `value        ""  (0 bytes)`, `"value":""`}, {[]byte("null"), `value        "null"  (4 bytes)`, `"value":"null"`},
		{[]byte{0xff}, `value        "\xff"  (1 bytes)`, `"value":{"base64":"/w=="}`}} {
		b, _ := letterBroker(t, letterOf(1, k, c.value, "malformed_json", "credit-events/1/7", kgo.RecordHeader{Key: "trace", Value: []byte("1")}, kgo.RecordHeader{Key: "trace"}))
		out, errs, code := processor(t, b, "", "dlq", "show", "1/0")
		if code != exitOK || !strings.Contains(out, c.table) || !strings.Contains(out, "header       trace=null") || !strings.Contains(out, "credit-events/1/7, stamped 2") || !strings.Contains(out, "not there any more") {
			t.Errorf("%d: exit %d\n%s%s", i, code, out, errs)
		}
		if out, _, _ = processor(t, b, "", "dlq", "show", letters+"/1/0", "-o", "jsonl"); !strings.Contains(out, c.json) || !strings.Contains(out, `"input_there":false`) {
			t.Errorf("%d: %s", i, out)
		}
		if _, errs, code = processor(t, b, "", "dlq", "show", "1/9"); code != exitNotFound {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
}

func TestDLQShowNamesTheFieldsThatDiffer(t *testing.T) {
	first := kgo.RecordHeader{Key: pipeline.HeaderFirst, Value: []byte("credit-events/0/0")}
	b, cl := letterBroker(t, letterOf(0, []byte("a"), []byte(`{"event_id":"E","amount":"6.00"}`), "conflict", "credit-events/0/1", first))
	produce(t, cl, &kgo.Record{Topic: credits, Key: []byte("a"), Value: []byte(`{"event_id":"E","amount":"5.00","type":"credit"}`)})
	out, _, _ := processor(t, b, "", "dlq", "show", "0/0")
	for _, want := range []string{`differs in        amount: first "5.00", this one "6.00"`, `type: first "credit", this one absent`, "under a new event_id"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// redrivenRows runs dlq redrive -o json and returns its rows.
func redrivenRows(t *testing.T, b *devbroker.Broker, want exitCode, args ...string) []redriveRow {
	t.Helper()
	out, errs, code := processor(t, b, "", append([]string{"dlq", "redrive", "-o", "json"}, args...)...)
	var rows []redriveRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != want {
		t.Fatalf("exit %d, want %d, %v\n%s%s", code, want, err, out, errs)
	}
	return rows
}

func TestRedriveKeepsKeyValueHeadersAndTheirOrder(t *testing.T) {
	headers := []kgo.RecordHeader{{Key: "b", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "b", Value: []byte{}}, {Key: "a", Value: []byte{0xff}}}
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	letter := letterOf(1, []byte("acc-1"), []byte("\x00 exactly\n"), "unknown_type", "credit-events/1/70", headers...)
	for i, h := range letter.Headers {
		if h.Key == pipeline.HeaderTime {
			letter.Headers[i].Value = []byte(at.Format(timestampLayout))
		}
	}
	b, _ := letterBroker(t, letter)
	if rows := redrivenRows(t, b, exitUsage, "--all", "--dry-run"); rows[0].Action != sendIt || rows[0].To != "credit-events/"+fmt.Sprint(pipeline.Murmur2.Partition([]byte("acc-1"), 2)) {
		t.Errorf("%+v", rows[0])
	}
	if got := readAll(t, b, credits); len(got) != 0 {
		t.Fatalf("a dry run wrote %v", got)
	}
	row := redrivenRows(t, b, exitOK, "1/0", "--yes")[0]
	got := readAll(t, b, credits)
	if len(got) != 1 || row.Action != sentNow || row.To != fmt.Sprintf("credit-events/%d/0", got[0].Partition) {
		t.Fatalf("%+v, %+v", row, got)
	}
	r := got[0]
	if string(r.Key) != "acc-1" || string(r.Value) != "\x00 exactly\n" || !r.Timestamp.Equal(at) || r.Partition != pipeline.Murmur2.Partition([]byte("acc-1"), 2) {
		t.Errorf("%+v", r)
	}
	want := append(slices.Clone(headers), kgo.RecordHeader{Key: topology.HeaderRedriveOf, Value: []byte("credit-events/1/70")})
	same := slices.EqualFunc(r.Headers, want, func(g tailHeader, w kgo.RecordHeader) bool {
		return g.Key == w.Key && bytes.Equal(g.Value, w.Value) && (g.Value == nil) == (w.Value == nil)
	})
	if !same {
		t.Errorf("headers %+v, want %+v", r.Headers, want)
	}
}

func TestASecondRedriveFindsNothingToDo(t *testing.T) {
	b, _ := letterBroker(t, letterOf(0, []byte("a"), []byte("{"), "malformed_json", "credit-events/0/3"), letterOf(0, []byte("b"), []byte("{"), "malformed_json", "credit-events/0/4"))
	redrivenRows(t, b, exitOK, "0/0", "--yes")
	rows := redrivenRows(t, b, exitOK, "--all", "--yes")
	if rows[0].Action != sentAlready || !strings.Contains(rows[0].Why, "@") || rows[1].Action != sentNow || len(readAll(t, b, credits)) != 2 {
		t.Errorf("%+v", rows)
	}
	if rows := redrivenRows(t, b, exitOK, "--all", "--yes"); rows[0].Action != sentAlready || rows[1].Action != sentAlready || len(readAll(t, b, credits)) != 2 {
		t.Errorf("%+v", rows)
	}
	if out, _, _ := processor(t, b, "", "dlq", "show", "0/0"); !strings.Contains(out, "redriven     20") || !strings.Contains(out, " as credit-events/") {
		t.Error(out)
	}
	if out, _, _ := processor(t, b, "", "dlq", "list"); !strings.Contains(out, "malformed_json  2        2 ") {
		t.Error(out)
	}
}

func TestRedriveWithoutAnAnswerDoesNothing(t *testing.T) {
	b, _ := letterBroker(t, letterOf(0, []byte("a"), []byte("{"), "malformed_json", "credit-events/0/3"))
	_, errs, code := processor(t, b, "y\n", "dlq", "redrive", "--all")
	if code != exitUsage || !strings.Contains(errs, "add --yes") || len(readAll(t, b, credits)) != 0 {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestRedriveLeavesOutWhatCannotHelp(t *testing.T) {
	k := []byte("a")
	old := letterOf(0, k, k, "malformed_json", "credit-events/0/6")
	for i, h := range old.Headers {
		if h.Key == pipeline.HeaderTime {
			old.Headers[i].Value = []byte("2001-01-01T00:00:00.000Z")
		}
	}
	b, _ := letterBroker(t, letterOf(0, k, k, "conflict", "credit-events/0/1"), letterOf(0, nil, k, "null_key", "credit-events/0/2"),
		letterOf(0, k, k, "malformed_json", "elsewhere/0/3"), old,
		letterOf(0, k, nil, "malformed_json", "credit-events/0/5", kgo.RecordHeader{Key: pipeline.HeaderValue, Value: []byte("dropped size=1 sha256=00")}))
	for i, r := range redrivenRows(t, b, exitFailed, "--all", "--yes") {
		want := []string{"new event_id", "no key", "no input of this job", "--stamp now", "too large"}[i]
		if r.Action != leftOut || !strings.Contains(r.Why, want) {
			t.Errorf("%d: %+v, want %q", i, r, want)
		}
	}
	if rows := redrivenRows(t, b, exitOK, "0/3", "--stamp", "now", "--yes"); rows[0].Action != sentNow {
		t.Errorf("%+v", rows)
	}
	if rows := redrivenRows(t, b, exitOK, "--reason", "conflict", "--yes"); rows[0].Action != sentNow {
		t.Errorf("%+v", rows)
	}
	for _, args := range [][]string{{}, {"0/1", "--all"}, {"x"}, {"other/0/1"}, {"--all", "--stamp", "later"}, {"--all", "--yes", "--dry-run"}} {
		if _, errs, code := processor(t, b, "", append([]string{"dlq", "redrive"}, args...)...); code != exitUsage {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
	}
	redrivenRows(t, b, exitNotFound, "1/77", "--yes")
}

// A value that was too large for the dead letters comes from the input, if that is the one that the letter describes.
func TestRedriveFetchesADroppedValue(t *testing.T) {
	value := []byte("large")
	in := &kgo.Record{Topic: credits, Key: []byte("a"), Value: value}
	b, cl := letterBroker(t)
	produce(t, cl, in)
	for _, text := range []string{dropNoteOf([]byte("other")), dropNoteOf(value)} {
		produce(t, cl, letterOf(0, []byte("a"), nil, "unknown_type", "credit-events/0/0", kgo.RecordHeader{Key: pipeline.HeaderValue, Value: []byte(text)}))
	}
	if rows := redrivenRows(t, b, exitFailed, "--all", "--yes"); rows[0].Action != leftOut || rows[1].Action != sentNow {
		t.Fatalf("%+v", rows)
	}
	all := readAll(t, b, credits)
	if got := all[len(all)-1]; string(got.Value) != "large" || len(got.Headers) != 1 {
		t.Errorf("%+v", got)
	}
}

// A redrive of a redrive, fifty times: the record stays as large as it is, and names the first original.
func TestARecordStaysAsLargeAsItIsOverFiftyRedrives(t *testing.T) {
	b, cfg := startJob(t)
	spawn(t, runFlags(cfg)...)
	client := testClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	p := pipeline.Murmur2.Partition([]byte("a"), 4)
	first := &kgo.Record{Topic: credits, Partition: p, Key: []byte("a"), Value: []byte("{"), Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("1")}}}
	for range 100 { // three digits from the beginning
		produce(t, client, &kgo.Record{Topic: credits, Partition: p, Key: []byte("b"), Value: []byte("{}"), Headers: []kgo.RecordHeader{{Key: "other"}}})
	}
	produce(t, client, first)
	var sizes []int
	for round := range 51 {
		var rows []deadLetterRow
		eventually(t, "the letter is there", func() bool {
			rows = listed(t, b, "--reason", "malformed_json")
			return len(rows) == round+1
		})
		last := rows[len(rows)-1]
		sizes = append(sizes, letterSize(t, b, last.Position))
		if round < 50 {
			if got := redrivenRows(t, b, exitOK, last.Position, "--yes")[0]; got.Source != fmt.Sprintf("credit-events/%d/%s", p, strconv.FormatInt(first.Offset, 10)) {
				t.Fatalf("round %d: %+v", round, got)
			}
		}
	}
	if len(slices.Compact(sizes[1:])) != 1 {
		t.Errorf("sizes %v", sizes)
	}
	if report, err := audit(t.Context(), cfg, auditOptions{}); err != nil || !report.OK() {
		t.Errorf("verify: %v, %v", report.Violations, err)
	}
}

// deadLetterRow is what a script reads of dlq list --each -o json.
type deadLetterRow struct {
	Position string `json:"position"`
}

func listed(t *testing.T, b *devbroker.Broker, args ...string) (rows []deadLetterRow) {
	t.Helper()
	out, errs, code := processor(t, b, "", append([]string{"dlq", "list", "--each", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &rows); err != nil || code != exitOK {
		t.Fatalf("exit %d: %v: %s%s", code, err, out, errs)
	}
	return rows
}

// letterSize is the size of a letter as it stands: key, value and headers.
func letterSize(t *testing.T, b *devbroker.Broker, position string) int {
	t.Helper()
	for _, r := range readAll(t, b, letters) {
		if fmt.Sprintf("%d/%d", r.Partition, r.Offset) != position {
			continue
		}
		n := len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			n += len(h.Key) + len(h.Value)
		}
		return n
	}
	t.Fatalf("no letter at %s", position)
	return 0
}

func dropNoteOf(value []byte) string {
	return fmt.Sprintf("dropped size=%d sha256=%x", len(value), sha256.Sum256(value))
}
