package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
)

func runFlags(cfg Config) []string {
	return []string{"run", "--bootstrap-servers", strings.Join(cfg.BootstrapServers, ","), "--state-dir", cfg.StateDir, "--admin-listen", "127.0.0.1:0"}
}

func TestRunDrainsOnTheFirstSignal(t *testing.T) {
	_, cfg := startJob(t)
	p := spawn(t, runFlags(cfg)...)
	admin := p.adminURL(t)
	wantAnswer(t, admin+"/livez", 200, "alive")
	eventually(t, "ready", func() bool { return answers(admin+"/readyz", 200) })
	client := feedSome(t, cfg, 200)
	onlooker := newOnlooker(client, cfg.ApplicationID)
	if err := onlooker.awaitCommitted(t.Context(), topology.Credits.Name); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, admin, 4)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t, cfg.DrainTimeout+5*time.Second); code != exitOK {
		t.Fatalf("exit %d:\n%s", code, p.stderr.String())
	}
	if p.stdout.String() != "" || !strings.Contains(p.stderr.String(), "msg=stopped") {
		t.Errorf("stdout %q, stderr %s", p.stdout.String(), p.stderr.String())
	}
	open, err := onlooker.openTransactions(t.Context())
	if err != nil || len(open) > 0 {
		t.Errorf("open transactions %v, %v", open, err)
	}
	report, err := audit(t.Context(), cfg, auditOptions{})
	if err != nil || !report.OK() || report.Inputs != 200 {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// feedSome writes n generated events.
func feedSome(t *testing.T, cfg Config, n int) *kgo.Client {
	t.Helper()
	client, err := cfg.newClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f, err := newDemoFeeder(client, demoOptions{events: n, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := f.feed(ctx, n); err != nil {
		t.Fatal(err)
	}
	return client
}

func answers(url string, code int) bool {
	resp, err := http.Get(url)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == code
}

// wantStatus waits until the process has the number of tasks: the group may still be moving them between its workers.
func wantStatus(t *testing.T, admin string, tasks int) {
	t.Helper()
	eventually(t, fmt.Sprintf("/status shows %d tasks of the ledger", tasks), func() bool {
		resp, err := http.Get(admin + "/status")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var s pipeline.Status
		return json.NewDecoder(resp.Body).Decode(&s) == nil && len(s.Tasks) == tasks && s.App == "ledger" && len(s.Workers) > 0
	})
}

func TestRunAbortsOnTheSecondSignal(t *testing.T) {
	p := hangingRun(t)
	interrupt(t, p)
	eventually(t, "the log says that it drains", func() bool { return strings.Contains(p.stderr.String(), "msg=draining") })
	timer := time.AfterFunc(2*repeatWithin, func() { interrupt(t, p) })
	defer timer.Stop()
	if code := p.wait(t, 20*time.Second); code != exitInterrupted || !strings.Contains(p.stderr.String(), "aborted without draining") {
		t.Errorf("exit %d:\n%s", code, p.stderr.String())
	}
}

func TestOneStopThatArrivesTwiceIsNoSecondSignal(t *testing.T) {
	// timeout(1) and wrappers that pass Ctrl-C on deliver one wish to stop as two signals.
	signals, now := make(chan os.Signal, 3), time.Now()
	signals <- syscall.SIGTERM
	signals <- os.Interrupt
	clock := []time.Duration{repeatWithin / 2, repeatWithin}
	s := secondSignal(signals, now, func() time.Time { d := clock[0]; clock = clock[1:]; return now.Add(d) })
	if s != os.Interrupt || len(clock) != 0 {
		t.Errorf("%v was the second signal, %d left", s, len(clock))
	}
}

func TestRunStopsInBoundedTimeWhenTheBrokerHangs(t *testing.T) {
	p := hangingRun(t, "--drain-timeout-ms", "1000", "--transaction-timeout-ms", "3000", "--max-poll-interval-ms", "2000")
	interrupt(t, p)
	if code := p.wait(t, 20*time.Second); code < 0 { // killed by wait
		t.Errorf("it still drains after 20 s:\n%s", p.stderr.String())
	}
}

// hangingRun is a run whose broker has stopped answering in the middle of a commit.
func hangingRun(t *testing.T, flags ...string) *process {
	t.Helper()
	broker, cfg := startJob(t)
	p := spawn(t, append(runFlags(cfg), flags...)...)
	client := feedSome(t, cfg, 10)
	if err := newOnlooker(client, cfg.ApplicationID).awaitCommitted(t.Context(), topology.Credits.Name); err != nil {
		t.Fatal(err)
	}
	hang, asked := make(chan struct{}), make(chan struct{}, 1)
	t.Cleanup(func() { close(hang) })
	broker.Cluster().ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		asked <- struct{}{}
		<-hang // it answers nobody from here on
		return nil, nil, false
	})
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topology.Credits.Name, Key: []byte("priya"), Value: []byte("{}")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	<-asked
	return p
}

func interrupt(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

func TestRunExitsUnavailableWithoutABroker(t *testing.T) {
	t.Parallel()
	c, stdout, stderr := newTestCLI()
	code := c.execute(t.Context(), []string{"run", "--bootstrap-servers", "127.0.0.1:1", "--state-dir", t.TempDir(), "--admin-listen", "off"})
	if code != exitUnavailable || stdout.Len() > 0 || !strings.Contains(stderr.String(), "hint: ") {
		t.Errorf("exit %d, stdout %q, stderr %s", code, stdout, stderr)
	}
}

func TestNotReadyNamesEveryReason(t *testing.T) {
	for want, s := range map[string]pipeline.Status{
		"":                                       {Workers: []pipeline.WorkerStatus{{Joined: true}}, Tasks: []pipeline.TaskStatus{{State: pipeline.Running}}},
		"starting: no worker has joined":         {},
		"worker 0 has no session: no route":      {Workers: []pipeline.WorkerStatus{{LastError: "no route"}}},
		"topic in has 6 partitions, and had 4":   {Workers: []pipeline.WorkerStatus{{Joined: true}}, Grown: []pipeline.GrownInput{{Topic: "in", Was: 4, Is: 6}}},
		"task post/3 is restoring":               {Workers: []pipeline.WorkerStatus{{Joined: true}}, Tasks: []pipeline.TaskStatus{{Task: "post/3", State: pipeline.Restoring}}},
		"task post/3 is stopped: I1: it is less": {Workers: []pipeline.WorkerStatus{{Joined: true}}, Tasks: []pipeline.TaskStatus{{Task: "post/3", State: pipeline.Stopped, Error: "I1: it is less"}}},
	} {
		got := fmt.Sprint(notReady(s))
		if want == "" && got != "[]" || !strings.Contains(got, want) {
			t.Errorf("%+v: %s, want %q", s, got, want)
		}
	}
}
