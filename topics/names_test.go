package topics_test

import (
	"strings"
	"testing"

	"github.com/tallystick/tallystick/topics"
)

func TestCheckNameRefusesWhatKafkaRefuses(t *testing.T) {
	for name, ok := range map[string]bool{
		"credit-events": true, "A.b_c-9": true, strings.Repeat("x", 249): true, "...": true,
		"": false, ".": false, "..": false, "a b": false, "a/b": false, "é": false, "a\x00": false, strings.Repeat("x", 250): false,
	} {
		if err := topics.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: got %v, want ok=%v", name, err, ok)
		}
	}
}

func TestNamesAreFrozen(t *testing.T) {
	if got := topics.StateTopic("bank", "post"); got != "bank-post-state" {
		t.Error(got)
	}
	if got := topics.DeadLetters("bank"); got != "bank-dead-letters" {
		t.Error(got)
	}
}

func TestRepartitionTopicTellsItsStage(t *testing.T) {
	for topic, want := range map[string]string{
		"bank-post-repartition": "post", "bank-eu-post-repartition": "eu-post", "bank-a-repartition-repartition": "a-repartition",
		"bank-repartition": "", "bank--repartition": "", "bankers-post-repartition": "", "post-repartition": "", "bank-post-state": "", "": "",
	} {
		if stage, ok := topics.RepartitionOf("bank", topic); ok != (want != "") || ok && stage != want {
			t.Errorf("%q: %q, %v, want %q", topic, stage, ok, want)
		}
	}
}
