package security

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// right is one entry of the broker's access control lists.
type right struct{ kind, name, pattern, op string }

func (r right) String() string { return r.op + " on " + r.kind + " " + r.name }

// bank is a broker that denies everything that is not granted, with one user for each purpose.
type bank struct {
	cluster *kafkatest.Cluster
	adm     *kadm.Client
	admin   string // configuration of the super user
}

// users are the purposes of acls, and who has them here.
var users = map[string]string{
	"run": "job", "topics apply": "deployer", "feed": "producer", "look": "auditor", "dlq redrive": "redriver", "reset apply": "resetter", "fence": "fencer",
}

func newBank(t *testing.T) *bank {
	t.Helper()
	passwords := map[string]string{}
	for _, u := range users {
		passwords[u] = "pw-" + u
	}
	b := &bank{cluster: kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort, Users: passwords, Config: map[string]string{
		"allow.everyone.if.no.acl.found": "false", "group.initial.rebalance.delay.ms": "0",
	}})}
	b.adm = kadm.NewClient(kafkatest.Client(t, b.cluster.Seeds()))
	b.admin = "bootstrap.servers: " + b.cluster.Brokers[0].Addr + "\n"
	return b
}

// as is the configuration of a purpose's user.
func (b *bank) as(purpose string) string {
	u := users[purpose]
	return "bootstrap.servers: " + b.cluster.Brokers[0].SASLAddr + "\nsecurity.protocol: SASL_PLAINTEXT\nsasl.mechanism: PLAIN\nsasl.username: " + u + "\nsasl.password: pw-" + u + "\n" +
		"session.timeout.ms: 6000\nheartbeat.interval.ms: 500\ntransaction.timeout.ms: 8000\nmax.poll.interval.ms: 4000\n"
}

// printed are the rights that acls prints for a purpose.
func (b *bank) printed(t *testing.T, purpose string) []right {
	t.Helper()
	var grants []struct {
		Type       string   `json:"resource_type"`
		Name       string   `json:"name"`
		Pattern    string   `json:"pattern"`
		Operations []string `json:"operations"`
	}
	out := must(t, b.as(purpose), nil, "acls", "--for", purpose, "-o", "json").stdout
	if err := json.Unmarshal([]byte(out), &grants); err != nil || len(grants) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	var all []right
	for _, g := range grants {
		for _, op := range g.Operations {
			all = append(all, right{g.Type, g.Name, g.Pattern, op})
		}
	}
	return all
}

func (r right) builder(t *testing.T, who string) *kadm.ACLBuilder {
	t.Helper()
	op, err := kmsg.ParseACLOperation(r.op)
	if err != nil {
		t.Fatal(err)
	}
	b := kadm.NewACLs().Allow("User:" + who).AllowHosts("*").Operations(op)
	b.ResourcePatternType(kadm.ACLPatternLiteral)
	if r.pattern == "prefixed" {
		b.ResourcePatternType(kadm.ACLPatternPrefixed)
	}
	switch r.kind {
	case "topic":
		b.Topics(r.name)
	case "group":
		b.Groups(r.name)
	case "transactional-id":
		b.TransactionalIDs(r.name)
	default:
		t.Fatalf("%v", r)
	}
	return b
}

func (b *bank) grant(t *testing.T, purpose string, rights ...right) {
	t.Helper()
	for _, r := range rights {
		done, err := b.adm.CreateACLs(t.Context(), r.builder(t, users[purpose]))
		if err != nil || len(done) != 1 || done[0].Err != nil {
			t.Fatalf("grant %v: %v, %+v", r, err, done)
		}
	}
	b.settle(t, purpose, rights, true)
}

func (b *bank) revoke(t *testing.T, purpose string, rights ...right) {
	t.Helper()
	for _, r := range rights {
		builder := r.builder(t, users[purpose])
		done, err := b.adm.DeleteACLs(t.Context(), builder)
		if err != nil || len(done) != 1 || done[0].Err != nil || len(done[0].Deleted) != 1 {
			t.Fatalf("revoke %v: %v, %+v", r, err, done)
		}
	}
	b.settle(t, purpose, rights, false)
}

// settle waits until the broker's authorizer knows of a change.
func (b *bank) settle(t *testing.T, purpose string, rights []right, there bool) {
	t.Helper()
	for _, r := range rights {
		kafkatest.Within(t, 10*time.Second, r.String(), func(ctx context.Context) error {
			found, err := b.adm.DescribeACLs(ctx, r.builder(t, users[purpose]))
			if err != nil {
				return err
			}
			if n := len(found[0].Described); (n == 1) != there {
				return fmt.Errorf("%d entries", n)
			}
			return nil
		})
	}
}

// denials are the lines of the authorizer's log about a purpose's user, from a position of the log on.
func (b *bank) denials(t *testing.T, purpose string, from int) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(b.cluster.Brokers[0].Log(t)[from:]) {
		if strings.Contains(line, "Principal = User:"+users[purpose]+" is Denied") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func (b *bank) wantNoDenial(t *testing.T, purpose string) {
	t.Helper()
	for _, d := range b.denials(t, purpose, 0) {
		t.Errorf("%s asks for what acls does not print: %s", purpose, d)
	}
}

func TestThePrintedRightsOfRunAreEnoughAndEachIsNeeded(t *testing.T) {
	b := newBank(t)
	rights := b.printed(t, "run")
	b.grant(t, "run", rights...)
	must(t, b.admin, nil, "topics", "apply")
	b.feed(t, 1)
	b.enough(t)
	for i, r := range rights {
		t.Run("at start without "+r.String(), func(t *testing.T) { b.neededAtStart(t, r, 10+i) })
	}
	for i, r := range rights {
		t.Run("running without "+r.String(), func(t *testing.T) { b.neededWhileRunning(t, r, 30+i) })
	}
	last := start(t, b.as("run"), nil)
	last.untilLagIsZero(t, b.admin)
	last.drain(t)
	must(t, b.admin, nil, "verify") // nothing was lost, and nothing applied twice
}

// feed writes events of which a few are refused and a few are dead letters.
func (b *bank) feed(t *testing.T, seed int) {
	t.Helper()
	must(t, b.admin, nil, "feed", "--generate", "200", "--accounts", "50", "--seed", fmt.Sprint(seed), "--malformed", "5%", "--duplicates", "20%")
}

// enough processes, rebalances, restarts after a kill, restores and writes dead letters, and no request is denied.
func (b *bank) enough(t *testing.T) {
	t.Helper()
	one := start(t, b.as("run"), nil, "--group-instance-id", "one")
	one.untilLagIsZero(t, b.admin)
	two := start(t, b.as("run"), nil, "--group-instance-id", "two")
	b.feed(t, 2)
	two.untilLagIsZero(t, b.admin)
	one.Kill()
	b.feed(t, 3)
	again := start(t, b.as("run"), nil, "--group-instance-id", "one", "--leave")
	again.untilLagIsZero(t, b.admin)
	again.drain(t)
	two.untilLagIsZero(t, b.admin)
	two.drain(t)
	b.wantNoDenial(t, "run")
	if out := must(t, b.admin, nil, "dlq", "list", "-o", "json").stdout; !strings.Contains(out, "malformed") {
		t.Errorf("no dead letter was written: %s", out)
	}
}

// namesTheRight reports whether a text says which right is missing, on what, and what to do.
func namesTheRight(text string, r right) error {
	for _, word := range []string{r.op, strings.TrimSuffix(r.name, "-"), "acls"} {
		if !strings.Contains(text, word) {
			return fmt.Errorf("it does not say %q", word)
		}
	}
	return nil
}

func (b *bank) neededAtStart(t *testing.T, r right, seed int) {
	b.revoke(t, "run", r)
	defer b.grant(t, "run", r)
	b.feed(t, seed)
	start(t, b.as("run"), nil, "--group-instance-id", "one").endsWithout(t, r)
}

func (b *bank) neededWhileRunning(t *testing.T, r right, seed int) {
	p := start(t, b.as("run"), nil, "--group-instance-id", "one")
	p.untilRestored(t) // by this process: the lag is zero before
	b.revoke(t, "run", r)
	defer b.grant(t, "run", r)
	b.feed(t, seed)
	if r.usedAtStartsAlone() {
		p.untilLagIsZero(t, b.admin)
		p.Kill()
		return
	}
	p.endsWithout(t, r)
}

var restored = regexp.MustCompile(`msg="task restored" app=ledger worker=\d task=(post/\d) `)

// untilRestored waits until the process has restored a task of each partition.
func (r *runner) untilRestored(t *testing.T) {
	t.Helper()
	kafkatest.Within(t, 40*time.Second, "the tasks to be restored", func(context.Context) error {
		said := r.said(t)
		tasks := map[string]bool{}
		for _, m := range restored.FindAllStringSubmatch(said, -1) {
			tasks[m[1]] = true
		}
		if len(tasks) < 4 {
			return fmt.Errorf("%d are:\n%s", len(tasks), said)
		}
		return nil
	})
}

// usedAtStartsAlone reports whether a processor does without the right from its last restore on.
func (r right) usedAtStartsAlone() bool {
	return r.op == "DESCRIBE_CONFIGS" || r.op == "READ" && strings.HasSuffix(r.name, "-state")
}

// endsWithout fails unless the processor ends by itself with exit code 1, and its last words name the right.
func (r *runner) endsWithout(t *testing.T, missing right) {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(30 * time.Second):
		r.Kill()
		t.Fatalf("it runs on without %v:\n%s", missing, r.said(t))
	}
	said := r.said(t)
	if err := namesTheRight(lineOf(said, "error:")+lineOf(said, "hint:"), missing); err != nil || r.ExitCode() != 1 {
		t.Errorf("exit %d, %v:\n%s", r.ExitCode(), err, said)
	}
	t.Logf("exit %d\n%s%s", r.ExitCode(), lineOf(said, "error:"), lineOf(said, "hint:"))
}

// others are the commands of every purpose but run, in the order in which they can be tried.
func TestThePrintedRightsOfTheOtherPurposesAreEnough(t *testing.T) {
	b := newBank(t)
	granted := map[string][]right{}
	for purpose := range maps.Keys(users) {
		granted[purpose] = b.printed(t, purpose)
		b.grant(t, purpose, granted[purpose]...)
	}
	must(t, b.as("topics apply"), nil, "topics", "apply")
	must(t, b.as("topics apply"), nil, "topics", "plan")
	must(t, b.as("feed"), nil, "feed", "--generate", "200", "--accounts", "50", "--malformed", "5%")
	r := start(t, b.as("run"), nil, "--group-instance-id", "one")
	r.untilLagIsZero(t, b.as("look"))
	must(t, b.as("look"), nil, "verify")
	must(t, b.as("look"), nil, "tail", "ledger-updates", "--to-end")
	must(t, b.as("look"), nil, "dlq", "list")
	must(t, b.as("look"), nil, "tx", "list")
	must(t, b.as("dlq redrive"), nil, "dlq", "redrive", "--all", "--yes")
	r.untilLagIsZero(t, b.as("look"))
	must(t, b.as("fence"), nil, "fence", "one", "--force")
	r.untilLagIsZero(t, b.as("look"))
	r.drain(t)
	must(t, b.as("fence"), nil, "fence", "one", "--force")
	must(t, b.as("reset apply"), nil, "reset", "apply", "--to", "earliest", "--yes")
	b.losesUnread(t)
	must(t, b.as("reset apply"), nil, "reset", "apply", "--skip-lost", "--yes")
	for _, purpose := range slices.Sorted(maps.Keys(users)) {
		b.wantNoDenial(t, purpose)
	}
}
