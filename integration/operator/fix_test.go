package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/pipeline"
)

// olderProgram builds the command as it was before a fix: one text of one source file is another one.
func olderProgram(t *testing.T, file, is, was string) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte(is)); n != 1 {
		t.Fatalf("%s has %q %d times, want once", file, is, n)
	}
	dir := t.TempDir()
	older, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, file): older}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{older: bytes.Replace(source, []byte(is), []byte(was), 1), overlay: replaced} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-o", filepath.Join(dir, "processor"), "./cmd/processor")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the older processor: %v\n%s", err, out)
	}
	return filepath.Join(dir, "processor")
}

// in is an event of 1.00 in a currency.
func in(currency, id, account string) []byte {
	return bytes.Replace(event(id, account), []byte("EUR"), []byte(currency), 1)
}

// records reads a topic as it is.
func (d *desk) records(t *testing.T, topic string) (all []*kgo.Record) {
	t.Helper()
	_, end := d.ends(t, topic)
	cl := kafkatest.Client(t, d.Seeds(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	for seen := int64(0); seen < end; {
		fetched := cl.PollFetches(t.Context())
		if err := fetched.Err(); err != nil {
			t.Fatal(err)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			if seen++; !r.Attrs.IsControl() {
				all = append(all, r)
			}
		})
	}
	return all
}

// redriven are the inputs that repeat a record, in the order of their offsets.
func (d *desk) redriven(t *testing.T, of *kgo.Record) (all []*kgo.Record) {
	t.Helper()
	source := fmt.Sprintf("%s/%d/%d", of.Topic, of.Partition, of.Offset)
	for _, r := range d.records(t, credits) {
		if n := len(r.Headers); n > 0 && r.Headers[n-1].Key == "redrive.source" && string(r.Headers[n-1].Value) == source {
			all = append(all, r)
		}
	}
	return all
}

// sameBut fails the test unless a redriven record is the original with redrive.source behind its headers, stamped as it was.
func sameBut(t *testing.T, got, want *kgo.Record) {
	t.Helper()
	same := len(got.Headers) == len(want.Headers)+1 && slices.EqualFunc(got.Headers[:len(want.Headers)], want.Headers, func(g, w kgo.RecordHeader) bool {
		return g.Key == w.Key && bytes.Equal(g.Value, w.Value) && (g.Value == nil) == (w.Value == nil)
	})
	if !same || !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) || got.Timestamp.UnixMilli() != want.Timestamp.UnixMilli() {
		t.Fatalf("redriven: %+v\nit was:   %+v", got, want)
	}
}

// updatesOf are the values of an account's updates.
func (d *desk) updatesOf(t *testing.T, account string) (all []outcome) {
	t.Helper()
	for _, r := range d.records(t, updates) {
		if string(r.Key) != account {
			continue
		}
		var u outcome
		if err := json.Unmarshal(r.Value, &u); err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}

// outcome is what a reader takes from an update.
type outcome struct {
	EventID  string `json:"event_id"`
	Outcome  string
	Balance  string
	Currency string
	Version  int64
	Redrive  *struct {
		Topic     string
		Partition int32
		Offset    int64
	} `json:"redrive_of"`
}

// The program did not know a currency. Its letters are redriven fifty times in vain, then the fixed program is deployed, and they are
// applied once, in their order.
func TestLettersOfAProgramThatWasWrongAreAppliedOnceAfterItsFix(t *testing.T) {
	const rounds = 50
	d := newDesk(t, kafkatest.Options{})
	fixed := d.binary
	d.binary = olderProgram(t, "ledger/money/currency.go", "SEK2", "")
	d.must(t, "feed", "--generate", "300", "--seed", "5")
	at := pipeline.Murmur2.Partition([]byte("acc-x"), 4)
	headers := []kgo.RecordHeader{{Key: "b", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "b", Value: []byte{}}, {Key: "a", Value: []byte{0xff}}}
	var sent []*kgo.Record
	for _, id := range []string{"X-1", "X-2", "X-3"} {
		sent = append(sent, &kgo.Record{Topic: credits, Partition: at, Key: []byte("acc-x"), Value: in("SEK", id, "acc-x"), Headers: slices.Clone(headers),
			Timestamp: time.Now().Add(-time.Hour).Truncate(time.Millisecond)})
	}
	d.produce(t, sent...)
	i := d.start(t, "pod-0", "--leave")
	d.awaitLagZero(t)
	d.run(t, "dlq", "list").says(t, 0, "bad_currency", "if this program was too strict, run the fixed one and redrive")
	for range rounds { // too early: nothing has been fixed
		got := rows[redriveRow](t, d, 0, "dlq", "redrive", "--reason", "bad_currency", "--yes")
		if now := slices.DeleteFunc(got, func(r redriveRow) bool { return r.Action == "already" }); len(now) != len(sent) || now[0].Action != "redriven" {
			t.Fatalf("%+v", now)
		}
		d.awaitLagZero(t)
	}
	i.stop(t)
	d.onlyBytesAreAdded(t, rounds, sent)

	d.binary = fixed
	i = d.start(t, "pod-0", "--leave")
	d.must(t, "dlq", "redrive", "--reason", "bad_currency", "--yes")
	d.awaitLagZero(t)
	i.stop(t)
	got := d.updatesOf(t, "acc-x")
	if len(got) != len(sent) {
		t.Fatalf("%d updates, want %d: %+v", len(got), len(sent), got)
	}
	for i, u := range got {
		if u.EventID != fmt.Sprintf("X-%d", i+1) || u.Balance != fmt.Sprintf("%d.00", i+1) || u.Currency != "SEK" || u.Version != int64(i+1) || u.Redrive == nil || u.Redrive.Offset != sent[i].Offset {
			t.Errorf("update %d: %+v", i, u)
		}
	}
	if left := rows[redriveRow](t, d, 0, "dlq", "redrive", "--all", "--yes"); slices.ContainsFunc(left, func(r redriveRow) bool { return r.Action != "already" }) {
		t.Errorf("there is something to redrive: %+v", left)
	}
	d.agrees(t, (rounds+1)*len(sent))
}

// onlyBytesAreAdded looks at every repeat of every round: the same bytes, and no more of them than after the first.
func (d *desk) onlyBytesAreAdded(t *testing.T, rounds int, sent []*kgo.Record) {
	t.Helper()
	for _, s := range sent {
		repeats := d.redriven(t, s)
		if len(repeats) != rounds {
			t.Fatalf("%d repeats of %s, want %d", len(repeats), s.Value, rounds)
		}
		for _, r := range repeats {
			sameBut(t, r, s)
		}
	}
}

// The configuration named another partitioner than the producers use: most events were told to be on the wrong partition.
func TestLettersOfAWrongPartitionerAreAppliedOnceAfterItIsPutRight(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	wrong := *d
	wrong.env = append(slices.Clone(d.env), "PROCESSOR_PARTITIONER=crc32")
	var sent []*kgo.Record
	for n := range 200 {
		account := fmt.Sprintf("acc-%d", n)
		sent = append(sent, &kgo.Record{Topic: credits, Partition: pipeline.Murmur2.Partition([]byte(account), 4), Key: []byte(account), Value: event("P-"+account, account)})
	}
	d.produce(t, sent...)
	wrong.process(t)
	each := rows[letterRow](t, &wrong, 0, "dlq", "list", "--each", "--limit", "0", "--reason", "wrong_partition")
	if len(each) < 100 || len(each) >= len(sent) {
		t.Fatalf("%d letters of %d events", len(each), len(sent))
	}
	d.must(t, "dlq", "redrive", "--reason", "wrong_partition", "--yes")
	d.process(t)
	balances, repeated := map[string]string{}, 0
	for _, r := range d.records(t, updates) {
		var u outcome
		if err := json.Unmarshal(r.Value, &u); err != nil {
			t.Fatal(err)
		}
		if balances[string(r.Key)] != "" {
			t.Errorf("two updates of %s", r.Key)
		}
		balances[string(r.Key)] = u.Balance
		if u.Redrive != nil {
			repeated++
		}
	}
	if len(balances) != len(sent) || repeated != len(each) || slices.Compare(slices.Compact(slices.Sorted(maps.Values(balances))), []string{"1.00"}) != 0 {
		t.Errorf("%d accounts of %d, %d updates of redriven events, want %d", len(balances), len(sent), repeated, len(each))
	}
	d.agrees(t, len(each))
}

// agrees runs verify, which judges by the rules of today, and knows the letters of the rules of then by what was made good.
func (d *desk) agrees(t *testing.T, letters int) {
	t.Helper()
	d.run(t, "verify").says(t, 0, fmt.Sprintf("mended letters  %d: wrong by today's rules, redriven since and settled", letters), "OK: every event has exactly one outcome")
}
