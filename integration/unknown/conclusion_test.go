package unknown

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// place is where the job stood before the doubtful transaction.
type place struct {
	input int64 // the doubtful event
	state int64 // end of the state partition
}

func (b *bench) where(t *testing.T) place {
	t.Helper()
	_, in, err := kafkatest.Ends(t.Context(), b.client, input, 0)
	_, state, err2 := kafkatest.Ends(t.Context(), b.client, stateTopic, 0)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return place{in, state}
}

// conclude notes what was reported, what is true, and what the engine made of it, and fails the test where it was wrong.
func (b *bench) conclude(t *testing.T, d doubt, at place, from int, end happening, took time.Duration) {
	t.Helper()
	r := row{doubt: d.name, reported: end.reported()}
	if exits := end.What == "exit"; exits != d.fatal || exits && end.Code != 1 {
		t.Errorf("the process told %q (%s) with exit code %d: want an end with code 1: %v", end.What, end.Cause, end.Code, d.fatal)
	}
	if end.What == "exit" {
		b.member.start(t)
	}
	began := time.Now()
	r.concluded = b.concluded(t, at, from, end)
	r.took = took + time.Since(began)
	r.truth = b.truth(t, at.state)
	verdict, _, _ := strings.Cut(r.concluded, ":")
	if verdict != r.truth {
		t.Errorf("%s, and the engine concluded %q", r.truth, r.concluded)
	}
	if d.truth != "" && r.truth != d.truth {
		t.Errorf("the transaction is %s, want %s: the fault is not what it is called", r.truth, d.truth)
	}
	if !slices.ContainsFunc(d.reported, func(want string) bool { return strings.HasPrefix(r.reported, want) }) {
		t.Errorf("End reported %s, want one of %q", r.reported, d.reported)
	}
	b.rows = append(b.rows, r)
}

const (
	unknownPrefix = "the outcome of the commit is unknown: "
	uncertain     = "the commit was answered with neither success nor error"
)

// reported is what the client's End returned, by what the engine tells of it.
func (h happening) reported() string {
	switch {
	case h.What == "committed":
		return yes
	case h.What == "aborted", strings.Contains(h.Cause, uncertain):
		return neither
	}
	return "(false, " + short(strings.TrimPrefix(h.Cause, unknownPrefix)) + ")"
}

// short is the first error of a chain, for a table.
func short(text string) string {
	if words, _, found := strings.Cut(text, ": "); found && strings.ToUpper(words) == words {
		return words
	}
	text, _, _ = strings.Cut(text, "\n")
	return text[:min(len(text), 90)]
}

// concluded is what the engine made of the transaction: by its own word, or by where it went on after the proof.
func (b *bench) concluded(t *testing.T, at place, from int, end happening) string {
	t.Helper()
	switch end.What {
	case "committed":
		return committed
	case "aborted":
		return aborted
	}
	restored := b.member.await(t, 40*time.Second, "the restored task", from, is("restored"))
	how := "a new session"
	if end.What == "exit" {
		how = fmt.Sprintf("exit %d, started again", end.Code)
	}
	switch restored.Next {
	case at.input:
		return aborted + ": " + how + ", processed again"
	case at.input + 1:
		return committed + ": " + how + ", goes on behind it"
	}
	return fmt.Sprintf("offset %d, neither %d nor the next", restored.Next, at.input)
}

// truth reads the state partition with everything in it: the first transaction from an offset on, and the marker that ended it.
func (b *bench) truth(t *testing.T, from int64) string {
	t.Helper()
	cl := kafkatest.Client(t, b.Seeds(), kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{stateTopic: {0: kgo.NewOffset().At(from)}}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	producer, found := int64(-1), ""
	for found == "" {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatal("no marker of the transaction within 20 s")
		}
		fetches.EachRecord(func(r *kgo.Record) {
			switch {
			case found != "":
			case !r.Attrs.IsControl() && producer < 0:
				producer = r.ProducerID
			case r.Attrs.IsControl() && r.ProducerID == producer:
				found = markerOf(r.Key)
			}
		})
	}
	return found
}

// markerOf reads the key of a control record: version, then type, 0 an abort and 1 a commit.
func markerOf(key []byte) string {
	if len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == 1 {
		return committed
	}
	return aborted
}

// lastWords is how the member's log ends.
func (m *member) lastWords() string {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "worker 0: ")
}
