//go:build synctests

package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// A task that nobody has processed before commits its start together with a marker, before its first record: else a crash
// before the first commit would start over, and under auto.offset.reset=latest skip input.
func TestStartIsCommittedBeforeAnyRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, newJournal())
		w.enter(w.prepare(0, 2, ""))
		time.Sleep(5 * time.Second)
		offsets, err := kadm.NewClient(w.admin).FetchOffsets(w.ctx, app)
		if err != nil {
			t.Fatal(err)
		}
		for p := range int32(partitions) {
			if o, ok := offsets.Lookup(inputTopic, p); !ok || o.At != 0 || o.Metadata == "" {
				t.Errorf("partition %d: committed %v, metadata %q: want offset 0 with a proof", p, o.At, o.Metadata)
			}
		}
		w.finish(0)
		w.judge()
		w.close()
		if v := w.verdict(); v != "" {
			t.Error(v)
		}
	})
}
