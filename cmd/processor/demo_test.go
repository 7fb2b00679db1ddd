package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/internal/verify"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/topics"
)

var digest = regexp.MustCompile(`digest ([0-9a-f]{12})`)

func TestDemoSurvivesItsKillsAndSaysSoInFortyLines(t *testing.T) {
	var digests []string
	for range 2 {
		out, err := exec.CommandContext(t.Context(), binary(t), "demo", "--events", "600", "--seed", "5").CombinedOutput()
		text := string(out)
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if n := countLines(text); n > 40 {
			t.Errorf("%d lines:\n%s", n, text)
		}
		wantDemo(t, text)
		if m := digest.FindStringSubmatch(text); m != nil {
			digests = append(digests, m[1])
		}
	}
	if len(digests) != 2 || digests[0] != digests[1] {
		t.Errorf("the same seed gives %v", digests)
	}
}

// The demo counts accounts as verify does: one that exists only in refused updates is none.
func TestDemoCountsTheAccountsThatVerifyCounts(t *testing.T) {
	c, stdout, _ := newTestCLI()
	d := &demo{c: c, feeder: &demoFeeder{}}
	d.sayResult(verify.Report{Accounts: 53}, "d1gest")
	if !strings.Contains(stdout.String(), "balances  53 accounts, digest d1gest") {
		t.Error(stdout)
	}
}

// wantDemo looks for what the demo must have shown: each kill into an open transaction, and a good end.
func wantDemo(t *testing.T, text string) {
	t.Helper()
	for _, want := range []string{`fed\s+600 events`, `became\s+\d+ applied`, `letters\s+.*conflict \d+`, `verify\s+.*OK`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	killed := regexp.MustCompile(`kill \d .*SIGKILL.*\n\s+the broker now: [12] transactions? open, [1-9]\d* records written and hidden`)
	if n := len(killed.FindAllString(text, -1)); n != demoKills {
		t.Errorf("%d kills into an open transaction, want %d:\n%s", n, demoKills, text)
	}
	back := regexp.MustCompile(`back after \d+ ms: [1-9]\d* state records restored, 0 transactions open`)
	if n := len(back.FindAllString(text, -1)); n != demoKills {
		t.Errorf("%d returns, want %d:\n%s", n, demoKills, text)
	}
}

// TestDemoExits3WhenOneCentDiffers hands the checker a copy of the demo's topics, once as they are and once with the balance of
// one committed update raised by a cent.
//
// Guarantee: G9
// Sabotage: altered-cent
func TestDemoExits3WhenOneCentDiffers(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(*kgo.Record) bool
		code  exitCode
	}{
		{"as it was", func(*kgo.Record) bool { return false }, exitOK},
		{"one cent more", oneCentMore, exitCheckFailed},
	} {
		executable := binary(t) // before TMPDIR is a folder of one case
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir()) // a demo that fails leaves its logs
			cli, stdout, stderr := newTestCLI()
			d := &demo{c: cli, executable: executable, demoOptions: demoOptions{events: 600, seed: 5}}
			d.tamper = func(ctx context.Context, brokers []string) ([]string, error) { return copyHistory(t, ctx, d, c.alter) }
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if code := exitOf(ctx, stderr, d.run(ctx), false); code != c.code {
				t.Fatalf("exit %d, want %d:\n%s%s", code, c.code, stdout, stderr)
			}
			if c.code == exitCheckFailed && !strings.Contains(stdout.String(), "VIOLATED") {
				t.Errorf("prints\n%s", stdout)
			}
			if n := strings.Count(stdout.String(), " "+topology.Updates.Name+"/"); c.code == exitCheckFailed && n < 2 {
				t.Errorf("%d updates are shown as evidence, want both:\n%s", n, stdout)
			}
		})
	}
}

func TestKeptDemoStaysUntilASignalAndLeavesNothingBehind(t *testing.T) {
	p := spawn(t, "demo", "--keep", "--events", "200")
	eventually(t, "the demo says how to use it, in four lines to paste", func() bool { return len(pasteable(p.stdout.String())) == 4 })
	text := p.stdout.String()
	if n := countLines(text); n > 40 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	pid := regexp.MustCompile(`the processor \(pid (\d+)\)`).FindStringSubmatch(text)
	if pid == nil {
		t.Fatalf("no pid in\n%s", text)
	}
	for _, line := range pasteable(text) {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
	interrupt(t, p)
	if code := p.wait(t, 20*time.Second); code != exitOK {
		t.Errorf("exit %d: %s", code, p.stderr.String())
	}
	n, err := strconv.Atoi(pid[1])
	if err != nil {
		t.Fatal(err)
	}
	if alive(n) {
		t.Errorf("the processor (pid %d) is still there", n)
	}
}

// pasteable are the lines for another terminal; tail, which would follow for ever, stops at the end.
func pasteable(text string) (commands []string) {
	for _, m := range regexp.MustCompile(`(?m)^  (feed|tail|query|verify) +(.+)$`).FindAllStringSubmatch(text, -1) {
		if m[1] == "tail" {
			m[2] += " --to-end"
		}
		commands = append(commands, m[2])
	}
	return commands
}

func TestInterruptedDemoExits130AndLeavesNothingBehind(t *testing.T) {
	p := spawn(t, "demo", "--events", "50000")
	eventually(t, "the processor runs", func() bool { return strings.Contains(p.stdout.String(), "run 1 ") })
	interrupt(t, p)
	if code := p.wait(t, 20*time.Second); code != exitInterrupted || !strings.Contains(p.stderr.String(), "error: stopped by signal: interrupt") {
		t.Errorf("exit %d: %s", code, p.stderr.String())
	}
	pid := regexp.MustCompile(`pid (\d+)`).FindAllStringSubmatch(p.stdout.String(), -1)
	for _, m := range pid {
		if n, err := strconv.Atoi(m[1]); err != nil || alive(n) {
			t.Errorf("pid %s is still there", m[1])
		}
	}
}

func TestDemoNeedsAnEventForEachKill(t *testing.T) {
	cli, _, stderr := newTestCLI()
	if code := cli.execute(t.Context(), []string{"demo", "--events", "3"}); code != exitUsage || !strings.Contains(stderr.String(), "--events: 3") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// oneCentMore raises the balance of an applied update by one cent, if it has cents.
func oneCentMore(r *kgo.Record) bool {
	var u struct {
		Outcome, Currency, Balance string
		Version                    int
	}
	if r.Topic != topology.Updates.Name || json.Unmarshal(r.Value, &u) != nil || u.Outcome != "applied" || u.Version < 2 {
		return false
	}
	last := len(u.Balance) - 1
	if cents := last > 2 && u.Balance[last-2] == '.'; !cents || u.Balance[last] == '9' {
		return false
	}
	more := u.Balance[:last] + string(u.Balance[last]+1)
	r.Value = []byte(strings.Replace(string(r.Value), fmt.Sprintf("%q:%q", "balance", u.Balance), fmt.Sprintf("%q:%q", "balance", more), 1))
	return true
}

// copyHistory writes everything that the demo's topics hold to a second broker, with the committed offsets, and alters at
// most one record on the way. Inputs keep their offsets, which is what outcomes refer to.
func copyHistory(t *testing.T, ctx context.Context, d *demo, alter func(*kgo.Record) bool) ([]string, error) {
	t.Helper()
	copied, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		return nil, err
	}
	t.Cleanup(copied.Close)
	to := d.cfg
	to.BootstrapServers = copied.Addrs()
	client, err := to.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	t.Cleanup(client.Close)
	if _, err := topics.NewAdmin(client).Apply(ctx, d.cfg.job().Topics(), d.cfg.topicRules()); err != nil {
		return nil, err
	}
	altered := false
	for _, topic := range append(d.outputs(), topology.Credits.Name) {
		var batch []*kgo.Record
		err := readCommitted(ctx, d.cfg, topic, func(r *kgo.Record) error {
			c := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
			altered = altered || alter(c)
			batch = append(batch, c)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if err := client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			return nil, err
		}
	}
	return copied.Addrs(), copyOffsets(ctx, d, kadm.NewClient(client))
}

func copyOffsets(ctx context.Context, d *demo, to *kadm.Client) error {
	offsets, err := d.onlooker.adm.FetchOffsets(ctx, demoApp)
	if err != nil {
		return err
	}
	return to.CommitAllOffsets(ctx, demoApp, offsets.Offsets())
}
