package operator

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// What topology prints without a broker is what the job has written to one: its topics, and the fingerprint in its markers.
func TestTopologyIsWhatTheJobWrites(t *testing.T) {
	d := newDesk(t, kafkatest.Options{})
	var printed struct {
		Topics []struct {
			Topic string
			Roles []string
		}
		Stages []struct {
			StateTopic  string `json:"state_topic"`
			Fingerprint string
		}
	}
	if err := json.Unmarshal([]byte(d.must(t, "topology", "--partitions", "4", "-o", "json").out), &printed); err != nil {
		t.Fatal(err)
	}
	for _, topic := range printed.Topics {
		d.run(t, "tail", topic.Topic, "--to-end").says(t, 0)
	}
	d.must(t, "feed", "--generate", "50", "--seed", "3")
	d.process(t)
	state := d.must(t, "tail", printed.Stages[0].StateTopic, "--to-end", "-f", "%v\n").out
	if !strings.Contains(state, printed.Stages[0].Fingerprint) {
		t.Errorf("no marker of %s holds\n%s", printed.Stages[0].StateTopic, printed.Stages[0].Fingerprint)
	}
}
