package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

const (
	firstPort  = 23000
	partitions = 2
	input      = "credit-events"
	updates    = "ledger-updates"
	skipped    = "ledger-skipped"
	state      = "ledger-post-state"
	horizon    = "14d" // of redeliveries, which an input that is kept for ever does not tell

	exitOK, exitViolated, exitUndecided = 0, 3, 5
)

// A site is one broker with the job's topics.
type site struct {
	kafka   *kafkatest.Cluster
	client  *kgo.Client // places records as the job expects it
	adm     *kadm.Client
	command jobtest.Command
}

// newSite keeps the input for ever until a test decides otherwise; the broker looks for what is due twice a second.
func newSite(t *testing.T) *site {
	t.Helper()
	k := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort, Config: map[string]string{
		"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500",
	}})
	cl := kafkatest.Client(t, k.Seeds(), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	s := &site{kafka: k, client: cl, adm: kadm.NewClient(cl), command: jobtest.Build(t, k.Seeds())}
	kafkatest.CreateTopic(t, cl, input, partitions, "retention.ms", "-1")
	s.command.MustRun(t, 30*time.Second, "topics", "apply", "--redelivery-horizon", horizon)
	return s
}

func (s *site) instance(t *testing.T, name string, flags ...string) *jobtest.Instance {
	t.Helper()
	i := s.command.NewInstance(t, name, append(flags, "--redelivery-horizon", horizon)...)
	i.Start(t)
	return i
}

func (s *site) awaitEnd(t *testing.T, instances ...*jobtest.Instance) {
	t.Helper()
	jobtest.AwaitEnd(t, s.client, input, partitions, instances)
}

// A record is evidence.
type record struct {
	Role, Topic string
	Partition   int32
	Offset      int64
	Control     string
}

type violation struct {
	Verdict, Text string
	Evidence      []record
}

// A report is what a script reads of verify, and of each round of --follow.
type report struct {
	Result          string
	Undecided       string
	Inputs          int64
	NotYetProcessed int64 `json:"not_yet_processed"`
	Violations      json.RawMessage
	Counts          map[string]int64 `json:"violation_counts"`
	Baseline        *struct{ Inputs int64 }

	Round int         // 0: the last report
	New   []violation `json:"new_violations"`
}

func (r report) violations(t *testing.T) (all []violation) {
	t.Helper()
	if err := json.Unmarshal(r.Violations, &all); err != nil {
		t.Fatalf("%v in %s", err, r.Violations)
	}
	return all
}

// verify runs an audit to its end, and wants this exit code.
func (s *site) verify(t *testing.T, code int, flags ...string) report {
	t.Helper()
	out, err := s.command.Run(t.Context(), time.Minute, append([]string{"verify", "-o", "json"}, flags...)...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	var r report
	if at := strings.Index(out, "{"); at < 0 || json.NewDecoder(strings.NewReader(out[at:])).Decode(&r) != nil || got != code {
		t.Fatalf("verify %s: exit %d, want %d:\n%s", strings.Join(flags, " "), got, code, out)
	}
	t.Logf("verify %s: exit %d, %s: %d inputs, violations %v %s", strings.Join(flags, " "), got, r.Result, r.Inputs, r.Counts, r.Undecided)
	return r
}

// A follower is verify --follow in the background.
type follower struct {
	*kafkatest.Process
	out, errs string
}

func (s *site) follow(t *testing.T, name string, flags ...string) *follower {
	t.Helper()
	p, out, errs := s.command.Launch(t, name, append([]string{"verify", "--follow", "--interval", "1s", "--metrics-listen", "off", "-o", "jsonl"}, flags...)...)
	return &follower{p, out, errs}
}

// reports are its rounds so far, and its last report once it has ended.
func (f *follower) reports(t *testing.T) (rounds []report, last *report) {
	t.Helper()
	text, err := os.ReadFile(f.out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r report
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if r.Round == 0 {
			last = &r
			continue
		}
		rounds = append(rounds, r)
	}
	return rounds, last
}

// await waits until a round fits, and fails the test when the follower has ended before.
func (f *follower) await(t *testing.T, what string, fits func(report) bool) {
	t.Helper()
	kafkatest.Within(t, 30*time.Second, what, func(context.Context) error {
		rounds, _ := f.reports(t)
		select {
		case <-f.Done():
			if !slices.ContainsFunc(rounds, fits) {
				t.Fatalf("verify --follow has ended with exit code %d: %s", f.ExitCode(), f.said(t))
			}
		default:
		}
		if !slices.ContainsFunc(rounds, fits) {
			return fmt.Errorf("none of %d rounds: %s", len(rounds), f.said(t))
		}
		return nil
	})
}

func (f *follower) said(t *testing.T) string {
	t.Helper()
	out, err := os.ReadFile(f.out)
	errs, err2 := os.ReadFile(f.errs)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(out[max(0, len(out)-3000):]) + string(errs)
}

// ends waits for its end and wants this exit code.
func (f *follower) ends(t *testing.T, code int) {
	t.Helper()
	select {
	case <-f.Done():
	case <-time.After(30 * time.Second):
		t.Fatalf("verify --follow does not end: %s", f.said(t))
	}
	if f.ExitCode() != code {
		t.Fatalf("verify --follow: exit code %d, want %d: %s", f.ExitCode(), code, f.said(t))
	}
}
