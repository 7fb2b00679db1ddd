package main

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

// history is a job that has processed n events and was stopped.
func history(t *testing.T, n int) (*devbroker.Broker, Config, *kgo.Client) {
	t.Helper()
	b, cfg := startJob(t)
	client := feedSome(t, cfg, n)
	runToTheEnd(t, cfg, client)
	return b, cfg, client
}

// runToTheEnd runs the job until all of the input is committed, and stops it.
func runToTheEnd(t *testing.T, cfg Config, client *kgo.Client) {
	t.Helper()
	p := spawn(t, append(runFlags(cfg), "--leave")...)
	if err := newOnlooker(client, cfg.ApplicationID).awaitCommitted(t.Context(), topology.Credits.Name); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t, 20*time.Second); code != exitOK {
		t.Fatalf("exit %d: %s", code, p.stderr.String())
	}
}

func resetRun(t *testing.T, b *devbroker.Broker, want exitCode, args ...string) (resetPlan, string) {
	t.Helper()
	out, errs, code := processor(t, b, "", append([]string{"reset", "-o", "json"}, args...)...)
	var p resetPlan
	if err := json.Unmarshal([]byte(out), &p); code != want || err != nil {
		t.Fatalf("reset %q: exit %d, want %d, %v\n%s%s", args, code, want, err, out, errs)
	}
	return p, errs
}

// stops runs the job and returns its log once a task has stopped.
func stops(t *testing.T, cfg Config, says string) {
	t.Helper()
	p := spawn(t, append(runFlags(cfg), "--leave")...)
	eventually(t, "the job says "+says, func() bool { return strings.Contains(p.stderr.String(), says) })
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.wait(t, 20*time.Second)
}

func TestResetToMarkerPutsMovedOffsetsRight(t *testing.T) {
	b, cfg, client := history(t, 200)
	if p, _ := resetRun(t, b, exitOK, "plan", "--to-marker"); p.pending() || p.Tasks[0].Note != "as it should be" {
		t.Errorf("%+v", p)
	}
	commit(t, client, "ledger", 0, 3) // what a reset tool does
	if _, err := kadm.NewClient(client).DeleteOffsets(t.Context(), "ledger", kadm.TopicsSet{credits: {2: {}}}); err != nil {
		t.Fatal(err)
	}
	stops(t, cfg, "I1: task post/0")
	p, _ := resetRun(t, b, exitUsage, "plan", "--to-marker")
	if *p.Tasks[0].Committed != 0 || p.Tasks[0].To == nil || *p.Tasks[0].To != *p.Tasks[0].Applied || p.Tasks[3].To != nil || len(p.Topics) != 0 {
		t.Errorf("%+v", p.Tasks[0])
	}
	if p, _ := resetRun(t, b, exitOK, "apply", "--to-marker", "--yes"); !p.Done {
		t.Errorf("%+v", p)
	}
	feedSome(t, cfg, 100)
	runToTheEnd(t, cfg, client)
	if report, err := audit(t.Context(), cfg, auditOptions{}); err != nil || !report.OK() {
		t.Errorf("verify: %v, %v", report.Violations, err)
	}
}

// What no moved offset can mend is said, also where the group's offset is as it should be: the task would stop again.
func TestResetToMarkerSaysWhereATaskStopsAllTheSame(t *testing.T) {
	b, cfg, client := history(t, 200)
	feedSome(t, cfg, 50)
	plain, _ := resetRun(t, b, exitOK, "plan", "--to-marker")
	applied := *plain.Tasks[0].Applied
	if err := b.Cluster().DeleteRecords(credits, 0, applied+1); err != nil {
		t.Fatal(err)
	}
	for _, moved := range []bool{false, true} {
		code := exitOK
		if moved {
			commit(t, client, "ledger", 0)
			code = exitUsage
		}
		p, _ := resetRun(t, b, code, "plan", "--to-marker")
		if text := strings.Join(p.Warnings, "\n"); !strings.Contains(text, "task post/0, credit-events/0: retention deleted 1 offset that were never processed: the task stops there (I4)") || strings.Contains(text, "post/1") {
			t.Errorf("moved %v: %q", moved, p.Warnings)
		}
		if moved != (p.Tasks[0].To != nil) || p.Tasks[0].Note == "as it should be" {
			t.Errorf("moved %v: %+v", moved, p.Tasks[0])
		}
	}
	if len(plain.Warnings) != 0 {
		t.Errorf("%q", plain.Warnings)
	}
}

func TestResetStartsOverWhereItIsTold(t *testing.T) {
	b, cfg, client := history(t, 200)
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), credits)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(credits, 1)
	for _, c := range []struct {
		args []string
		to1  int64 // of partition 1
	}{
		{[]string{"--to", "latest"}, end.Offset}, {[]string{"--to", "2001-01-01T00:00:00Z"}, 0}, {[]string{"--to", "2099-01-01T00:00:00Z"}, end.Offset},
		{[]string{"--to-offset", "credit-events/1=2"}, 2}, {[]string{"--to", "earliest"}, 0},
	} {
		p, errs := resetRun(t, b, exitUsage, append([]string{"plan"}, c.args...)...)
		if len(p.Topics) != 1 || p.Topics[0].Topic != "ledger-post-state" || p.Topics[0].Records == 0 || *p.Tasks[1].To != c.to1 {
			t.Errorf("%q: %+v %+v\n%s", c.args, p.Topics, p.Tasks[1], errs)
		}
		text := strings.Join(p.Warnings, "\n")
		if !strings.Contains(text, "ALL BALANCES") || (c.to1 < end.Offset) != strings.Contains(text, "ledger-updates KEEPS") {
			t.Errorf("%q: %s", c.args, text)
		}
	}
	if p, errs := resetRun(t, b, exitOK, "apply", "--to", "earliest", "--yes"); !p.Done || !strings.Contains(errs, "deleted topic ledger-post-state") {
		t.Errorf("%+v: %s", p, errs)
	}
	runToTheEnd(t, cfg, client)
	updates := readAll(t, b, topology.Updates.Name)
	if report, err := audit(t.Context(), cfg, auditOptions{}); err != nil || report.OK() || len(updates) < 200 {
		t.Errorf("everything was applied twice: %d updates, verify %+v, %v", len(updates), report.Counts, err)
	}
}

// After latest, nothing of old is processed, and the next event is the first of its account.
func TestResetToLatestBeginsWithTheNextEvent(t *testing.T) {
	b, cfg, client := history(t, 50)
	before := len(readAll(t, b, topology.Updates.Name))
	resetRun(t, b, exitOK, "apply", "--to", "latest", "--yes")
	produce(t, client, &kgo.Record{Topic: credits, Key: []byte("new"), Value: []byte(`{"event_id":"new","account_id":"new","amount":"1.00","currency":"EUR","occurred_at":"2026-01-01T00:00:00Z"}`)})
	runToTheEnd(t, cfg, client)
	if after := len(readAll(t, b, topology.Updates.Name)); after != before+1 {
		t.Errorf("%d updates, %d before", after, before)
	}
}

// A reset that dies after each of its steps leaves nothing that runs, and is finished by another one.
func TestAResetThatDiesHalfWayIsRefusedByRunAndFinishedByTheNext(t *testing.T) {
	for name, key := range map[string]kmsg.Key{"before the deletion": kmsg.DeleteTopics, "before the creation": kmsg.CreateTopics, "before the last commit": kmsg.Produce} {
		t.Run(name, func(t *testing.T) {
			b, cfg, client := history(t, 50)
			b.Cluster().ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
				return refuseAll(req), nil, true
			})
			_, errs, code := processor(t, b, "", "reset", "apply", "--to", "earliest", "--yes")
			if code != exitFailed || !strings.Contains(errs, "the reset is not complete") {
				t.Fatalf("exit %d: %s", code, errs)
			}
			if key == kmsg.CreateTopics {
				p := spawn(t, runFlags(cfg)...)
				if code := p.wait(t, 20*time.Second); code != exitNotFound {
					t.Errorf("run: exit %d: %s", code, p.stderr.String())
				}
			} else {
				stops(t, cfg, "I2: task post/0: the group's offset 0 is that of a reset that was begun and not finished")
			}
			if p, _ := resetRun(t, b, exitUsage, "plan", "--to", "earliest"); !strings.Contains(p.HalfDone, "to earliest, begun 20") || p.Tasks[0].Committed == nil || *p.Tasks[0].Committed == 0 {
				t.Errorf("%+v", p)
			}
			resetRun(t, b, exitOK, "apply", "--to", "earliest", "--yes")
			runToTheEnd(t, cfg, client)
		})
	}
}

// refuseAll answers a request with an error that is not tried again.
func refuseAll(req kmsg.Request) kmsg.Response {
	code := kerr.PolicyViolation.Code
	switch q := req.(type) {
	case *kmsg.OffsetCommitRequest:
		resp := q.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range q.Topics {
			out := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	case *kmsg.DeleteTopicsRequest:
		resp := q.ResponseKind().(*kmsg.DeleteTopicsResponse)
		for _, t := range q.Topics {
			resp.Topics = append(resp.Topics, kmsg.DeleteTopicsResponseTopic{Topic: t.Topic, ErrorCode: code})
		}
		for _, t := range q.TopicNames {
			resp.Topics = append(resp.Topics, kmsg.DeleteTopicsResponseTopic{Topic: &t, ErrorCode: code})
		}
		return resp
	case *kmsg.CreateTopicsRequest:
		resp := q.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, t := range q.Topics {
			resp.Topics = append(resp.Topics, kmsg.CreateTopicsResponseTopic{Topic: t.Topic, ErrorCode: code})
		}
		return resp
	case *kmsg.ProduceRequest:
		resp := q.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range q.Topics {
			out := kmsg.ProduceResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, kmsg.ProduceResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	}
	return nil
}

// A reset ends what its own job has open, names it before, and leaves all others alone, also an application whose name begins alike.
func TestResetEndsTheOpenTransactionsOfItsJobAlone(t *testing.T) {
	b, _ := startJob(t)
	transaction(t, b, "ledger-pod-1-0", append(credit(0, 1), stateRecord())...)
	transaction(t, b, "ledger-eu-pod-1-0", credit(1, 1)...)
	transaction(t, b, "upstream-7", credit(2, 1)...)
	p, _ := resetRun(t, b, exitUsage, "plan", "--to", "latest")
	if !slices.Equal(p.Open, []string{"ledger-pod-1-0"}) || !strings.Contains(strings.Join(p.Warnings, "\n"), "ended first: ledger-pod-1-0") {
		t.Errorf("open %q, warnings %q", p.Open, p.Warnings)
	}
	if *p.Tasks[2].To != 0 || p.Tasks[2].End != 1 {
		t.Errorf("%+v: latest must not skip what an open transaction may yet commit", p.Tasks[2])
	}
	if _, errs := resetRun(t, b, exitOK, "apply", "--to", "latest", "--yes"); !strings.Contains(errs, "ended the open transaction of ledger-pod-1-0") {
		t.Error(errs)
	}
	var left []string
	for _, r := range txRows(t, b, exitOK) {
		left = append(left, r.TransactionalID)
	}
	if slices.Sort(left); !slices.Equal(left, []string{"ledger-eu-pod-1-0", "upstream-7"}) {
		t.Errorf("open after the reset: %q", left)
	}
}

func TestResetOnALiveGroupNamesItsMembers(t *testing.T) {
	b, _ := startJob(t)
	staticMember(t, b, "pod-1-0")
	for _, verb := range []string{"plan", "apply"} {
		_, errs, code := processor(t, b, "", "reset", verb, "--to", "earliest")
		if code != exitFailed || !strings.Contains(errs, "group ledger is live") || !strings.Contains(errs, "- pod-1-0 (client teller, host 127.0.0.1") {
			t.Errorf("%s: exit %d: %s", verb, code, errs)
		}
	}
}

func TestResetRefusesWhatMakesNoSense(t *testing.T) {
	b, _ := startJob(t)
	for _, args := range [][]string{{"apply"}, {"plan", "--to", "yesterday"}, {"plan", "--to", "latest", "--to-marker"}, {"plan", "--to-offset", "3=4"},
		{"plan", "--to-offset", "credit-events/9=0"}, {"plan", "--to-offset", "credit-events/0=7"}, {"plan", "--to-offset", "credit-events/0=0", "--to-offset", "credit-events/0=0"}} {
		if _, errs, code := processor(t, b, "", append([]string{"reset"}, args...)...); code != exitUsage {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
	}
	if _, errs, code := processor(t, b, "", "reset", "plan", "--to-offset", "other/0=0"); code != exitFailed || !strings.Contains(errs, "no input of this job") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if out, errs, code := processor(t, b, "", "reset", "plan"); code != exitOK || !strings.Contains(out, "--to-marker            keep the state") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if _, errs, code := processor(t, b, "", "reset", "apply", "--to", "earliest"); code != exitUsage || !strings.Contains(errs, "add --yes") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// What is in flight between stages means nothing without the state: it is thrown away with it, and its reader begins at 0.
func TestResetEmptiesRepartitionTopics(t *testing.T) {
	b, cfg := startJob(t)
	job := pipeline.New("shop")
	orders := topics.New(credits, record.String, record.Bytes)
	split, sum := job.Stage("split"), job.Stage("sum")
	byItem := pipeline.NewRepartition(sum, record.String, record.Bytes)
	out := pipeline.NewOutput(split, byItem)
	pipeline.Handle(split, orders, func(c *pipeline.Ctx, r pipeline.Record[string, []byte]) error {
		out.Send(c, r.Key, r.Value)
		return nil
	})
	pipeline.Handle(sum, byItem, func(*pipeline.Ctx, pipeline.Record[string, []byte]) error { return nil })
	if err := job.Validate(); err != nil {
		t.Fatal(err)
	}
	client := testClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	cfg.ApplicationID = "shop"
	if _, err := topics.NewAdmin(client).Apply(t.Context(), job.Topics(), cfg.topicRules()); err != nil {
		t.Fatal(err)
	}
	produce(t, client, &kgo.Record{Topic: byItem.Name, Partition: 1, Key: []byte("a")})
	produce(t, client, credit(2, 5)...)
	c, _, _ := newTestCLI()
	r := &reset{cli: c, cfg: cfg, job: job, client: client, mode: toLatest}
	p, err := r.plan(t.Context())
	if err != nil || p.refusal() != nil || len(p.Topics) != 3 || !strings.Contains(strings.Join(p.Warnings, " "), "in flight in shop-sum-repartition, up to 1 record,") {
		t.Fatalf("%+v, %v, %v", p, err, p.refusal())
	}
	if err := r.apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, b, byItem.Name); len(got) != 0 {
		t.Errorf("still in flight: %+v", got)
	}
	for _, want := range []struct {
		stage, topic string
		next         int64
	}{{"split", credits, 5}, {"sum", byItem.Name, 0}} {
		m, err := lastMarker(t.Context(), client, topics.StateTopic("shop", want.stage), 2, true)
		if err != nil || m == nil {
			t.Fatal(m, err)
		}
		if next, ok := m.NextOf(want.topic); !ok || next != want.next || m.Partitions != 4 {
			t.Errorf("%+v", m)
		}
	}
}
