package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/campaign/results"
	"github.com/tallystick/tallystick/integration/jobtest"
	"github.com/tallystick/tallystick/integration/kafkatest"
)

func groupKinds() []kind {
	return []kind{
		{name: "member-removed", weight: 1, quick: true, do: memberRemoved,
			expect: "LeaveGroup for a live member: it is expelled, and commits nothing until it has joined again"},
		{name: "producer-fenced", weight: 1, quick: true, do: producerFenced,
			expect: "InitProducerID with the transactional id of a live worker: it is fenced and makes a new session"},
		{name: "group-gone", weight: 1, do: groupGone,
			expect: "all processors ended, the group deleted with its offsets, start: the markers say where to go on"},
	}
}

// worker is a worker of a victim, as it names its member and its transactions.
func (r *round) worker(v *instance) string { return fmt.Sprintf("%s-%d", v.Name, r.rng.IntN(2)) }

// memberIDs are the group's ids of the members whose names begin so, by name.
func (r *round) memberIDs(t *testing.T, prefix string) map[string]string {
	t.Helper()
	var ids map[string]string
	kafkatest.Within(t, patience, "the group is described", func(ctx context.Context) (err error) {
		ids, err = r.members(ctx)
		return err
	})
	maps.DeleteFunc(ids, func(name, _ string) bool { return !strings.HasPrefix(name, prefix) })
	return ids
}

func (r *round) members(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	groups, err := r.adm.DescribeGroups(ctx, app)
	if err = errors.Join(err, groups[app].Err); err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, m := range groups[app].Members {
		if m.InstanceID != nil {
			ids[*m.InstanceID] = m.MemberID
		}
	}
	return ids, nil
}

// awaitMembers waits until the workers of a processor are in the group. Whether they get a task is the balancer's business: the
// six workers before them may hold the six tasks.
func (r *round) awaitMembers(t *testing.T, name string) {
	t.Helper()
	kafkatest.Within(t, patience, name+" joins the group", func(ctx context.Context) error {
		ids, err := r.members(ctx)
		if err != nil {
			return err
		}
		for worker := range 2 {
			if member := fmt.Sprintf("%s-%d", name, worker); ids[member] == "" {
				return fmt.Errorf("%s is no member", member)
			}
		}
		return nil
	})
}

// without is what of the members is not there any more under the same id.
func without(before, now map[string]string) map[string]string {
	gone := map[string]string{}
	for name, id := range before {
		if now[name] != id {
			gone[name] = id
		}
	}
	return gone
}

// joined says who of the members that were expelled is not back under another id.
func (r *round) joined(ctx context.Context, expelled map[string]string) error {
	now, err := r.members(ctx)
	if err != nil {
		return err
	}
	for name, was := range expelled {
		if id := now[name]; id == "" || id == was {
			return fmt.Errorf("%s, which was expelled as %q, is %q", name, was, id)
		}
	}
	return nil
}

// rejoined waits until who was expelled is back in the group under another id, and wants each of these workers to have committed
// nothing, from a moment on, while it was outside: all that it began then is to be refused.
func (r *round) rejoined(t *testing.T, o *outcome, expelled map[string]string, since time.Time) {
	t.Helper()
	outside := map[string]time.Time{} // when each transactional id was last seen to be so
	kafkatest.Within(t, patience, fmt.Sprintf("%v are back in the group", expelled), func(ctx context.Context) (err error) {
		asked := time.Now()
		now, err := r.members(ctx)
		if err != nil {
			return err
		}
		for name, was := range expelled {
			if id := now[name]; id == "" || id == was {
				outside[app+"-"+name], err = asked, fmt.Errorf("%s, which was expelled as %q, is %q", name, was, id)
			}
		}
		return err
	})
	o.must(func(context.Context) error { return silent(r.commits.after(since), outside) })
}

// silent says which of the commits a worker made before it was last seen outside the group.
func silent(since []jobtest.Commit, outside map[string]time.Time) error {
	for _, k := range since {
		if until := outside[k.Writer]; k.Written.Add(time.Millisecond).Before(until) {
			return fmt.Errorf("%s began a commit on partition %d at %v, and was outside the group until %v", k.Writer, k.Partition, k.Written, until)
		}
	}
	return nil
}

// wake lets a processor go on that was stopped for longer than its session, and wants it to join again before it commits.
func (r *round) wake(t *testing.T, v *instance, before map[string]string, o *outcome) {
	t.Helper()
	expelled := without(before, r.memberIDs(t, v.Name))
	woken := time.Now()
	v.Proc.Resume()
	r.rejoined(t, o, expelled, woken)
	r.commits.awaitBy(t, v.Name, woken)
}

func memberRemoved(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	member := r.worker(v)
	before := r.memberIDs(t, member)
	o.now()
	answers, err := r.adm.LeaveGroup(t.Context(), kadm.LeaveGroup(app).InstanceIDs(member).Reason("the campaign removes it"))
	removed := time.Now()
	if err != nil {
		t.Fatal(err)
	}
	if errors.Is(answers[member].Err, kerr.UnknownMemberID) { // it is just joining
		o.missed()
	} else if answers[member].Err != nil {
		t.Fatal(answers[member].Err)
	}
	if o.first || o.verdict == results.Missed {
		o.must(func(ctx context.Context) error { return r.joined(ctx, before) })
	} else {
		r.rejoined(t, o, before, removed)
	}
	o.say("%s", member)
}

func producerFenced(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	id := app + "-" + r.worker(v)
	r.awaitOpenOf(t, o, func(open string) bool { return open == id })
	cl := kafkatest.Client(t, r.kafka.Seeds(), kgo.TransactionalID(id), kgo.TransactionTimeout(transactionTimeout))
	o.now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if o.verdict != results.Missed { // a worker without a task has no session to make anew
		o.must(func(ctx context.Context) error { return r.initialized(ctx, id, epoch) })
	}
	o.say("%s, epoch %d", id, epoch)
}

// initialized says when nobody has initialized the transactional id since it had this epoch.
func (r *round) initialized(ctx context.Context, id string, since int16) error {
	described, err := r.adm.DescribeTransactions(ctx, id)
	if err = errors.Join(err, described[id].Err); err != nil {
		return err
	}
	if epoch := described[id].ProducerEpoch; epoch == since {
		return fmt.Errorf("%s still has epoch %d, with which it was fenced", id, epoch)
	}
	return nil
}

func groupGone(t *testing.T, r *round, o *outcome) {
	r.thawNow(t)
	all := r.running()
	for _, i := range all {
		i.drain(t)
	}
	for n := range 2 {
		_, _ = r.adm.LeaveGroup(t.Context(), kadm.LeaveGroup(app).InstanceIDs(fmt.Sprintf("p1-%d", n))) // p1 keeps its place
	}
	kafkatest.Within(t, patience, "the group is deleted", func(ctx context.Context) error {
		answers, err := r.adm.DeleteGroups(ctx, app)
		if err != nil {
			return err
		}
		return answers[app].Err
	})
	o.now()
	for _, i := range all {
		i.start(t)
	}
	o.say("down for %.1f s", time.Since(o.from).Seconds())
}
