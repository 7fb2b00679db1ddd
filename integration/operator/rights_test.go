package operator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// as is the desk of a user whom ACLs bind.
func (d *desk) as(user, password string) *desk {
	e := *d
	e.env = append(slices.Clone(d.env), "PROCESSOR_BOOTSTRAP_SERVERS="+d.Brokers[0].SASLAddr, "PROCESSOR_SECURITY_PROTOCOL=SASL_PLAINTEXT", "PROCESSOR_SASL_MECHANISM=PLAIN",
		"PROCESSOR_SASL_USERNAME="+user, "PROCESSOR_SASL_PASSWORD="+password)
	return &e
}

// deny takes one right on a resource away and leaves the others: where a resource has rules, only what they allow is allowed.
func (d *desk) deny(t *testing.T, op kadm.ACLOperation, on func(*kadm.ACLBuilder) *kadm.ACLBuilder) {
	t.Helper()
	all := on(kadm.NewACLs().Allow("User:teller").AllowHosts("*")).Operations(kadm.OpAll)
	but := on(kadm.NewACLs().Deny("User:teller").DenyHosts("*")).Operations(op)
	for _, b := range []*kadm.ACLBuilder{all, but} {
		results, err := kadm.NewClient(d.client).CreateACLs(t.Context(), b.ResourcePatternType(kadm.ACLPatternLiteral))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		kafkatest.Within(t, 10*time.Second, "the broker knows the rule", func(ctx context.Context) error {
			found, err := kadm.NewClient(d.client).DescribeACLs(ctx, b)
			if err != nil || len(found) != 1 || len(found[0].Described) != 1 {
				return errors.Join(err, errors.New("not yet"))
			}
			return nil
		})
	}
}

func onTopic(name string) func(*kadm.ACLBuilder) *kadm.ACLBuilder {
	return func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.Topics(name) }
}

// Each command that lacks a right names what it lacks, and does nothing.
func TestAMissingRightIsNamed(t *testing.T) {
	d := newDesk(t, kafkatest.Options{Users: map[string]string{"teller": "secret"}})
	d.must(t, "feed", "--generate", "300", "--seed", "1", "--malformed", "5%")
	d.process(t)
	teller := d.as("teller", "secret")
	teller.run(t, "dlq", "list").says(t, 0, "post")
	d.run(t, "doctor").says(t, 0, "clock", "its clock is this machine's, give or take ") // one machine: one clock
	teller.run(t, "doctor").says(t, 0, "clock", "give or take ")

	d.deny(t, kadm.OpWrite, func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.TransactionalIDs("ledger-redrive") })
	teller.run(t, "dlq", "redrive", "--all", "--yes").says(t, 1, "ledger-redrive", "transactional id")
	d.deny(t, kadm.OpDelete, onTopic(state))
	d.deny(t, kadm.OpDelete, func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.Clusters() }) // it would delete any topic
	before := d.count(t, updates)
	r := teller.run(t, "reset", "apply", "--to", "earliest", "--yes")
	r.says(t, 1, "delete topic "+state, "the right DELETE")
	i := d.start(t, "pod-0", "--leave")
	i.awaitLog(t, "a reset that was begun and not finished") // it stops on what the reset left: neither state nor offsets are lost
	i.stop(t)
	d.run(t, "reset", "apply", "--to-marker", "--yes").says(t, 0, "done")
	d.process(t)
	if after := d.count(t, updates); after != before {
		t.Errorf("%d updates, %d before", after, before)
	}
	d.run(t, "verify").says(t, 0, "OK")

	d.deny(t, kadm.OpRead, onTopic(letters))
	teller.run(t, "dlq", "list").says(t, 1, letters, "processor acls")
	d.deny(t, kadm.OpDescribe, func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.Groups(app) })
	for _, args := range [][]string{{"reset", "plan", "--to-marker"}, {"fence", "pod-0"}, {"tx", "list"}} {
		teller.run(t, args...).says(t, 1, "group ledger")
	}
	if r := d.as("teller", "wrong").run(t, "lag"); r.code != 1 || !strings.Contains(r.errs, "it refuses the login of user \"teller\"") {
		t.Errorf("%v", r)
	}
}
