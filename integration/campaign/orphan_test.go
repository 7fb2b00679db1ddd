package campaign

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

// Between the two phases of a cooperative rebalance the tasks that move are nobody's. Who would have asked for the second phase
// is killed there and started again under its name: a group of static members then gets what is stored, without a rebalance.
func TestTasksThatMovedWhenEverybodyWasKilledAreGivenOutAgain(t *testing.T) {
	k := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort})
	cl := kafkatest.Client(t, k.Seeds(), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	r := &round{kafka: k, client: cl, adm: kadm.NewClient(cl), command: jobtest.Build(t, k.Seeds()), books: newBooks(t, 1)}
	kafkatest.CreateTopic(t, cl, input, partitions, "message.timestamp.after.max.ms", "9223372036854775807")
	kafkatest.CreateTopic(t, cl, journal, 1)
	r.command.MustRun(t, patience, "topics", "apply", "--topics-allow", allowed)
	r.commits = commits{jobtest.FollowCommits(t, k.Seeds())}
	door := k.Door(t, "p1")
	first := newInstance(t, r.command, "p1", door, "--num-stream-threads", "1")
	second := newInstance(t, r.command, "p2", k.Door(t, "p2"), "--num-stream-threads", "1")
	r.all = []*instance{first, second}
	r.up = startUpstream(t, k.Seeds(), r.books, 1)
	first.start(t)
	r.awaitRecovery(t, time.Now())

	held := door.Inject(kafkatest.Fault{Key: kmsg.JoinGroup, Deed: kafkatest.Hang, Skip: 1}) // phase one passes
	second.start(t)
	kafkatest.Within(t, patience, "the second phase is asked for", func(context.Context) error {
		if held.Hits() == 0 {
			return fmt.Errorf("not yet: %s", r.group(t))
		}
		return nil
	})
	t.Log(r.group(t))
	first.kill()
	second.kill()
	door.Heal()
	again := time.Now()
	first.start(t)
	second.start(t)
	t.Logf("all partitions committed %v after the start", r.awaitRecovery(t, again).Sub(again).Round(time.Millisecond))
}
