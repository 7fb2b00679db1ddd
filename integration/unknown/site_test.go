package unknown

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/internal/verify"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/topics"
)

const (
	firstPort  = 22800
	input      = "credit-events"
	stateTopic = "ledger-post-state"
)

// A site is one cluster with the ledger's topics, and a client to feed and to look.
type site struct {
	*kafkatest.Cluster
	t          *testing.T
	client     *kgo.Client // writes each record to the partition that it names
	dir        string      // logs and state of all members
	partitions int32
	mutants    string // the test binary with mutants, once it is needed
}

func newSite(t *testing.T, o kafkatest.Options, partitions int32) *site {
	t.Helper()
	o.FirstPort = firstPort
	s := &site{t: t, Cluster: kafkatest.Start(t, o), partitions: partitions}
	s.client = kafkatest.Client(t, s.Seeds())
	var err error
	if s.dir, err = os.MkdirTemp("", "tallystick-unknown-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.tidy)
	if _, err := topics.NewAdmin(s.client).Apply(t.Context(), job().Topics(), topics.Rules{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) tidy() {
	if s.t.Failed() {
		s.t.Logf("the members' logs are kept in %s", s.dir)
	} else if err := os.RemoveAll(s.dir); err != nil {
		s.t.Error(err)
	}
}

// binary is what a member runs: this test, or this test with the mutants of the engine.
func (s *site) binary(mutant string) string {
	s.t.Helper()
	if mutant == "" {
		exe, err := os.Executable()
		if err != nil {
			s.t.Fatal(err)
		}
		return exe
	}
	if s.mutants == "" {
		s.mutants = filepath.Join(s.dir, "mutants.test")
		if out, err := exec.Command("go", "test", "-c", "-tags", "mutants", "-o", s.mutants, ".").CombinedOutput(); err != nil {
			s.t.Fatalf("compile the test with mutants: %v\n%s", err, out)
		}
	}
	return s.mutants
}

// credit is an event for an account.
func (s *site) credit(id, account string, units int) *kgo.Record {
	value := fmt.Sprintf(`{"event_id":%q,"account_id":%q,"type":"credit","amount":"%d.00","currency":"EUR","occurred_at":"2026-03-01T12:00:00Z"}`, id, account, units)
	return &kgo.Record{Topic: input, Key: []byte(account), Value: []byte(value), Partition: pipeline.Murmur2.Partition([]byte(account), s.partitions)}
}

// account is one whose events belong on a partition.
func (s *site) account(partition int32) string {
	for i := 0; ; i++ {
		if a := fmt.Sprintf("ACC-%d", i); pipeline.Murmur2.Partition([]byte(a), s.partitions) == partition {
			return a
		}
	}
}

func (s *site) feed(records ...*kgo.Record) {
	s.t.Helper()
	if err := s.client.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// awaitCommit waits until the stable committed offset of an input partition is at least next.
func (s *site) awaitCommit(t *testing.T, partition int32, next int64, limit time.Duration) {
	t.Helper()
	kafkatest.Within(t, limit, fmt.Sprintf("commit of %s/%d up to %d", input, partition, next), func(ctx context.Context) error {
		got, err := kafkatest.StableOffset(ctx, s.client, app, input, partition)
		if err == nil && got < next {
			err = fmt.Errorf("committed %d", got)
		}
		return err
	})
}

// awaitEnd waits until the whole input is committed.
func (s *site) awaitEnd(t *testing.T, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for p := range s.partitions {
		err := kafkatest.Poll(ctx, func(ctx context.Context) error {
			stable, end, err := kafkatest.Ends(ctx, s.client, input, p)
			if err != nil {
				return err
			}
			got, err := kafkatest.StableOffset(ctx, s.client, app, input, p)
			if err == nil && got < end {
				err = fmt.Errorf("%s/%d: committed %d of %d, stable to %d", input, p, got, end, stable)
			}
			return err
		})
		if err != nil {
			t.Fatalf("the end of the input, not within %v: %v", limit, err)
		}
	}
}

// awaitMarkers waits until nothing of the job's topics is undecided.
func (s *site) awaitMarkers(t *testing.T, limit time.Duration) {
	t.Helper()
	kafkatest.Within(t, limit, "all markers", func(ctx context.Context) error {
		for _, topic := range []string{stateTopic, "ledger-updates", "ledger-skipped", "ledger-dead-letters"} {
			for p := range s.partitions {
				stable, end, err := kafkatest.Ends(ctx, s.client, topic, p)
				if err != nil {
					return err
				}
				if stable < end {
					return fmt.Errorf("%s/%d is stable to %d of %d", topic, p, stable, end)
				}
			}
		}
		return nil
	})
}

// verdict is what the checker says of the topics.
func (s *site) verdict(t *testing.T) verify.Report {
	t.Helper()
	report, err := verify.Run(t.Context(), verify.Config{
		Opts: []kgo.Opt{kgo.SeedBrokers(s.Seeds()...)}, App: app, Window: topology.DefaultDedupeWindow, AutoCreate: true, Raw: true, Patience: 20 * time.Second,
	})
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	return report
}

// holds fails the test unless the checker finds nothing wrong and nothing left out.
func (s *site) holds(t *testing.T) {
	t.Helper()
	r := s.verdict(t)
	if !r.OK() || r.NotYetProcessed > 0 {
		t.Errorf("verify: %v, %d not yet processed\n%v", r.Counts, r.NotYetProcessed, r.Violations)
	}
}

// ledElsewhere finds a partition of the state topic whose leader does not hold the group's offsets.
func (s *site) ledElsewhere(t *testing.T) (partition int32, leader *kafkatest.Broker) {
	t.Helper()
	adm := kadm.NewClient(s.client)
	var coordinator int32
	kafkatest.Within(t, 20*time.Second, "the group's coordinator", func(ctx context.Context) error {
		g := adm.FindGroupCoordinators(ctx, app)[app]
		coordinator = g.NodeID
		return g.Err
	})
	m, err := adm.Metadata(t.Context(), stateTopic)
	if err = errors.Join(err, m.Topics[stateTopic].Err); err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Topics[stateTopic].Partitions.Sorted() {
		if p.Leader != coordinator {
			return p.Partition, s.Broker(p.Leader)
		}
	}
	t.Fatal("the coordinator of the group leads every partition")
	return 0, nil
}
