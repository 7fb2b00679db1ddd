package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/ledger/generate"
)

const (
	headEvents = 9000
	perSecond  = 900
	moreEvents = 600
	retention  = 7 * 24 * time.Hour
)

// An audit runs beside a job whose processes are killed, and hands on a baseline. Retention then takes the inputs that it judged:
// nobody can judge the whole history any more, and the baseline is what an audit goes on from, until an outcome is forged.
func TestAnAuditFollowsAJobThatIsKilledAndGoesOnWhereRetentionTookItsInputs(t *testing.T) {
	s := newSite(t)
	baseline := filepath.Join(t.TempDir(), "verify.baseline")
	producer := kafkatest.Client(t, s.kafka.Seeds(), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(5*time.Millisecond))
	job := []*jobtest.Instance{s.instance(t, "pod-0", "--num-stream-threads", "1"), s.instance(t, "pod-1", "--num-stream-threads", "1")} // a partition each
	head := s.followThroughKills(t, producer, job, baseline)

	more := events(t, 2, moreEvents, time.Now())
	if err := producer.ProduceSync(t.Context(), more...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.awaitEnd(t, job...)
	s.takeHead(t)
	if r := s.verify(t, exitUndecided); r.Result != "undecided" || !strings.Contains(r.Undecided, "retention took inputs") || len(r.Counts) > 0 {
		t.Errorf("without a baseline: %s, %q, %v", r.Result, r.Undecided, r.Counts)
	}
	r := s.verify(t, exitOK, "--baseline", baseline, "--write-baseline", baseline)
	if r.Baseline == nil || r.Baseline.Inputs != head || r.Inputs != head+moreEvents || r.NotYetProcessed != 0 {
		t.Errorf("with the baseline of %d inputs %d were judged: %+v", head, r.Inputs, r)
	}
	s.forge(t, producer, job, baseline)
	for _, i := range job {
		i.Drain(t)
	}
}

// followThroughKills has the job process the head of the input, kills each process once, and audits all the time. It returns how
// many inputs the audit judged.
func (s *site) followThroughKills(t *testing.T, producer *kgo.Client, job []*jobtest.Instance, baseline string) int64 {
	t.Helper()
	f := s.follow(t, "follow", "--write-baseline", baseline)
	commits := jobtest.FollowCommits(t, s.kafka.Seeds())
	// Old enough for retention.ms, and young enough for the window.
	feed := jobtest.StartFeed(t, producer, events(t, 1, headEvents, time.Now().Add(-retention-24*time.Hour)), func(int) float64 { return perSecond })
	for n, victim := range job {
		judged := int64(headEvents * (n + 1) / 5)
		f.await(t, fmt.Sprintf("a round has judged %d inputs", judged), func(r report) bool { return r.Inputs >= judged })
		commits.Await(t, commits.Count(), 30*time.Second, victim.Name+" commits", func(k jobtest.Commit) bool { return k.By(victim.Name) })
		victim.Proc.Kill()
		since := commits.Count()
		victim.Start(t)
		commits.Await(t, since, 30*time.Second, victim.Name+" commits again", func(k jobtest.Commit) bool { return k.By(victim.Name) })
	}
	feed.Finish(t)
	s.awaitEnd(t, job...)
	f.await(t, "a round has judged the head", func(r report) bool { return r.Inputs == headEvents && r.NotYetProcessed == 0 && r.Result == "ok" })
	if err := f.Terminate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.ends(t, exitOK)
	rounds, last := f.reports(t)
	seen := map[int64]bool{}
	for _, r := range rounds {
		if seen[r.Inputs] = true; r.Result == "violated" || len(r.New) > 0 {
			t.Errorf("round %d: %s, %v", r.Round, r.Result, r.New)
		}
	}
	if len(seen) < 3 || last == nil || last.Result != "ok" || last.Inputs != headEvents {
		t.Errorf("%d rounds judged %d beginnings of the input; at the end: %+v", len(rounds), len(seen), last)
	}
	if _, err := os.Stat(baseline); err != nil {
		t.Error(err)
	}
	t.Logf("%d rounds beside %d commits and two kills", len(rounds), commits.Count())
	return last.Inputs
}

// events are generated, and stamped a millisecond apart from a time on.
func events(t *testing.T, seed uint64, n int, from time.Time) (records []*kgo.Record) {
	t.Helper()
	g, err := generate.New(generate.Config{Events: n, Accounts: 200, Duplicates: 0.05, Conflicts: 0.002, Malformed: 0.002, Refused: 0.01, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	for e := range g.All() {
		rec := jobtest.Record(input, e)
		rec.Timestamp = from.Add(time.Duration(len(records)) * time.Millisecond)
		records = append(records, rec)
	}
	return records
}

// takeHead has retention take the segments of the head. What was written after it is younger, and in segments of its own.
func (s *site) takeHead(t *testing.T) {
	t.Helper()
	ms := fmt.Sprint(retention.Milliseconds())
	if _, err := s.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &ms}}, input); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	kafkatest.Within(t, 20*time.Second, "retention takes the head of the input", func(ctx context.Context) error {
		starts, err := s.adm.ListStartOffsets(ctx, input)
		if err != nil {
			return err
		}
		ends, err := s.adm.ListEndOffsets(ctx, input)
		if err != nil {
			return err
		}
		for p := range int32(partitions) {
			start, _ := starts.Lookup(input, p)
			end, _ := ends.Lookup(input, p)
			if start.Offset == 0 || start.Offset >= end.Offset {
				return fmt.Errorf("%s/%d reaches from %d to %d", input, p, start.Offset, end.Offset)
			}
		}
		return nil
	})
	t.Logf("retention took the head in %d ms", time.Since(began).Milliseconds())
}

// forge writes an outcome that no input explains, beside an audit that ends at the first violation.
func (s *site) forge(t *testing.T, producer *kgo.Client, job []*jobtest.Instance, baseline string) {
	t.Helper()
	f := s.follow(t, "follow-fast", "--fail-fast", "--baseline", baseline, "--write-baseline", baseline)
	f.await(t, "the first round is done", func(r report) bool { return r.Result == "ok" })
	before, err := os.ReadFile(baseline)
	if err != nil {
		t.Fatal(err)
	}
	if err := producer.ProduceSync(t.Context(), events(t, 3, moreEvents, time.Now())...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.awaitEnd(t, job...)
	f.await(t, "a round has judged what came", func(r report) bool { return r.Inputs == headEvents+2*moreEvents && r.Result == "ok" })
	note := kafkatest.Committed(t, s.kafka.Seeds(), skipped, 0)[0] // of an input of partition 0
	plain := kafkatest.Client(t, s.kafka.Seeds(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ghost := &kgo.Record{Topic: skipped, Partition: 1, Key: note.Key, Value: note.Value, Headers: note.Headers}
	if err := plain.ProduceSync(t.Context(), ghost).FirstErr(); err != nil {
		t.Fatal(err)
	}
	f.ends(t, exitViolated)
	_, last := f.reports(t)
	if last == nil || last.Result != "violated" {
		t.Fatalf("at the end: %+v", last)
	}
	is := func(e record) bool { return e.Topic == skipped && e.Partition == 1 && e.Offset == ghost.Offset }
	if all := last.violations(t); len(all) != 1 || all[0].Verdict != "ghost" || !slices.ContainsFunc(all[0].Evidence, is) {
		t.Errorf("%s/1/%d is not the one ghost: %+v", skipped, ghost.Offset, all)
	}
	after, err := os.ReadFile(baseline)
	if err != nil || string(after) != string(before) {
		t.Errorf("a violated history has written a baseline (%v)", err)
	}
}
