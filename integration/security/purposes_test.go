package security

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// attempt is what a purpose is granted for, tried with one of its rights missing. It returns the first answer that is not right.
type attempt func(t *testing.T, r right) answer

// eachIsNeeded takes each right of a purpose away, finds that the purpose fails and says what is missing, and that nothing else is
// denied; between two attempts undo puts the stage as it was.
func (b *bank) eachIsNeeded(t *testing.T, purpose string, try attempt, undo func(*testing.T)) {
	t.Helper()
	for _, r := range b.printed(t, purpose) {
		t.Run(purpose+" without "+r.String(), func(t *testing.T) {
			b.revoke(t, purpose, r)
			from := len(b.cluster.Brokers[0].Log(t))
			a := try(t, r)
			said := a.stdout + a.stderr
			switch {
			case a.code == 0 && r.op == "DESCRIBE_CONFIGS": // it goes on without the limits that it asked for
				b.awaitDenial(t, purpose, from)
			case a.code == 0 || !strings.Contains(a.stderr, strings.TrimSuffix(r.name, "-")) || !strings.Contains(said, "acls"):
				t.Errorf("exit %d:\n%s", a.code, said)
			}
			t.Logf("exit %d\n%s%s", a.code, lineOf(a.stderr, "error:"), lineOf(a.stderr, "hint:"))
			b.grant(t, purpose, r)
			for _, d := range b.denials(t, purpose, from) {
				if !strings.Contains(d, ":"+r.name) {
					t.Errorf("denied for another reason: %s", d)
				}
			}
			if undo != nil {
				undo(t)
			}
		})
	}
}

// awaitDenial fails the test unless the broker has denied something.
func (b *bank) awaitDenial(t *testing.T, purpose string, from int) {
	t.Helper()
	kafkatest.Within(t, 5*time.Second, "the right is asked for", func(context.Context) error {
		if len(b.denials(t, purpose, from)) == 0 {
			return errors.New("nothing was denied")
		}
		return nil
	})
}

// first runs commands as a purpose until one fails.
func (b *bank) first(t *testing.T, purpose string, commands ...[]string) (a answer) {
	t.Helper()
	for _, args := range commands {
		if a = ask(t, 30*time.Second, b.as(purpose), nil, args...); a.code != 0 {
			return a
		}
	}
	return a
}

func (b *bank) does(purpose string, commands ...[]string) attempt {
	return func(t *testing.T, _ right) answer { t.Helper(); return b.first(t, purpose, commands...) }
}

func TestEachPrintedRightOfTheOtherPurposesIsNeeded(t *testing.T) {
	b := newBank(t)
	for purpose := range users {
		b.grant(t, purpose, b.printed(t, purpose)...)
	}
	b.eachIsNeeded(t, "topics apply", b.does("topics apply", []string{"topics", "apply"}), b.withoutTopics)
	must(t, b.as("topics apply"), nil, "topics", "apply")
	b.eachIsNeeded(t, "feed", b.does("feed", []string{"feed", "--generate", "20"}), nil)
	must(t, b.as("feed"), nil, "feed", "--generate", "200", "--accounts", "50", "--malformed", "5%")
	one := start(t, b.as("run"), nil, "--group-instance-id", "one", "--leave")
	one.untilLagIsZero(t, b.as("look"))
	b.eachIsNeeded(t, "look", b.looks, nil)
	b.eachIsNeeded(t, "dlq redrive", b.does("dlq redrive", []string{"dlq", "redrive", "--all", "--yes"}), func(t *testing.T) { one.untilLagIsZero(t, b.admin) })
	b.eachIsNeeded(t, "fence", b.does("fence", []string{"fence", "one", "--force"}), nil)
	one.drain(t)
	b.eachIsNeeded(t, "reset apply", b.resets, func(t *testing.T) { must(t, b.admin, nil, "reset", "apply", "--to", "earliest", "--yes") })
}

// withoutTopics deletes what an attempt to create topics has created.
func (b *bank) withoutTopics(t *testing.T) {
	t.Helper()
	kafkatest.Within(t, 20*time.Second, "the topics are gone", func(ctx context.Context) error {
		there, err := b.adm.ListTopics(ctx)
		if err != nil || len(there) == 0 {
			return err
		}
		_, err = b.adm.DeleteTopics(ctx, there.Names()...)
		return errors.Join(err, fmt.Errorf("%d topics", len(there)))
	})
}

// looks does everything that the purpose look is for. That a transaction may not be described shows in its absence.
func (b *bank) looks(t *testing.T, r right) answer {
	t.Helper()
	if r.kind != "transactional-id" {
		return b.first(t, "look", []string{"lag"}, []string{"dlq", "list"}, []string{"verify"})
	}
	const id = "ledger-probe-0"
	end := b.open(t, id, &kgo.Record{Topic: "credit-events", Key: []byte("a"), Value: []byte("{}")})
	defer end()
	a := b.first(t, "look", []string{"tx", "list"}, []string{"lag"})
	if strings.Contains(a.stdout, id) || !strings.Contains(a.stdout, "DESCRIBE on the transactional id") {
		t.Errorf("%s\n%s", a.stdout, a.stderr)
		return a
	}
	return answer{code: 1, stdout: a.stdout, stderr: "ledger: acls: " + a.stderr}
}

// open leaves a transaction open until the returned function is called.
func (b *bank) open(t *testing.T, id string, rec *kgo.Record) (end func()) {
	t.Helper()
	producer := kafkatest.Client(t, b.cluster.Seeds(), kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute))
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := producer.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := producer.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Error(err)
		}
	}
}

// resets starts over, and goes on behind a gap, where the right in question is for that. What an instance left open is ended first.
func (b *bank) resets(t *testing.T, r right) answer {
	t.Helper()
	switch {
	case r.kind == "transactional-id":
		b.open(t, "ledger-gone-0", &kgo.Record{Topic: "ledger-updates", Key: []byte("a"), Value: []byte("{}")})
	case r.name == "ledger-dead-letters" && r.op == "WRITE":
		must(t, b.admin, nil, "reset", "apply", "--to", "earliest", "--yes")
		b.losesUnread(t)
		return b.first(t, "reset apply", []string{"reset", "apply", "--skip-lost", "--yes"})
	}
	return b.first(t, "reset apply", []string{"reset", "apply", "--to", "earliest", "--yes"})
}

// losesUnread deletes input of a job that starts at its first event, as retention does.
func (b *bank) losesUnread(t *testing.T) {
	t.Helper()
	cut := kadm.Offsets{}
	cut.AddOffset("credit-events", 0, 5, -1)
	if _, err := b.adm.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
}
