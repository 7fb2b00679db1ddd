package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

func purposeNamed(t *testing.T, name string) purpose {
	t.Helper()
	i := slices.IndexFunc(purposes, func(p purpose) bool { return p.name == name })
	if i < 0 {
		t.Fatal(name)
	}
	return purposes[i]
}

// A role that is added to topics and forgotten here would be a right that shows as missing on a secured cluster only.
func TestEveryRoleOfATopicHasRights(t *testing.T) {
	source, err := os.ReadFile("../../topics/want.go")
	if err != nil {
		t.Fatal(err)
	}
	roles := regexp.MustCompile(`Role\w+ Role = "([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(roles) < 5 {
		t.Fatalf("roles %v", roles)
	}
	for _, name := range []string{"run", "topics apply", "look"} {
		for _, r := range roles {
			if g := purposeNamed(t, name).grants("app", []topics.Want{{Name: "t", Role: topics.Role(r[1])}}); len(g) == 0 || g[0].Name != "t" {
				t.Errorf("%s knows no rights for a topic as %s", name, r[1])
			}
		}
	}
}

func TestRightsFollowFromThePipeline(t *testing.T) {
	p := pipeline.New("shop")
	in := topics.Topic[string, string]{Name: "orders", Key: record.String, Value: record.String}
	from, to := p.Stage("split"), p.Stage("count")
	again := pipeline.NewRepartition(to, record.String, record.String)
	out := pipeline.NewOutput(from, again)
	pipeline.Handle(from, in, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		out.Send(c, r.Key, r.Value)
		return nil
	})
	back := pipeline.NewOutput(to, in)
	pipeline.Handle(to, again, func(c *pipeline.Ctx, r pipeline.Record[string, string]) error {
		back.Send(c, r.Key, r.Value)
		return nil
	})
	got := map[string]string{}
	for _, g := range purposeNamed(t, "run").grants(p.App(), p.Topics()) {
		slices.Sort(g.Operations)
		got[g.Type+" "+g.Name+" "+g.Pattern] = strings.Join(g.Operations, " ")
	}
	for resource, ops := range map[string]string{
		"topic orders literal": "DESCRIBE_CONFIGS READ WRITE", "topic shop-count-repartition literal": "DELETE DESCRIBE_CONFIGS READ WRITE",
		"topic shop-split-state literal": "DESCRIBE_CONFIGS READ WRITE", "topic shop-count-state literal": "DESCRIBE_CONFIGS READ WRITE",
		"topic shop-dead-letters literal": "DESCRIBE_CONFIGS WRITE", "group shop literal": "READ", "transactional-id shop- prefixed": "WRITE",
	} {
		if got[resource] != ops {
			t.Errorf("%s: %q, want %q", resource, got[resource], ops)
		}
		delete(got, resource)
	}
	if len(got) > 0 {
		t.Errorf("and %v", got)
	}
}

// What replaces or resends needs its own rights, and no wider ones.
func TestRightsOfResetAndRedrive(t *testing.T) {
	for purpose, want := range map[string]string{
		"reset apply": "topic ledger-post-state literal READ WRITE CREATE DELETE DESCRIBE_CONFIGS",
		"dlq redrive": "transactional-id ledger-redrive literal WRITE",
	} {
		cli, stdout, _ := newTestCLI()
		cli.execute(t.Context(), []string{"acls", "--for", purpose, "-o", "json"})
		var grants []grant
		if err := json.Unmarshal(stdout.Bytes(), &grants); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, g := range grants {
			found = found || strings.Join(append([]string{g.Type, g.Name, g.Pattern}, g.Operations...), " ") == want
		}
		if !found {
			t.Errorf("%s: no %q in %s", purpose, want, stdout)
		}
	}
}

func TestACLsPrintsTablesJSONAndCommands(t *testing.T) {
	cli, stdout, stderr := newTestCLI()
	if code := cli.execute(t.Context(), []string{"acls", "--for", "fence", "-o", "json"}); code != exitOK {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	var grants []grant
	if err := json.Unmarshal(stdout.Bytes(), &grants); err != nil || len(grants) != 2 {
		t.Errorf("%v: %s", err, stdout)
	}
	cli, stdout, _ = newTestCLI()
	cli.execute(t.Context(), []string{"acls", "--for", "run", "--commands", "--principal", "User:CN=it's me", "--host", "10.0.0.7"})
	const line = `kafka-acls.sh --bootstrap-server 'localhost:9092' --command-config admin.properties --add --allow-principal 'User:CN=it'\''s me' --allow-host '10.0.0.7' --operation Write --operation DescribeConfigs --topic 'ledger-updates' --resource-pattern-type literal`
	const txn = `--operation Write --transactional-id 'ledger-' --resource-pattern-type prefixed`
	if !strings.Contains(stdout.String(), line) || !strings.Contains(stdout.String(), txn) {
		t.Errorf("got %s", stdout)
	}
	for _, args := range [][]string{{"--for", "nothing"}, {"--commands", "-o", "json"}} {
		cli, _, stderr := newTestCLI()
		if code := cli.execute(t.Context(), append([]string{"acls"}, args...)); code != exitUsage || !strings.Contains(stderr.String(), "hint: ") {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}
