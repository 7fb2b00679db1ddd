package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const (
	firstPort = 21600
	app       = "ledger"
	credits   = "credit-events"
	updates   = "ledger-updates"
	letters   = "ledger-dead-letters"
	state     = "ledger-post-state"
)

// built is the command, once a test has asked for it.
var built struct {
	once sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.path != "" && os.Getenv("PROCESSOR") == "" {
		_ = os.RemoveAll(filepath.Dir(built.path))
	}
	os.Exit(code)
}

// command compiles the command as a user would; PROCESSOR names one to test instead.
func command(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.path = os.Getenv("PROCESSOR"); built.path != "" {
			return
		}
		dir, err := os.MkdirTemp("", "tallystick-operator-")
		if err != nil {
			built.err = err
			return
		}
		built.path = filepath.Join(dir, "processor")
		build := exec.Command("go", "build", "-o", built.path, "./cmd/processor")
		build.Dir = filepath.Join("..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build the processor: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// A desk is where an operator sits: a broker, the command, and a client to make trouble with.
type desk struct {
	*kafkatest.Cluster
	binary string
	dir    string      // for logs and state
	env    []string    // over the process's own
	client *kgo.Client // writes each record to the partition that it names
}

// newDesk starts a broker with the job's topics.
func newDesk(t *testing.T, o kafkatest.Options) *desk {
	t.Helper()
	d := newEmptyDesk(t, o)
	d.must(t, "topics", "apply")
	return d
}

func newEmptyDesk(t *testing.T, o kafkatest.Options) *desk {
	t.Helper()
	o.FirstPort = firstPort
	c := kafkatest.Start(t, o)
	d := &desk{Cluster: c, binary: command(t), dir: t.TempDir(), client: kafkatest.Client(t, c.Seeds())}
	d.env = []string{"HOME=" + d.dir, "USER=teller", "PROCESSOR_BOOTSTRAP_SERVERS=" + strings.Join(c.Seeds(), ","), "PROCESSOR_ADMIN_LISTEN=off"}
	return d
}

// result is what a command said.
type result struct {
	out, errs string
	code      int
	took      time.Duration
}

func (r result) String() string { return fmt.Sprintf("exit %d\n%s%s", r.code, r.out, r.errs) }

// brief is what is worth a place in the log.
func (r result) brief() result {
	const enough = 2000
	if len(r.out) > enough {
		r.out = r.out[:enough] + "…\n"
	}
	return r
}

// says fails the test unless the command ended with the code and said every text.
func (r result) says(t *testing.T, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out+r.errs, text) {
			t.Errorf("it does not say %q", text)
		}
	}
	if r.code != code || t.Failed() {
		t.Fatalf("want exit %d:\n%v", code, r.brief())
	}
}

// run runs a command to its end.
func (d *desk) run(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, &out, &errs
	began := time.Now()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("processor %s: %v\n%s%s", strings.Join(args, " "), err, &out, &errs)
	}
	r := result{out.String(), errs.String(), cmd.ProcessState.ExitCode(), time.Since(began)}
	t.Logf("processor %s (%d ms): %v", strings.Join(args, " "), r.took.Milliseconds(), r.brief())
	return r
}

func (d *desk) must(t *testing.T, args ...string) result {
	t.Helper()
	r := d.run(t, args...)
	r.says(t, 0)
	return r
}

// rows runs a command with -o json into a list.
func rows[T any](t *testing.T, d *desk, code int, args ...string) (list []T) {
	t.Helper()
	r := d.run(t, append(args, "-o", "json")...)
	r.says(t, code)
	if err := json.Unmarshal([]byte(r.out), &list); err != nil {
		t.Fatalf("%v in %v", err, r)
	}
	return list
}

// An instance is one processor under a fixed name.
type instance struct {
	*kafkatest.Process
	log string
}

// start runs the job in the background.
func (d *desk) start(t *testing.T, name string, flags ...string) *instance {
	t.Helper()
	i := &instance{log: filepath.Join(d.dir, fmt.Sprintf("%s-%d.log", name, time.Now().UnixNano()))}
	log, err := os.Create(i.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(d.binary, append([]string{"run", "--group-instance-id", name, "--state-dir", filepath.Join(d.dir, "state-"+name)}, flags...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, log, log
	if i.Process, err = kafkatest.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Kill)
	return i
}

// stop ends it as a supervisor does, with --leave given at its start.
func (i *instance) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := i.Terminate(ctx); err != nil {
		t.Fatalf("%v\n%s", err, i.said())
	}
}

func (i *instance) said() string {
	b, err := os.ReadFile(i.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// awaitLog waits until the instance has said a text.
func (i *instance) awaitLog(t *testing.T, text string) {
	t.Helper()
	kafkatest.Within(t, 40*time.Second, "the instance says "+text, func(context.Context) error {
		if said := i.said(); !strings.Contains(said, text) {
			return errors.New(said)
		}
		return nil
	})
}

// lagRow is what a script reads of lag.
type lagRow struct {
	Task      string
	Topic     string
	Partition int32
	State     string
	Committed *int64
	Lag       *int64
}

// awaitLagZero waits until all of the input is committed.
func (d *desk) awaitLagZero(t *testing.T) {
	t.Helper()
	kafkatest.Within(t, 40*time.Second, "lag reaches zero", func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, d.binary, "lag", "-o", "json")
		cmd.Env = d.env
		out, err := cmd.Output()
		if err != nil {
			return err
		}
		var all []lagRow
		if err := json.Unmarshal(out, &all); err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(r lagRow) bool { return r.Lag == nil || *r.Lag != 0 || r.State != "running" }) {
			return errors.New(string(out))
		}
		return d.shown(ctx)
	})
}

// shown is an error as long as a reader cannot see all outputs that the job wrote: a commit reaches the group before it reaches
// each partition that it is about. (The state topic is left out: a test holds it up on purpose.)
func (d *desk) shown(ctx context.Context) error {
	adm := kadm.NewClient(d.client)
	ends, err := adm.ListEndOffsets(ctx, updates, letters, "ledger-skipped")
	if err != nil {
		return err
	}
	stable, err := adm.ListCommittedOffsets(ctx, updates, letters, "ledger-skipped")
	if err != nil {
		return err
	}
	ends.Each(func(end kadm.ListedOffset) {
		if at, ok := stable.Lookup(end.Topic, end.Partition); !ok || at.Offset < end.Offset {
			err = fmt.Errorf("%s/%d: readers see %d of %d", end.Topic, end.Partition, at.Offset, end.Offset)
		}
	})
	return err
}

// process runs the job over all of the input, and stops it.
func (d *desk) process(t *testing.T, flags ...string) {
	t.Helper()
	i := d.start(t, "pod-0", append(flags, "--leave")...)
	d.awaitLagZero(t)
	i.stop(t)
}

// event is a credit of 1.00 with its id.
func event(id, account string) []byte {
	return fmt.Appendf(nil, `{"event_id":%q,"account_id":%q,"amount":"1.00","currency":"EUR","occurred_at":"2026-01-01T00:00:00Z"}`, id, account)
}

func (d *desk) produce(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := d.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// count is how many committed records a topic has.
func (d *desk) count(t *testing.T, topic string) int {
	t.Helper()
	return strings.Count(d.must(t, "tail", topic, "--to-end", "-o", "jsonl").out, "\n")
}
