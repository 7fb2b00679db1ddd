package campaign

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

func networkKinds() []kind {
	return []kind{
		{name: "commit-answer-lost", weight: 1, do: once(kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.DropResponse}),
			expect: "EndTxn is applied and its answer lost"},
		{name: "commit-request-lost", weight: 1, do: once(kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.DropRequest}),
			expect: "EndTxn never arrives"},
		{name: "commit-answers-hang", weight: 1, do: during(kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.HangResponse}),
			expect: "every EndTxn of some seconds is applied and none is answered"},
		{name: "commit-requests-hang", weight: 1, do: during(kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.Hang}),
			expect: "no EndTxn of some seconds arrives, and none is answered"},
		{name: "commit-late", weight: 1, do: once(kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.DelayRequest, Delay: 5 * time.Second}),
			expect: "an EndTxn arrives five seconds late, out of a socket"},
		{name: "commit-too-late", weight: 1, do: commitTooLate,
			expect: "an EndTxn arrives three seconds after the transaction time-out, out of a socket: its worker has fenced it before, and commits in another session"},
		{name: "commit-false-error", weight: 1, do: once(kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.AnswerError, Code: kerr.UnknownServerError.Code}),
			expect: "EndTxn is applied and answered with an error"},
		{name: "offsets-answer-lost", weight: 1, do: once(kafkatest.Fault{Key: kmsg.TxnOffsetCommit, Deed: kafkatest.DropResponse}),
			expect: "TxnOffsetCommit is applied and its answer lost"},
		{name: "produce-lost", weight: 1, do: once(kafkatest.Fault{Key: kmsg.Produce, Deed: kafkatest.DropRequest}),
			expect: "a Produce of the transaction never arrives"},
		{name: "heartbeats-lost", weight: 1, do: heartbeatsLost,
			expect: "no heartbeat arrives for longer than the session: the member is expelled and joins again"},
		{name: "kill-at-step", weight: 3, do: killAtStep,
			expect: "SIGKILL exactly before or after a step of the commit: Produce, TxnOffsetCommit, EndTxn; the same instance goes on in its own place"},
		{name: "net-cut", weight: 1, quick: true, do: cut,
			expect: "all connections of a processor are reset"},
		{name: "net-down", weight: 1, do: through(time.Second, 5*time.Second, (*kafkatest.Proxy).Down),
			expect: "a processor reaches no broker for up to 5 s"},
		{name: "net-requests-stop", weight: 1, do: through(time.Second, 6*time.Second, func(p *kafkatest.Proxy) { p.Freeze(kafkatest.Requests) }),
			expect: "one way: nothing reaches the brokers for up to 6 s, then all of it"},
		{name: "net-answers-stop", weight: 1, do: through(time.Second, 6*time.Second, func(p *kafkatest.Proxy) { p.Freeze(kafkatest.Responses) }),
			expect: "the other way: nothing comes back for up to 6 s, then all of it"},
		{name: "net-silent", weight: 1, do: through(time.Second, 6*time.Second, func(p *kafkatest.Proxy) { p.Freeze(kafkatest.Both) }),
			expect: "both ways: connections stay and nothing passes for up to 6 s, then all of it"},
		{name: "net-slow", weight: 1, do: through(time.Second, 3*time.Second, func(p *kafkatest.Proxy) { p.Delay(150 * time.Millisecond) }),
			expect: "every request takes 150 ms longer for up to 3 s"},
	}
}

// hit waits until a request was hit; a victim without work may send none, and the fault has then met nothing.
func (r *round) hit(t *testing.T, in *kafkatest.Injected, o *outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := kafkatest.Poll(ctx, func(context.Context) error {
		if in.Hits() == 0 {
			return errors.New("no such request yet")
		}
		return nil
	})
	if err != nil {
		o.missed()
	}
}

// once hits one request of a victim.
func once(f kafkatest.Fault) func(*testing.T, *round, *outcome) {
	return func(t *testing.T, r *round, o *outcome) {
		v := r.victim()
		f.Times = 1
		in := v.door.Inject(f)
		r.hit(t, in, o)
		o.now()
		<-time.After(f.Delay)
		v.door.Heal()
		o.say("%s", v.Name)
	}
}

// tooLate is when a commit arrives whose session was given up after the transaction time-out.
const tooLate = transactionTimeout + 3*time.Second

// commitTooLate has missed when the worker did not go on before the request arrived.
func commitTooLate(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	ids := make(chan string, 1)
	in := v.door.Inject(kafkatest.Fault{Key: kmsg.EndTxn, Deed: kafkatest.DelayRequest, Delay: tooLate, Times: 1, If: func(req kmsg.Request) bool {
		end := req.(*kmsg.EndTxnRequest)
		if end.Commit {
			select {
			case ids <- end.TransactionalID:
			default:
			}
		}
		return end.Commit
	}})
	defer v.door.Heal()
	r.hit(t, in, o)
	o.now()
	if in.Hits() == 0 {
		return
	}
	const before = 500 * time.Millisecond
	<-time.After(tooLate - before)
	if id := <-ids; !slices.ContainsFunc(r.commits.after(o.from), func(k jobtest.Commit) bool { return k.Writer == id }) {
		o.missed()
	}
	<-time.After(2 * before)
	o.say("%s", v.Name)
}

// during hits all requests of a victim for some seconds.
func during(f kafkatest.Fault) func(*testing.T, *round, *outcome) {
	return func(t *testing.T, r *round, o *outcome) {
		v := r.victim()
		in := v.door.Inject(f)
		r.hit(t, in, o)
		r.pause(time.Second, 5*time.Second)
		v.door.Heal()
		o.now()
		o.say("%s, %d requests", v.Name, in.Hits())
	}
}

// through does something to a victim's network for a while.
func through(least, most time.Duration, what func(*kafkatest.Proxy)) func(*testing.T, *round, *outcome) {
	return func(t *testing.T, r *round, o *outcome) {
		v := r.victim()
		what(v.door)
		r.pause(least, most)
		v.door.Heal()
		o.now()
		o.say("%s", v.Name)
	}
}

func heartbeatsLost(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	before := r.memberIDs(t, v.Name)
	in := v.door.Inject(kafkatest.Fault{Key: kmsg.Heartbeat, Deed: kafkatest.DropRequest})
	<-time.After(sessionTimeout + time.Second)
	expelled := without(before, r.memberIDs(t, v.Name))
	v.door.Heal()
	o.now()
	if len(expelled) == 0 {
		o.missed()
	}
	o.must(func(ctx context.Context) error { return r.joined(ctx, expelled) })
	o.say("%s, %d heartbeats, %d members", v.Name, in.Hits(), len(expelled))
}

func cut(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	r.awaitOpen(t, v, o)
	o.now()
	v.door.Cut()
	o.say("%s", v.Name)
}

func killAtStep(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	step := []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn}[r.rng.IntN(3)]
	deed, when := kafkatest.DropRequest, "before"
	if r.rng.IntN(2) == 0 {
		deed, when = kafkatest.DropResponse, "after"
	}
	held := r.held(t)
	in := v.door.Inject(kafkatest.Fault{Key: step, Deed: deed, Times: 1, Then: v.Proc.Kill})
	r.hit(t, in, o)
	o.now()
	v.kill()
	r.comesBack(o, held, o.from, v)
	v.door.Heal()
	v.start(t)
	o.say("%s %s %s", v.Name, when, step.Name())
}
