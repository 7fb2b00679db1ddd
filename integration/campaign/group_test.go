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
	"github.com/tallystick/tallystick/integration/kafkatest"
)

func groupKinds() []kind {
	return []kind{
		{name: "member-removed", weight: 1, quick: true, do: memberRemoved,
			expect: "LeaveGroup for a live member: it is expelled, commits nothing more and joins again"},
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
	ids, err := r.members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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

func memberRemoved(t *testing.T, r *round, o *outcome) {
	v := r.victim()
	member := r.worker(v)
	before := r.memberIDs(t, member)
	o.now()
	answers, err := r.adm.LeaveGroup(t.Context(), kadm.LeaveGroup(app).InstanceIDs(member).Reason("the campaign removes it"))
	if err != nil {
		t.Fatal(err)
	}
	if errors.Is(answers[member].Err, kerr.UnknownMemberID) { // it is just joining
		o.missed()
	} else if answers[member].Err != nil {
		t.Fatal(answers[member].Err)
	}
	o.then = func(ctx context.Context) error { return r.joined(ctx, before) }
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
		o.then = func(ctx context.Context) error { return r.initialized(ctx, id, epoch) }
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
	r.thaw(t, true)
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
