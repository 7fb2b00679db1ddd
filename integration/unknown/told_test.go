package unknown

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// told is what the members of a churn have told, counted.
type told struct {
	commits, aborts, rebuilds, fenced int
	crashed, asleep                   int       // orders carried out, in an open transaction
	byProof, toTheEnd                 durations // of restores: proven below an open transaction; read to the high watermark
}

type durations []time.Duration

func (d durations) n() int { return len(d) }

// at is the duration that a fraction of them stays within.
func (d durations) at(fraction float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(fraction*float64(len(d))))].Round(time.Millisecond)
}

func (d durations) String() string {
	return fmt.Sprintf("%d (p50 %v, p99 %v, max %v)", len(d), d.at(0.5), d.at(0.99), d.at(1))
}

func (x told) String() string {
	return fmt.Sprintf("in an open transaction %d crashed and %d fell asleep; commits %d, aborts %d, rebuilds %d, transactions of others fenced %d; restores ended by proof %s, at the high watermark %s",
		x.crashed, x.asleep, x.commits, x.aborts, x.rebuilds, x.fenced, x.byProof, x.toTheEnd)
}

// told counts, and fails the test where a member found an invariant violated or stopped a task.
func (c *churn) told(t *testing.T) (x told) {
	t.Helper()
	for _, m := range c.members {
		for _, h := range m.diary.since(0) {
			switch h.What {
			case "committed":
				x.commits++
			case "aborted":
				x.aborts++
			case "rebuilt":
				x.rebuilds++
			case "fenced":
				x.fenced++
			case orderDie:
				x.crashed++
			case orderFreeze:
				x.asleep++
			case "restored":
				if h.ByProof {
					x.byProof = append(x.byProof, h.Took)
				} else {
					x.toTheEnd = append(x.toTheEnd, h.Took)
				}
			case "violated", "stopped":
				t.Errorf("%s %s %s: %s", m.settings.Name, h.What, h.Task, h.Cause)
			}
		}
	}
	return x
}
