package main

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/topics"
)

// loses makes a job with unread events of which retention deleted those of partition 1 below the returned offset, and two more.
func loses(t *testing.T) (b *devbroker.Broker, cfg Config, client *kgo.Client, start int64) {
	t.Helper()
	b, cfg, client = history(t, 200)
	feedMore(t, b, 200, 7)
	all, err := lookUp(t.Context(), kadm.NewClient(client), credits, numbered(4))
	if err != nil {
		t.Fatal(err)
	}
	start = all[1].end - 2
	trimmed(t, client, 1, start)
	return b, cfg, client, start
}

// feedMore feeds n further events.
func feedMore(t *testing.T, b *devbroker.Broker, n, seed int) {
	t.Helper()
	out, errs, code := processor(t, b, "", "feed", "--generate", strconv.Itoa(n), "--seed", strconv.Itoa(seed))
	if code != exitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
}

// The state is kept, exactly the lost range is given up, a note tells of it, and the job goes on.
func TestSkipLostGoesOnBehindTheGapWithTheStateAsItIs(t *testing.T) {
	b, cfg, client, start := loses(t)
	stops(t, cfg, "I4: task post/1")
	plan, _ := resetRun(t, b, exitUsage, "plan", "--skip-lost")
	task := plan.Tasks[1]
	if task.Lost == nil || task.Lost.From != *task.Applied || task.Lost.Next != start || *task.To != start || plan.Tasks[0].Lost != nil || len(plan.Topics) != 0 {
		t.Fatalf("%+v", task)
	}
	lost := task.Lost.String()
	if text := strings.Join(plan.Warnings, "\n"); !strings.Contains(text, lost+" of credit-events/1 ARE GIVEN UP FOR GOOD") || strings.Contains(text, "post/0") {
		t.Errorf("%q does not name %s alone", text, lost)
	}
	before, err := lastMarker(t.Context(), client, topics.StateTopic("ledger", "post"), 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code := processor(t, b, "", "reset", "apply", "--skip-lost"); code != exitUsage || !strings.Contains(errs, "add --yes") {
		t.Errorf("without an answer: exit %d: %s", code, errs)
	}
	applied, errs := resetRun(t, b, exitOK, "apply", "--skip-lost", "--yes")
	if !applied.Done || !strings.Contains(errs, "gave up "+lost+" of credit-events/1") {
		t.Errorf("%+v: %s", applied, errs)
	}
	after, err := lastMarker(t.Context(), client, topics.StateTopic("ledger", "post"), 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if next, _ := after.NextOf(credits); next != start || after.TxnSeq != before.TxnSeq+1 || after.Digest != before.Digest || after.StreamTime != before.StreamTime || after.Fingerprint != before.Fingerprint {
		t.Errorf("marker %+v\nfollows %+v", after, before)
	}
	notes := lossNotes(t, client)
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "1: credit-events/1/"+strconv.Itoa(int(task.Lost.From))+" "+strconv.Itoa(int(start))+" ") {
		t.Errorf("notes %q", notes)
	}
	runToTheEnd(t, cfg, client)
	if p, _ := resetRun(t, b, exitOK, "plan", "--skip-lost"); p.pending() {
		t.Errorf("%+v", p.Tasks)
	}
	if out, errs, code := processor(t, b, "", "dlq", "list", "--each"); code != exitOK || strings.Contains(out, "credit-events/1/"+strconv.Itoa(int(task.Lost.From))) {
		t.Errorf("the note is no letter: exit %d\n%s%s", code, out, errs)
	}
	if out, errs, code := processor(t, b, "", "verify"); code != exitUnavailable || !strings.Contains(out, "UNDECIDED") || !strings.Contains(errs, "partition 1") {
		t.Errorf("verify exits %d\n%s%s", code, out, errs)
	}
}

// lossNotes are the notes in the dead letters: partition, and the values of their headers.
func lossNotes(t *testing.T, client *kgo.Client) (found []string) {
	t.Helper()
	s := &letterScan{client: client, topic: topics.DeadLetters("ledger"), whole: true}
	err := s.run(t.Context(), func(r *kgo.Record) error {
		if isLossNote(r) {
			text := strconv.Itoa(int(r.Partition)) + ":"
			for _, h := range r.Headers {
				text += " " + string(h.Value)
			}
			found = append(found, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Wherever it is killed, no task runs on what it left, and the next one ends it.
func TestSkipLostThatBreaksOffIsEndedByTheNext(t *testing.T) {
	for name, fails := range map[string]struct {
		key   kmsg.Key
		topic string // of what is written
	}{
		"before the notes":   {kmsg.Produce, topics.DeadLetters("ledger")},
		"before the markers": {kmsg.Produce, topics.StateTopic("ledger", "post")},
		"before the offsets": {kmsg.OffsetCommit, credits},
	} {
		t.Run(name, func(t *testing.T) {
			b, cfg, client, start := loses(t)
			meta, err := topicMetadata(t.Context(), client, fails.topic)
			if err != nil {
				t.Fatal(err)
			}
			var broken atomic.Bool
			broken.Store(true)
			b.Cluster().ControlKey(int16(fails.key), func(r kmsg.Request) (kmsg.Response, error, bool) {
				b.Cluster().KeepControl()
				if !broken.Load() || fails.key == kmsg.Produce && !writesTo(r, meta.TopicID, fails.topic) || fails.key == kmsg.OffsetCommit && marks(r) {
					return nil, nil, false
				}
				return refuseAll(r), nil, true
			})
			if out, errs, code := processor(t, b, "", "reset", "apply", "--skip-lost", "--yes"); code != exitFailed || !strings.Contains(errs, "the reset is not complete") {
				t.Fatalf("exit %d: %s%s", code, out, errs)
			}
			broken.Store(false)
			stops(t, cfg, "a reset that was begun and not finished")
			if p, _ := resetRun(t, b, exitUsage, "plan", "--skip-lost"); !strings.Contains(p.HalfDone, "skip what is lost") {
				t.Errorf("half done: %q", p.HalfDone)
			}
			if p, _ := resetRun(t, b, exitOK, "apply", "--skip-lost", "--yes"); !p.Done || *p.Tasks[1].To != start {
				t.Errorf("%+v", p.Tasks[1])
			}
			runToTheEnd(t, cfg, client)
			if len(lossNotes(t, client)) == 0 {
				t.Error("no note")
			}
		})
	}
}

// An input that ends before what is applied was made anew: there is nothing to skip, and starting over is the way.
func TestSkipLostLeavesAnInputThatWasMadeAnew(t *testing.T) {
	b, client := stand(t)
	m := applied(t, client, 0, 7, 40)
	committed(t, client, 0, 40, metadataOf(&m))
	p, _ := resetRun(t, b, exitOK, "plan", "--skip-lost")
	if p.pending() || p.Tasks[0].Lost != nil || !strings.Contains(strings.Join(p.Warnings, ""), "only starting over goes on from here") {
		t.Errorf("%+v, %q", p.Tasks[0], p.Warnings)
	}
}

// What is lost before the job has processed anything is in no outcome, and still verify does not call the history whole.
func TestVerifyDoesNotPassOverWhatWasGivenUp(t *testing.T) {
	b, cfg := startJob(t)
	client := feedSome(t, cfg, 0)
	first := spawn(t, append(runFlags(cfg), "--leave")...)
	eventually(t, "the job commits its start", func() bool {
		p, _ := (&reset{cfg: cfg, job: cfg.job(), client: client}).plan(t.Context())
		return p != nil && !slices.ContainsFunc(p.Tasks, func(t *resetTask) bool { return t.Committed == nil })
	})
	_ = first.cmd.Process.Signal(syscall.SIGTERM)
	first.wait(t, 20*time.Second)
	feedMore(t, b, 200, 3)
	trimmed(t, client, 2, 5)
	if p, _ := resetRun(t, b, exitOK, "apply", "--skip-lost", "--yes"); p.Tasks[2].Lost == nil || *p.Tasks[2].Lost != (lostRange{0, 5}) {
		t.Fatalf("%+v", p.Tasks[2])
	}
	runToTheEnd(t, cfg, client)
	out, errs, code := processor(t, b, "", "verify")
	if code != exitUnavailable || !strings.Contains(errs, topology.Credits.Name+"/2") || !strings.Contains(errs, "offsets 0 to 4") || !strings.Contains(errs, "--start 2=5") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, args := range [][]string{{"verify", "--start", "2=5"}, {"verify", "--start", "2=5", "--raw"}} {
		if out, errs, code := processor(t, b, "", args...); code != exitOK {
			t.Errorf("%q, a start behind it: exit %d\n%s%s", args, code, out, errs)
		}
	}
}

// A transaction that apply ended may have committed what looked lost: then nothing is given up, and no note says so.
func TestSkipLostGivesUpNothingThatWasCommittedMeanwhile(t *testing.T) {
	applied, start := int64(12), int64(10)
	task := &resetTask{Task: "post/0", Topic: credits, Applied: &applied, Start: start, To: &start, Lost: &lostRange{5, start}}
	r := &reset{mode: skipLost}
	if err := r.skipLost(t.Context(), &resetPlan{Tasks: []*resetTask{task}}, nil); err != nil || task.Lost != nil || *task.To != applied {
		t.Errorf("%v %+v", err, task)
	}
}

// marks reports whether a commit is the mark of a reset that is under way.
func marks(r kmsg.Request) bool {
	m := r.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Metadata
	return m != nil && strings.HasPrefix(*m, resetMark)
}

// writesTo reports whether a request writes to a topic.
func writesTo(r kmsg.Request, id kadm.TopicID, name string) bool {
	for _, t := range r.(*kmsg.ProduceRequest).Topics {
		if t.Topic == name || t.TopicID == id {
			return true
		}
	}
	return false
}
