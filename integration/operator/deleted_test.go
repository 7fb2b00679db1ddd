package operator

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// Somebody deletes a topic in the midst of the transactions that write it. The job ends and names it, whether a record, a commit or
// the look for the topic met it first; the rest of the transaction is not committed, and the next start goes on behind the last one.
func TestATopicThatIsDeletedWhileItIsWrittenEndsTheJobByName(t *testing.T) {
	for _, topic := range []string{updates, letters} {
		t.Run(topic, func(t *testing.T) {
			d := newDesk(t, kafkatest.Options{})
			i := d.start(t, "pod-0")
			d.must(t, "feed", "--generate", "500", "--seed", "1", "--malformed", "10%")
			d.awaitLagZero(t)
			fed := make(chan result, 1)
			go func() {
				fed <- d.run(t, "feed", "--generate", "3000", "--rate", "1000", "--seed", "2", "--malformed", "10%")
			}()
			if _, err := kadm.NewClient(d.client).DeleteTopics(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
			kafkatest.Within(t, 40*time.Second, "the job ends", func(ctx context.Context) error {
				select {
				case <-i.Done():
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if r := <-fed; r.code != 0 {
				t.Fatal(r)
			}
			result{errs: i.said(), code: i.ExitCode()}.says(t, 4, "topics do not exist: "+topic, "processor topics plan")

			d.must(t, "topics", "apply")
			d.process(t)
			d.must(t, "feed", "--generate", "100", "--seed", "3")
			d.process(t)
			if topic == letters { // what is gone with the topic is gone; the rest of the books is whole
				d.run(t, "verify").says(t, 3, "lost")
				return
			}
			if n := d.count(t, updates); n < 100 {
				t.Errorf("%d updates behind the deletion, want those of the last feed at least", n)
			}
		})
	}
}
