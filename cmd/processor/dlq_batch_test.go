package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
)

// More letters than one transaction takes: each is sent once, and has its note.
func TestRedriveInSeveralTransactionsSendsEachLetterOnce(t *testing.T) {
	const n = 2*redriveBatch + 7
	var all []*kgo.Record
	for i := range n {
		k := fmt.Appendf(nil, "k%d", i)
		all = append(all, letterOf(int32(i%2), k, k, "malformed_json", fmt.Sprintf("credit-events/0/%d", i)))
	}
	b, _ := letterBroker(t, all...)
	rows := redrivenRows(t, b, exitOK, "--all", "--yes")
	places := map[string]bool{}
	for _, r := range rows {
		if r.Action != sentNow || places[r.To] {
			t.Fatalf("%+v", r)
		}
		places[r.To] = true
	}
	keys := map[string]int{}
	for _, r := range readAll(t, b, credits) {
		keys[string(r.Key)]++
	}
	for k, times := range keys {
		if times != 1 {
			t.Errorf("%s was sent %d times", k, times)
		}
	}
	if len(rows) != n || len(keys) != n {
		t.Errorf("%d rows, %d keys, want %d", len(rows), len(keys), n)
	}
	if notes := len(readAll(t, b, letters)) - n; notes != n {
		t.Errorf("%d notes", notes)
	}
}

// watched is a standard error that acts when a word is written to it.
type watched struct {
	bytes.Buffer
	word string
	act  func()
	once sync.Once
}

func (w *watched) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.word) {
		w.once.Do(w.act)
	}
	return w.Buffer.Write(p)
}

// Behind an open transaction could stand the note of a redrive whose commit is under way: it is waited for, and believed.
func TestRedriveWaitsForWhatAnotherMayHaveSent(t *testing.T) {
	b, _ := letterBroker(t, letterOf(0, []byte("a"), []byte("{"), "malformed_json", "credit-events/0/3"))
	l := &deadLetter{at: record.Position{Topic: letters, Partition: 0, Offset: 0}}
	input := &kgo.Record{Topic: credits, Partition: 0, Key: []byte("a"), Value: []byte("{")}
	end := transaction(t, b, "another", input, newNote(l, input, "somebody"))
	c, _, _ := newTestCLI("PROCESSOR_BOOTSTRAP_SERVERS=" + b.String())
	errs := &watched{word: "waiting for the open transaction of another", act: func() { end(kgo.TryCommit) }}
	c.stderr = errs
	if code := c.execute(t.Context(), []string{"dlq", "redrive", "--all", "--yes"}); code != exitOK || !strings.Contains(errs.String(), "0 to redrive, 0 redriven now, 1 redriven before") {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if got := readAll(t, b, credits); len(got) != 1 {
		t.Errorf("sent %d times", len(got))
	}
}

// stampedAt is a letter whose input had a time of its own.
func stampedAt(at time.Time, source string) *kgo.Record {
	l := letterOf(0, []byte("a"), []byte("{"), "malformed_json", source)
	for i, h := range l.Headers {
		if h.Key == pipeline.HeaderTime {
			l.Headers[i].Value = []byte(at.UTC().Format(timestampLayout))
		}
	}
	return l
}

// The record must be read before retention may delete it, and must not come from the future again.
func TestRedriveStampsWhatTheJobCanRead(t *testing.T) {
	now := time.Now()
	week := 7 * 24 * time.Hour // the input's retention
	b, _ := letterBroker(t, stampedAt(now.Add(-week+30*time.Minute), "credit-events/0/1"), stampedAt(now.Add(-week+3*time.Hour), "credit-events/0/2"), stampedAt(now.Add(48*time.Hour), "credit-events/0/3"))
	rows := redrivenRows(t, b, exitUsage, "--all", "--dry-run")
	if rows[0].Action != leftOut || !strings.Contains(rows[0].Why, "could be deleted before it is read") {
		t.Errorf("half an hour before its end: %+v", rows[0])
	}
	if rows[1].Action != sendIt {
		t.Errorf("three hours before its end: %+v", rows[1])
	}
	if rows[2].Action != sendIt || rows[2].Stamp.After(time.Now()) {
		t.Errorf("from the day after tomorrow: %+v", rows[2])
	}
}

// What was asked for by name and cannot be sent is a failure, and is not sent; a dry run asks nothing.
func TestRedriveByNameSaysWhatItLeftOut(t *testing.T) {
	k := []byte("a")
	b, _ := letterBroker(t, letterOf(0, nil, k, "null_key", "credit-events/0/2"), letterOf(0, k, k, "malformed_json", "credit-events/0/3"))
	if rows := redrivenRows(t, b, exitFailed, "0/0", "--yes"); rows[0].Action != leftOut || !strings.Contains(rows[0].Why, "no key") {
		t.Errorf("%+v", rows[0])
	}
	if rows := redrivenRows(t, b, exitFailed, "--reason", "null_key", "--yes"); rows[0].Action != leftOut {
		t.Errorf("%+v", rows[0])
	}
	if _, errs, code := processor(t, b, "", "dlq", "redrive", "0/1", "--reason", "malformed_json", "--yes"); code != exitUsage || !strings.Contains(errs, "positions name the dead letters") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, errs, code := processor(t, b, "", "dlq", "redrive", "0/1", "--dry-run"); code != exitUsage || strings.Contains(errs, "--yes") || strings.Contains(errs, "?") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if got := readAll(t, b, credits); len(got) != 0 {
		t.Errorf("sent %v", got)
	}
}

func TestDLQListFiltersByStage(t *testing.T) {
	k := []byte("a")
	b, _ := letterBroker(t, letterOf(0, k, k, "malformed_json", "credit-events/0/1"))
	if rows := listed(t, b, "--stage", "post"); len(rows) != 1 {
		t.Errorf("%+v", rows)
	}
	if rows := listed(t, b, "--stage", "other"); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

// A producer's own header of that name proves nothing: the source is that of the letter, unless a redrive wrote the input.
func TestRedriveSourceIsNotTakenFromAProducer(t *testing.T) {
	k := []byte("a")
	b, _ := letterBroker(t, letterOf(0, k, k, "malformed_json", "credit-events/0/7", kgo.RecordHeader{Key: topology.HeaderRedriveOf, Value: []byte("credit-events/1/99")}))
	if rows := redrivenRows(t, b, exitOK, "0/0", "--yes"); rows[0].Source != "credit-events/0/7" {
		t.Errorf("%+v", rows[0])
	}
	if got := readAll(t, b, credits); len(got) != 1 || len(got[0].Headers) != 1 || string(got[0].Headers[0].Value) != "credit-events/0/7" {
		t.Errorf("%+v", got)
	}
}
