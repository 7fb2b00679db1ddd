package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/internal/devbroker"
	"github.com/tallystick/tallystick/topics"
)

func emptyBroker(t *testing.T) *devbroker.Broker {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestTopicsPlanAndApplyExitCodes(t *testing.T) {
	b := emptyBroker(t)
	for _, step := range []struct {
		args   []string
		code   exitCode
		stdout string
	}{
		{[]string{"topics", "plan", "--partitions", "6"}, exitUsage, "credit-events        input         create  6           broker's default"},
		{[]string{"topics", "plan", "--partitions", "6"}, exitUsage, "create  ledger-post-state: cleanup.policy=compact"}, // plan changed nothing
		{[]string{"topics", "apply", "--partitions", "6"}, exitOK, "created  6           1"},
		{[]string{"topics", "plan"}, exitOK, "warn    credit-events, ledger-updates, ledger-skipped, ledger-post-state, ledger-dead-letters: replication.factor: 1: "},
		{[]string{"topics", "apply"}, exitOK, "ledger-post-state"},
		{[]string{"topics", "plan", "--production"}, exitFailed, "refuse  credit-events, ledger-updates, ledger-skipped, ledger-post-state, ledger-dead-letters: replication.factor"},
	} {
		out, errs, code := processor(t, b, "", step.args...)
		if code != step.code || !strings.Contains(out, step.stdout) {
			t.Errorf("%q exits %d, want %d and %q:\n%s%s", step.args, code, step.code, step.stdout, out, errs)
		}
		if (code == exitFailed) != strings.Contains(errs, "error: ") {
			t.Errorf("%q prints on stderr: %s", step.args, errs)
		}
	}
}

func TestTopicsPlanSaysWhyItExits2(t *testing.T) {
	b := emptyBroker(t)
	for _, format := range []string{"table", "json"} {
		if _, errs, code := processor(t, b, "", "topics", "plan", "-o", format); code != exitUsage || errs != "5 topics are missing: processor topics apply creates them\n" {
			t.Errorf("-o %s: exit %d: %q", format, code, errs)
		}
	}
}

func TestTopicsPlanAsJSON(t *testing.T) {
	b := emptyBroker(t)
	out, _, code := processor(t, b, "", "topics", "plan", "-o", "json")
	var steps topics.Steps
	if err := json.Unmarshal([]byte(out), &steps); err != nil || code != exitUsage {
		t.Fatalf("exit %d: %v in %s", code, err, out)
	}
	if len(steps) != 5 || len(steps.Pending()) != 5 || steps[0].Topic != credits || steps[0].Config["message.timestamp.after.max.ms"] != "3600000" {
		t.Errorf("%+v", steps)
	}
}

func TestTopicsRefuseWithReasonsAndCreateNothing(t *testing.T) {
	b := emptyBroker(t)
	if err := b.Cluster().CreateTopic("ledger-post-state", 4, map[string]string{"cleanup.policy": "delete"}); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"plan", "apply"} {
		_, errs, code := processor(t, b, "", "topics", verb)
		if strings.Contains(errs, "nothing was created") != (verb == "apply") {
			t.Errorf("%s says %s", verb, errs)
		}
		if code != exitFailed || !strings.Contains(errs, "topic ledger-post-state: cleanup.policy: delete: retention would delete state") || !strings.Contains(errs, "hint: ") {
			t.Errorf("%s exits %d: %s", verb, code, errs)
		}
	}
	if b.Cluster().TopicInfo(credits) != nil {
		t.Error("apply created a topic although one is refused")
	}
	_, errs, code := processor(t, b, "", "topics", "plan", "--dedupe-window", "1d", "--application-id", "other")
	if code != exitFailed || !strings.Contains(errs, "redelivery.horizon") {
		t.Errorf("a short window: exit %d: %s", code, errs)
	}
	if _, _, code := processor(t, b, "", "topics", "plan", "--dedupe-window", "1d", "--redelivery-horizon", "1d", "--application-id", "other"); code != exitUsage {
		t.Errorf("a declared horizon: exit %d", code)
	}
}

func TestTopicsUsage(t *testing.T) {
	b := emptyBroker(t)
	for _, args := range [][]string{{"topics", "plan", "--partitions", "0"}, {"topics", "plan", "x"}, {"topics", "plna"}} {
		if _, errs, code := processor(t, b, "", args...); code != exitUsage {
			t.Errorf("%q exits %d: %s", args, code, errs)
		}
	}
}

func TestTopicsSayThatNobodyAnswers(t *testing.T) {
	b := emptyBroker(t)
	b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, verb := range []string{"plan", "apply"} {
		c, _, stderr := newTestCLI("PROCESSOR_BOOTSTRAP_SERVERS=" + b.String())
		if code := c.execute(ctx, []string{"topics", verb}); code != exitUnavailable {
			t.Errorf("exit %d: %s", code, stderr)
		}
	}
}
