package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/topics"
)

func TestTopologyNeedsNoBrokerAndShowsWhatStateDependsOn(t *testing.T) {
	c, stdout, stderr := newTestCLI()
	if code := c.execute(t.Context(), []string{"topology", "--application-id", "bank", "--dedupe-window", "7d"}); code != exitOK {
		t.Fatal(stderr)
	}
	for _, want := range []string{
		"Topologies:\n   Sub-topology: 0\n", "(topics: [credit-events])",
		"accounts  post   table   string  json   -         bank-post-state\n",
		"inbox     post   dedupe  -       -      168h0m0s  bank-post-state\n",
		"bank-dead-letters  dead letters  post\n",
		"\nfingerprint\nstage post partitions=? inputs=credit-events\nstore accounts table key=string value=json window=-\nstore inbox dedupe key=- value=- window=168h0m0s\n",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// The fingerprint must be the one that markers hold: what is compared before a deployment is what run will compare.
func TestTopologyPrintsTheFingerprintOfTheMarkers(t *testing.T) {
	c, stdout, stderr := newTestCLI()
	if code := c.execute(t.Context(), []string{"topology", "-o", "json", "--partitions", "6"}); code != exitOK {
		t.Fatal(stderr)
	}
	var got topologyView
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	s, err := loadConfig(t, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := s.job().Stages()[0].Fingerprint(6); got.Stages[0].Fingerprint != want {
		t.Errorf("%q, want %q", got.Stages[0].Fingerprint, want)
	}
	i := slices.IndexFunc(got.Topics, func(x topologyTopic) bool { return slices.Contains(x.Roles, string(topics.RoleState)) })
	if i < 0 || got.Topics[i].Topic != got.Stages[0].StateTopic || got.Stages[0].Partitioner != "murmur2" {
		t.Errorf("%+v", got)
	}
	if code := c.execute(t.Context(), []string{"topology", "--partitions", "-1"}); code != exitUsage {
		t.Errorf("-1 partitions: exit %d", code)
	}
}
