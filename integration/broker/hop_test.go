package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

const (
	envHop     = "BROKER_HOP" // seeds and state.dir of the child that runs hops
	hopApp     = "hop"
	hopPages   = 30
	hopParts   = 4
	purgeEvery = 50 * time.Millisecond
)

// hops counts visits, which come by user, by page: each passes a repartition topic.
func hops() *pipeline.Pipeline {
	p := pipeline.New(hopApp)
	byUser, byPage := p.Stage("rekey"), p.Stage("count")
	hop := pipeline.NewRepartition(byPage, record.String, record.String)
	hand := pipeline.NewOutput(byUser, hop)
	pipeline.Handle(byUser, topics.New("visits", record.String, record.String), func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		hand.Send(c, r.Value, r.Key)
		return nil
	})
	count := state.NewTable(byPage, "count", record.String, record.Int64)
	out := pipeline.NewOutput(byPage, topics.New("pages", record.String, record.Int64))
	pipeline.Handle(byPage, hop, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		n, _ := count.Get(c, r.Key)
		count.Put(c, r.Key, n+1)
		out.Send(c, r.Key, n+1)
		return nil
	})
	return p
}

// runHops is the child: a processor of hops that trims as often as it can, until it is told to end.
func runHops(encoded string) {
	seeds, dir, _ := strings.Cut(encoded, " ")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	check(pipeline.Run(ctx, pipeline.Config{
		Brokers: strings.Split(seeds, ","), StateDir: dir, InstanceID: "hopper", Workers: 2, CommitInterval: 20 * time.Millisecond,
		OffsetReset: pipeline.Latest, RepartitionPurgeInterval: purgeEvery, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, hops()))
}

// hopper is the test's side: it feeds visits, starts and kills the child, and looks at the repartition topic.
type hopper struct {
	t      *testing.T
	seeds  []string
	dir    string
	client *kgo.Client
	rng    *rand.Rand
	fed    map[string]int64 // by page
	looks  int
}

func (h *hopper) feed(n int) {
	h.t.Helper()
	var records []*kgo.Record
	for range n {
		user, page := fmt.Sprint("user-", h.rng.IntN(500)), fmt.Sprint("page-", h.rng.IntN(hopPages))
		h.fed[page]++
		records = append(records, &kgo.Record{Topic: "visits", Key: []byte(user), Value: []byte(page), Partition: pipeline.Murmur2.Partition([]byte(user), hopParts)})
	}
	if err := h.client.ProduceSync(h.t.Context(), records...).FirstErr(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hopper) start() *kafkatest.Process {
	h.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envHop+"="+strings.Join(h.seeds, ",")+" "+h.dir)
	log, err := os.OpenFile(h.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	p, err := kafkatest.Launch(cmd)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(p.Kill)
	return p
}

// look reads where the repartition topic begins and then what is committed of it: no look may find the first above the second.
// It returns how much is trimmed, and how much of what is committed is not.
func (h *hopper) look(ctx context.Context) (trimmed, left int64, err error) {
	adm, topic := kadm.NewClient(h.client), topics.Repartition(hopApp, "count")
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	for p := range int32(hopParts) {
		start, _ := starts.Lookup(topic, p)
		if start.Err != nil {
			return 0, 0, start.Err
		}
		committed, err := kafkatest.StableOffset(ctx, h.client, hopApp, topic, p)
		if err != nil {
			return 0, 0, err
		}
		if start.Offset > max(0, committed) {
			h.t.Fatalf("partition %d begins at %d, committed is %d", p, start.Offset, committed)
		}
		trimmed, left = trimmed+start.Offset, left+committed-start.Offset
		h.looks++
	}
	return trimmed, left, nil
}

// awaitTrim feeds until the topic is trimmed beyond what it was.
func (h *hopper) awaitTrim(beyond int64) (trimmed int64) {
	h.t.Helper()
	kafkatest.Within(h.t, 60*time.Second, "trim", func(ctx context.Context) (err error) {
		h.feed(50)
		if trimmed, _, err = h.look(ctx); err == nil && trimmed <= beyond {
			err = fmt.Errorf("trimmed to %d in sum, as before", trimmed)
		}
		return err
	})
	return trimmed
}

// A repartition topic is trimmed while it is used, never beyond what is committed, and nothing is lost or doubled by it: not
// when the processor is killed right after a trim, nor when the broker is, whose partitions then have another leader epoch
// and no record of the earlier one.
func TestRepartitionTopicIsTrimmedBelowCommittedOffsetsUnderKills(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort})
	h := &hopper{t: t, seeds: cluster.Seeds(), dir: t.TempDir() + "/state", rng: rand.New(rand.NewPCG(5, 6)), fed: map[string]int64{}}
	h.client = kafkatest.Client(t, h.seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if _, err := topics.NewAdmin(h.client).Apply(t.Context(), hops().Topics(), topics.Rules{Partitions: hopParts}); err != nil {
		t.Fatal(err)
	}
	child := h.start()
	for p := range int32(hopParts) { // auto.offset.reset=latest counts what comes from here on
		kafkatest.Within(t, 60*time.Second, "first task", func(ctx context.Context) error {
			n, err := kafkatest.StableOffset(ctx, h.client, hopApp, "visits", p)
			if err == nil && n < 0 {
				err = errors.New("it has no committed offset")
			}
			return err
		})
	}
	trimmed := int64(0)
	for range 5 {
		trimmed = h.awaitTrim(trimmed)
		child.Kill()
		h.feed(100)
		child = h.start()
	}
	kafkatest.Within(t, 60*time.Second, "all is counted and trimmed", h.drained)
	broker := cluster.Broker(1)
	broker.Kill()
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	h.feed(500)
	h.awaitTrim(trimmed)
	kafkatest.Within(t, 60*time.Second, "all is counted and trimmed after the broker came back", h.drained)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := child.Terminate(ctx); err != nil || child.ExitCode() != 0 {
		log, _ := os.ReadFile(h.dir + ".log")
		t.Errorf("the processor ends with %d, %v\n%s", child.ExitCode(), err, log)
	}
	h.judge()
	t.Logf("counts: looks=%d, trimmed=%d, visits=%d", h.looks, trimmed, h.total())
}

func (h *hopper) total() (n int64) {
	for _, fed := range h.fed {
		n += fed
	}
	return n
}

// drained is nil when both topics are committed to their ends and the repartition topic is trimmed to there.
func (h *hopper) drained(ctx context.Context) error {
	for _, topic := range []string{"visits", topics.Repartition(hopApp, "count")} {
		for p := range int32(hopParts) {
			_, end, err := kafkatest.Ends(ctx, h.client, topic, p)
			if err != nil {
				return err
			}
			if committed, err := kafkatest.StableOffset(ctx, h.client, hopApp, topic, p); err != nil || committed < end {
				return fmt.Errorf("%s/%d is committed to %d of %d, %v", topic, p, committed, end, err)
			}
		}
	}
	if _, left, err := h.look(ctx); err != nil || left > 0 {
		return fmt.Errorf("%d records are committed and not trimmed, %v", left, err)
	}
	return nil
}

// judge sees to it that each page's count grew by one with each of its visits, and by nothing else.
func (h *hopper) judge() {
	h.t.Helper()
	counts := map[string]int64{}
	for p := range int32(hopParts) {
		for _, r := range kafkatest.Committed(h.t, h.seeds, "pages", p) {
			n, err := record.Int64.Decode(r.Value)
			if page := string(r.Key); err != nil || n != counts[page]+1 {
				h.t.Errorf("%s counts %d after %d, %v", page, n, counts[page], err)
			}
			counts[string(r.Key)] = n
		}
	}
	for page, want := range h.fed {
		if counts[page] != want {
			h.t.Errorf("%s counts %d visits, %d were fed", page, counts[page], want)
		}
	}
}
