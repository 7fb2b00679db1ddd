//go:build synctests

package simulation

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/faultnet"
)

// fault is a kind of fault. do may take fake time; what it arms stays armed for a while.
type fault struct {
	name string
	do   func(w *world, p *process)
	rule string // name of the rule that it arms, "" if none
}

// faults are all kinds. The order is part of what a seed means.
func faults() []fault {
	return []fault{
		{"kill", killNow, ""},
		{"kill at a step", killAtStep, ""},
		{"kill at a request", killAtRequest, "kill"},
		{"kill, late request", killWithLateRequest, "late after kill"},
		{"freeze", freezeNow, ""},
		{"freeze before the commit", freezeAtStep, ""},
		{"scale", scale, ""},
		{"rebalance storm", storm, ""},
		{"leaders move", func(w *world, _ *process) { w.cluster.ShufflePartitionLeaders() }, ""},
		{"coordinators move", func(w *world, _ *process) { w.cluster.RehashCoordinators() }, ""},
		{"EndTxn answer lost", lose("EndTxn answer", kmsg.EndTxn, faultnet.DropResponse), "EndTxn answer"},
		{"EndTxn lost", lose("EndTxn", kmsg.EndTxn, faultnet.DropRequest), "EndTxn"},
		{"TxnOffsetCommit answer lost", lose("TxnOffsetCommit answer", kmsg.TxnOffsetCommit, faultnet.DropResponse), "TxnOffsetCommit answer"},
		{"TxnOffsetCommit lost", lose("TxnOffsetCommit", kmsg.TxnOffsetCommit, faultnet.DropRequest), "TxnOffsetCommit"},
		{"Produce answer lost", lose("Produce answer", kmsg.Produce, faultnet.DropResponse), "Produce answer"},
		{"Produce lost", lose("Produce", kmsg.Produce, faultnet.DropRequest), "Produce"},
		{"InitProducerID answer lost", loseAtStart("InitProducerID answer", kmsg.InitProducerID, faultnet.DropResponse), "InitProducerID answer"},
		{"InitProducerID lost", loseAtStart("InitProducerID", kmsg.InitProducerID, faultnet.DropRequest), "InitProducerID"},
		{"EndTxn answers lost for long", loseAllEnds, "EndTxn answers"},
		{"EndTxn late", lateEnd, "EndTxn late"},
		{"EndTxn hangs", lose("EndTxn hang", kmsg.EndTxn, faultnet.Hang), "EndTxn hang"},
		{"EndTxn applied, answered unknown", appliedButUnknown, "EndTxn unknown"},
		{"EndTxn answered with an error", refuseEnd, ""},
		{"TxnOffsetCommit answered with an error", refuseOffsets, ""},
		{"Produce answered with an error", refuseProduce, ""},
		{"InitProducerID answered with an error", refuseInit, ""},
		{"record too large", tooLarge, ""},
		{"member unknown", memberUnknown, ""},
		{"member unknown in a transaction", memberUnknownInTransaction, "Produce late"},
		{"unreachable", unreachable, ""},
		{"marker late", lateMarker, ""},
		{"restore interrupted", interruptRestore, ""},
	}
}

// oneOf chooses by the world's seed.
func oneOf[T any](w *world, of ...T) T { return of[w.rng.IntN(len(of))] }

func killNow(w *world, p *process) {
	p.kill()
	if w.rng.IntN(2) == 0 {
		w.sleep(20 * time.Second)
	}
	w.revive(p)
}

// await waits until a trap went off, or kills the process after a while.
func await(p *process, sprung <-chan struct{}) {
	select {
	case <-sprung:
	case <-p.done:
	case <-time.After(20 * time.Second):
	}
	p.kill()
}

func killAtStep(w *world, p *process) {
	step := oneOf(w, "produced", "produced", "committed", "aborted")
	sprung := make(chan struct{})
	var once sync.Once
	trap := func(at string) {
		if at == step {
			once.Do(func() { p.kill(); close(sprung) })
		}
	}
	p.hold.Store(&trap)
	await(p, sprung)
	w.revive(p)
}

func killAtRequest(w *world, p *process) {
	key := oneOf(w, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.EndTxn, kmsg.Heartbeat, kmsg.Fetch, kmsg.InitProducerID, kmsg.JoinGroup)
	sprung := make(chan struct{})
	var once sync.Once
	p.net.Arm(&faultnet.Rule{Name: "kill", Key: key, Skip: w.rng.IntN(3), Left: 1, Order: faultnet.Order{
		Deed: oneOf(w, faultnet.Pass, faultnet.DropResponse), Then: func() { once.Do(func() { p.kill(); close(sprung) }) },
	}})
	await(p, sprung)
	w.revive(p)
}

// killWithLateRequest kills a process whose last request sits in a socket and reaches the broker when its successor works.
func killWithLateRequest(w *world, p *process) {
	key := oneOf(w, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn)
	sprung := make(chan struct{})
	var once sync.Once
	late := time.Duration(w.rng.IntN(6000)) * time.Millisecond
	p.net.Arm(&faultnet.Rule{Name: "late after kill", Key: key, Skip: w.rng.IntN(3), Left: 1, Order: faultnet.Order{
		Deed: faultnet.DelayRequest, Delay: late, Then: func() {
			once.Do(func() {
				go func() {
					time.Sleep(time.Millisecond)
					p.kill()
					close(sprung)
				}()
			})
		},
	}})
	await(p, sprung)
	w.revive(p)
}

func freezeNow(w *world, p *process) {
	p.net.Freeze()
	time.Sleep(time.Duration(5+w.rng.IntN(40)) * time.Second)
	p.net.Thaw()
}

// freezeAtStep makes a zombie: the worker stands still between flush and commit for longer than session and transaction.
func freezeAtStep(w *world, p *process) {
	sprung := make(chan struct{})
	trap := freezeTrap(p, time.Duration(11+w.incarnations%3*15)*time.Second, sprung)
	p.hold.Store(&trap)
	select {
	case <-sprung:
		time.Sleep(45 * time.Second)
	case <-time.After(20 * time.Second):
	}
	p.hold.Store(nil)
}

// freezeTrap freezes a process when one of its workers has produced, and holds that worker for so long. The others go on, as far
// as they get: a sync.Once would have them wait in a mutex, which stops the clock that the first one sleeps by.
func freezeTrap(p *process, long time.Duration, sprung chan<- struct{}) func(step string) {
	var taken atomic.Bool
	return func(step string) {
		if step != "produced" || !taken.CompareAndSwap(false, true) {
			return
		}
		p.net.Freeze()
		close(sprung)
		time.Sleep(long)
		p.net.Thaw()
	}
}

func scale(w *world, p *process) {
	if len(w.slots) > 1 && w.rng.IntN(2) == 0 {
		w.remove(p)
		p.leave()
		return
	}
	if len(w.slots) < 4 {
		w.launch(w.freeSlot())
	}
}

// storm goes to four processes, to one, and to two, with little time in between.
func storm(w *world, _ *process) {
	for len(w.slots) < 4 {
		w.launch(w.freeSlot())
		w.sleep(2 * time.Second)
	}
	for len(w.slots) > 1 {
		p := w.slots[w.rng.IntN(len(w.slots))]
		w.remove(p)
		p.leave()
		w.sleep(2 * time.Second)
	}
	w.launch(w.freeSlot())
}

func lose(name string, key kmsg.Key, d faultnet.Deed) func(*world, *process) {
	return func(w *world, p *process) {
		p.net.Arm(&faultnet.Rule{Name: name, Key: key, Skip: w.rng.IntN(2), Left: 1 + w.rng.IntN(3), Order: faultnet.Order{Deed: d}})
	}
}

// loseAtStart restarts the process, because it sends such requests only when a session opens.
func loseAtStart(name string, key kmsg.Key, d faultnet.Deed) func(*world, *process) {
	return func(w *world, p *process) {
		p.kill()
		w.revive(p)
		lose(name, key, d)(w, w.all[len(w.all)-1])
	}
}

func loseAllEnds(w *world, p *process) {
	r := &faultnet.Rule{Name: "EndTxn answers", Key: kmsg.EndTxn, Left: 1000, Order: faultnet.Order{Deed: faultnet.DropResponse}}
	p.net.Arm(r)
	time.Sleep(30 * time.Second)
	p.net.Disarm(r)
}

func lateEnd(w *world, p *process) {
	late := time.Duration(8+w.rng.IntN(25)) * time.Second
	p.net.Arm(&faultnet.Rule{Name: "EndTxn late", Key: kmsg.EndTxn, Left: 1, Order: faultnet.Order{Deed: faultnet.DelayRequest, Delay: late}})
}

// appliedButUnknown makes the session return (false, nil) for a transaction that committed.
func appliedButUnknown(w *world, p *process) {
	p.net.Arm(&faultnet.Rule{Name: "EndTxn unknown", Key: kmsg.EndTxn, Skip: w.rng.IntN(3), Left: 1, Order: faultnet.Order{Deed: faultnet.AnswerError, Code: kerr.UnknownServerError.Code}})
}

// ours limits an injected error to the job: upstream has its own.
func ours(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.EndTxnRequest:
		return r.TransactionalID != upstreamID
	case *kmsg.InitProducerIDRequest:
		return r.TransactionalID != nil && *r.TransactionalID != upstreamID
	case *kmsg.ProduceRequest:
		return r.TransactionID != nil && *r.TransactionID != upstreamID
	}
	return true
}

func refuseEnd(w *world, p *process) {
	err := oneOf(w, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions, kerr.UnknownServerError, kerr.CoordinatorNotAvailable)
	w.inject(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: err, Count: 1 + w.rng.IntN(3), When: ours})
}

func refuseOffsets(w *world, p *process) {
	err := oneOf(w, kerr.NotCoordinator, kerr.RequestTimedOut, kerr.ConcurrentTransactions, kerr.IllegalGeneration, kerr.UnknownMemberID)
	w.inject(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: err, Count: 1})
}

func refuseProduce(w *world, p *process) {
	err := oneOf(w, kerr.NotLeaderForPartition, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.NotEnoughReplicas)
	w.inject(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: oneOf(w, w.job.output, w.job.state), Err: err, Count: 1 + w.rng.IntN(4), When: ours})
}

func refuseInit(w *world, p *process) {
	err := oneOf(w, kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress)
	w.inject(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: err, Count: 1 + w.rng.IntN(3), When: ours})
	p.kill()
	w.revive(p)
}

// tooLarge refuses one record, once in a world: the engine blames an input that is refused twice.
func tooLarge(w *world, p *process) {
	if w.refusals++; w.refusals > 1 {
		return
	}
	w.inject(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: oneOf(w, w.job.output, w.job.state), Err: kerr.MessageTooLarge, Count: 1, When: ours})
}

func memberUnknown(w *world, p *process) {
	w.inject(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: oneOf(w, kerr.UnknownMemberID, kerr.IllegalGeneration), Count: 1})
}

// memberUnknownInTransaction has the group forget a member whose transaction waits for a late produce.
func memberUnknownInTransaction(w *world, p *process) {
	p.net.Arm(&faultnet.Rule{Name: "Produce late", Key: kmsg.Produce, Left: 1, Order: faultnet.Order{
		Deed: faultnet.DelayRequest, Delay: time.Duration(3500+w.rng.IntN(4000)) * time.Millisecond,
		Then: func() {
			p.net.Arm(&faultnet.Rule{Name: "Heartbeat unknown", Key: kmsg.Heartbeat, Left: 1, Order: faultnet.Order{Deed: faultnet.AnswerError, Code: kerr.UnknownMemberID.Code}})
		},
	}})
}

// inject remembers injected errors, so that those that met nothing end with the faults.
func (w *world) inject(f kfake.Fault) { w.injected = append(w.injected, w.cluster.Fault(f)) }

func unreachable(w *world, p *process) {
	p.net.Down()
	w.sleep(30 * time.Second)
	p.net.Up()
}

// lateMarker restarts a process on brokers whose state partitions have not got the last markers yet.
func lateMarker(w *world, p *process) {
	p.kill()
	w.revive(p)
	next := w.all[len(w.all)-1]
	next.net.Lag.Set(int64(1 + w.rng.IntN(40)))
	time.Sleep(time.Duration(1000+w.rng.IntN(5000)) * time.Millisecond)
	next.net.Lag.Set(0)
}

// interruptRestore makes the state topic slow for a restarted process, and moves its tasks away while it restores.
func interruptRestore(w *world, p *process) {
	p.kill()
	w.revive(p)
	next := w.all[len(w.all)-1]
	next.net.Lag.Set(int64(5 + w.rng.IntN(40)))
	time.Sleep(time.Duration(100+w.rng.IntN(1500)) * time.Millisecond)
	if len(w.slots) < 4 {
		w.launch(w.freeSlot())
	}
	if w.rng.IntN(2) == 0 {
		next.kill()
		w.revive(next)
	}
	w.sleep(3 * time.Second)
	next.net.Lag.Set(0)
}
