package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/verify"
	"github.com/tallystick/tallystick/ledger/topology"
)

// processSome runs the job over n generated events and stops it.
func processSome(t *testing.T, cfg Config, n int) {
	t.Helper()
	onlooker := newOnlooker(feedSome(t, cfg, n), cfg.ApplicationID)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	cli, _, _ := newTestCLI()
	cfg.AdminListen = ""
	go func() { ended <- cli.runProcessor(ctx, cfg, runOptions{}) }()
	if err := onlooker.awaitCommitted(t.Context(), topology.Credits.Name); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestVerifyExitsByWhatItFinds(t *testing.T) {
	_, cfg := startJob(t)
	processSome(t, cfg, 300)
	flags := []string{"verify", "--bootstrap-servers", strings.Join(cfg.BootstrapServers, ",")}

	cli, stdout, stderr := newTestCLI()
	if code := cli.execute(t.Context(), flags); code != exitOK || !strings.Contains(stdout.String(), "OK: every event has exactly one outcome") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	cli, stdout, stderr = newTestCLI()
	code := cli.execute(t.Context(), append(flags, "-o", "json", "--raw", "--liveness", "2s"))
	var r struct {
		verify.Report
		Result string
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || code != exitOK || r.Inputs != 300 || !r.OK() || r.Result != "ok" || r.Raw == nil || r.Raw.Committed == 0 || r.Alive == nil || r.Alive.Members != 0 {
		t.Errorf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}

	forge(t, cfg)
	cli, stdout, stderr = newTestCLI()
	if code := cli.execute(t.Context(), flags); code != exitCheckFailed || !strings.Contains(stdout.String(), "VIOLATED: ") || !strings.Contains(stderr.String(), "error: the history is violated") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

// forge repeats an update of an input that has one already.
func forge(t *testing.T, cfg Config) {
	t.Helper()
	var last *kgo.Record
	if err := readCommitted(t.Context(), cfg, topology.Updates.Name, func(r *kgo.Record) error { last = r; return nil }); err != nil {
		t.Fatal(err)
	}
	client, err := cfg.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	again := &kgo.Record{Topic: last.Topic, Partition: last.Partition, Key: last.Key, Value: last.Value}
	if err := client.ProduceSync(t.Context(), again).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyNamesWhatIsMissing(t *testing.T) {
	_, cfg := startJob(t)
	brokers := strings.Join(cfg.BootstrapServers, ",")
	for _, c := range []struct {
		args []string
		code exitCode
		says string
	}{
		{[]string{"--application-id", "nobody"}, exitNotFound, "nobody-"},
		{[]string{"--start", "0:12"}, exitUsage, `"0:12" is not partition=offset`},
		{[]string{"--start", "-1=12"}, exitUsage, "not partition=offset"},
		{[]string{"--liveness", "-1s"}, exitUsage, "give a positive time"},
		{[]string{"--memory", "1000KiB"}, exitUsage, "1000KiB is too little"},
		{[]string{"--memory", "lots"}, exitUsage, "use 512MiB, 2GiB"},
	} {
		cli, stdout, stderr := newTestCLI()
		if code := cli.execute(t.Context(), append([]string{"verify", "--bootstrap-servers", brokers}, c.args...)); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%q exits %d: %s%s", c.args, code, stdout, stderr)
		}
	}
}

func TestVerifyDoesNotSayOKWhenItCouldNotDecide(t *testing.T) {
	_, cfg := startJob(t)
	processSome(t, cfg, 300)
	client, err := cfg.newClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topology.Updates.Name, Partition: 1, At: 1})
	if deleted, err := kadm.NewClient(client).DeleteRecords(t.Context(), offsets); err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	flags := []string{"verify", "--bootstrap-servers", strings.Join(cfg.BootstrapServers, ",")}
	cli, stdout, stderr := newTestCLI()
	if code := cli.execute(t.Context(), flags); code != exitUnavailable || strings.Contains(stdout.String(), "OK") || !strings.Contains(stdout.String(), "UNDECIDED: nothing violated") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	cli, stdout, stderr = newTestCLI()
	code := cli.execute(t.Context(), append(flags, "-o", "json"))
	var r struct{ Result, Undecided string }
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || code != exitUnavailable || r.Result != "undecided" || !strings.Contains(r.Undecided, "ledger-updates/1 starts at offset 1") {
		t.Errorf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
}

// What kept verify from judging is part of the verdict, whatever else failed with it, and a script gets a verdict though nothing was
// judged.
func TestTheVerdictSaysWhatWasNotJudged(t *testing.T) {
	open := &verify.UndecidedError{Partition: 1, Reason: "a transaction is open"}
	unwritten := &verify.BaselineError{File: "f", Reason: "the disk is full"}
	for name, v := range map[string]struct {
		inputs int64
		err    error
		result string
		exit   exitCode
	}{
		"all":                                {5, nil, "ok", exitOK},
		"not all":                            {5, open, "undecided", exitUnavailable},
		"nothing":                            {0, errors.Join(open), "undecided", exitUnavailable},
		"nothing, no baseline to go on":      {0, errors.Join(unwritten, nil), "undecided", exitUnavailable},
		"all, no baseline written":           {5, errors.Join(unwritten, nil), "ok", exitUnavailable},
		"not all, and no baseline written":   {5, errors.Join(open, unwritten), "undecided", exitUnavailable},
		"the broker went, nothing written":   {5, errors.Join(unwritten, errors.New("gone")), "undecided", exitUnavailable},
		"nothing, no disk to sort ids on it": {0, &verify.SpillError{Dir: "/tmp", Err: syscall.ENOSPC}, "undecided", exitUnavailable},
	} {
		c, stdout, _ := newTestCLI()
		c.format = formatJSON
		err := c.conclude("ledger", auditOptions{}, verify.Report{Inputs: v.inputs}, v.err)
		var got struct{ Result, Undecided string }
		if bad := json.Unmarshal(stdout.Bytes(), &got); bad != nil || got.Result != v.result || (got.Undecided != "") != (v.result == "undecided") {
			t.Errorf("%s: %v, %s", name, bad, stdout)
		}
		var f *failure
		if err == nil != (v.exit == exitOK) || err != nil && (!errors.As(err, &f) || f.code != v.exit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, stdout, _ := newTestCLI()
	if err := c.conclude("ledger", auditOptions{}, verify.Report{}, errors.New("refused")); err == nil || stdout.Len() > 0 {
		t.Errorf("%v, %s", err, stdout)
	}
}

func TestUndecidedIsUnavailable(t *testing.T) {
	err := fmt.Errorf("verify: %w", &verify.UndecidedError{Partition: 2, Reason: "a transaction is open"})
	wantHint(t, undecided(err), exitUnavailable, "nothing proven")
	wantHint(t, undecided(&verify.SpillError{Dir: "/tmp", Err: syscall.ENOSPC}), exitUnavailable, "--spill-dir")
	if other := errors.New("x"); undecided(other) != other || undecided(nil) != nil {
		t.Error("other errors are left alone")
	}
}

func TestVerifyAsksWhetherTheApplicationIDIsRight(t *testing.T) {
	_, cfg := startJob(t)
	c, _, stderr := newTestCLI()
	code := c.execute(t.Context(), []string{"verify", "--application-id", "ledgre", "--bootstrap-servers", strings.Join(cfg.BootstrapServers, ",")})
	if code != exitNotFound || !strings.Contains(stderr.String(), `hint: is application.id "ledgre" right?`) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestVerifyHelpNamesEveryExitCode(t *testing.T) {
	c, stdout, _ := newTestCLI()
	c.execute(t.Context(), []string{"verify", "--help"})
	for _, want := range []string{"0 everything holds", "2 ", "3 something is violated", "4 a topic is missing", "5 "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestStartOffsets(t *testing.T) {
	got, err := startOffsets([]string{"0=12", "3=0"})
	if err != nil || !reflect.DeepEqual(got, map[int32]int64{0: 12, 3: 0}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestReportTextNamesEverything(t *testing.T) {
	r := verify.Report{
		App: "ledger", Partitions: 1, Inputs: 1234, Applied: 1200, Rejected: map[string]int64{"overflow": 2, "unknown_account": 2, "account_closed": 9},
		Duplicates: 3, DeadLetters: map[string]int64{}, AppliedAgain: 1, MendedLetters: 2, Alive: &verify.Alive{Bound: 30e9, Members: 0}, Raw: &verify.Raw{Records: 9000, Controls: 12, Committed: 7, Aborted: 4, Open: 1}, Sums: map[string]verify.Sum{"INR": {Credits: "2.00", Debits: "1.00", Balances: "1.01"}},
		OpenTransactions: []verify.OpenTransaction{{Topic: "ledger-updates", Partition: 1, Stable: 7, End: 9}},
		Violations:       []verify.Violation{{Verdict: verify.Money, Text: "INR differs"}}, Counts: map[verify.Verdict]int64{verify.Money: 1},
	}
	text := reportText(r, nil)
	for _, want := range []string{"1,234 in 1 partition", "13: account_closed 9, overflow 2, unknown_account 2", "whose dedupe.window had passed", "2: wrong by today's rules, redriven since and settled",
		"not judged: the group has no members", "9,000 records, 12 of control; transactions by partition: 7 committed, 4 aborted, 1 open",
		"credits 2.00 − debits 1.00 = balances 1.01", "ledger-updates/1 from offset 7 to 9", "VIOLATED: money 1", "\nmoney: INR differs"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
