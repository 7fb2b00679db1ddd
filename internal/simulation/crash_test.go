//go:build synctests

package simulation

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/faultnet"
)

// crash is one crash point: what happens to the k-th request that a process sends.
type crash struct {
	mode string
	k    int
	job  jobName
}

// The modes. A process dies before its request is sent, or after the broker acted on it, or stands still there for longer
// than its session and its transaction may last, and then goes on. The last two strike the successor of a process that died
// when its transaction was committed and it did not know: that is, they strike the recovery.
var crashModes = []string{"before", "after", "freeze", "recovery before", "recovery after"}

const crashShards = 2 // worlds of one mode at once

// crashCount counts the runs by the request that was hit.
type crashCount struct {
	mu    sync.Mutex
	runs  map[string]int // by mode
	byKey map[string]int
}

func (c *crashCount) add(mode string, key kmsg.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[mode]++
	c.byKey[key.Name()]++
}

func TestEveryCrashPoint(t *testing.T) { crashEverywhere(t, crashModes, ofLedger) }

// Of two inputs, the modes in which a process dies: what stands still is no other than with one.
func TestEveryCrashPointOfTwoInputs(t *testing.T) {
	crashEverywhere(t, []string{"before", "after", "recovery after"}, ofPairs)
}

// Of two hops, those in which a process dies in the middle of its work, with both stages in one transaction or not.
func TestEveryCrashPointOfTwoHops(t *testing.T) {
	crashEverywhere(t, []string{"before", "after"}, ofHops)
}

func crashEverywhere(t *testing.T, modes []string, of jobName) {
	began := time.Now()
	count := &crashCount{runs: map[string]int{}, byKey: map[string]int{}}
	only := envInt("K", 0)
	t.Run("points", func(t *testing.T) {
		for _, mode := range modes {
			for shard := range crashShards {
				t.Run(fmt.Sprintf("%s/%d", mode, shard), func(t *testing.T) {
					t.Parallel()
					if m := os.Getenv("MODE"); m != "" && m != mode {
						return
					}
					if only > 0 {
						(crash{mode, only, of}).test(t, count)
						return
					}
					for k := 1 + shard; (crash{mode, k, of}).test(t, count); k += crashShards {
					}
				})
			}
		}
	})
	total := 0
	for _, n := range count.runs {
		total += n
	}
	if only == 0 && os.Getenv("MODE") == "" && !t.Failed() {
		for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.OffsetFetch, kmsg.Fetch, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat} {
			if count.byKey[key.Name()] == 0 {
				t.Errorf("no crash at %s: the workload does not reach it", key.Name())
			}
		}
	}
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(count.byKey)) {
		keys = append(keys, fmt.Sprintf("%s=%d", k, count.byKey[k]))
	}
	t.Logf("%d crash points in %s: %v; by request: %s", total, time.Since(began).Round(time.Millisecond), count.runs, strings.Join(keys, ", "))
}

func (c crash) repeat() string {
	return fmt.Sprintf("MODE='%s' K=%d go test -tags synctests -run '%s$' -count=20 -failfast ./internal/simulation", c.mode, c.k, c.name())
}

// name is the name of the test that runs it.
func (c crash) name() string {
	return c.job.test("TestEveryCrashPoint")
}

// test runs one crash point in a bubble of its own. It reports whether the process sent a k-th request at all.
func (c crash) test(t *testing.T, count *crashCount) (hit bool) {
	dir := evidence(strings.ReplaceAll(fmt.Sprintf("crash-%s-%s-%d", c.name(), c.mode, c.k), " ", "-"))
	stop := guard(worldPatience, dir, c.repeat())
	defer stop()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(jobOf(c.job), t, 3, 2, newJournal())
		w.pace = 0
		w.clientLogs = os.Getenv("TRACE") != ""
		key := c.run(w)
		if hit = key >= 0; hit {
			count.add(c.mode, key)
		}
		if v := w.verdict(); v != "" || os.Getenv("KEEP") != "" {
			w.keep(dir)
			if v != "" {
				t.Errorf("%s the %d-th request (%s): %s\nrepeat: %s\nschedule, history and logs: %s", c.mode, c.k, key.Name(), v, c.repeat(), dir)
			}
		}
	})
	return hit && !t.Failed()
}

// crashWindow is how long, in fake time, the process may take to send its k-th request: it has settled by then.
const crashWindow = 2 * time.Second

// run returns the key of the request that was hit, -1 if none was.
func (c crash) run(w *world) (key kmsg.Key) {
	w.feeder.orders <- 120
	struck := make(chan kmsg.Key, 1)
	p := w.prepare(0, 1, "")
	if c.recovery() {
		p = w.successor(p)
	}
	p.net.Watch(c.strike(p, struck))
	w.enter(p)
	go func() {
		time.Sleep(300 * time.Millisecond)
		w.feeder.orders <- 60
	}()
	time.Sleep(400 * time.Millisecond)
	w.enter(w.prepare(1, 1, ""))
	select {
	case key = <-struck:
		if c.mode != "freeze" {
			time.Sleep(30 * time.Millisecond)
			w.revive(p)
		}
	case <-time.After(crashWindow):
		key = -1
		p.net.Heal()
	}
	if c.mode == "freeze" && key >= 0 {
		time.Sleep(40 * time.Second)
		p.net.Thaw()
	}
	w.finish(60)
	w.judge()
	w.close()
	return key
}

func (c crash) recovery() bool { return strings.HasPrefix(c.mode, "recovery") }

// successor lets a process die at its third commit, whose answer is lost, and prepares the next incarnation.
func (w *world) successor(p *process) *process {
	sprung := make(chan struct{})
	p.net.Arm(&faultnet.Rule{Name: "kill", Key: kmsg.EndTxn, Skip: 2, Left: 1, Order: faultnet.Order{Deed: faultnet.DropResponse, Then: func() { p.kill(); close(sprung) }}})
	p.start()
	for range 20 {
		w.feeder.orders <- 10
		select {
		case <-sprung:
			return w.prepare(0, 1, p.dir)
		case <-time.After(200 * time.Millisecond):
		}
	}
	w.fail("no third commit")
	p.kill()
	return w.prepare(0, 1, p.dir)
}

func (c crash) strike(p *process, struck chan<- kmsg.Key) func(faultnet.Request) faultnet.Order {
	return func(r faultnet.Request) faultnet.Order {
		if r.N != c.k {
			return faultnet.Order{}
		}
		o := faultnet.Order{Then: func() { p.kill(); struck <- r.Key }}
		switch c.mode {
		case "before", "recovery before":
			o.Deed = faultnet.DropRequest
		case "after", "recovery after":
			o.Deed = faultnet.DropResponse
		default:
			o.Then = func() { p.net.Freeze(); struck <- r.Key }
		}
		return o
	}
}
