package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/topics"
)

// TransactionalID returns the id of a worker: stable across restarts, unique among live workers.
func TransactionalID(app, instance string, worker int) string {
	return fmt.Sprintf("%s-%s-%d", app, instance, worker)
}

// InstanceID returns the group.instance.id of a worker.
func InstanceID(instance string, worker int) string { return fmt.Sprintf("%s-%d", instance, worker) }

// Fence calls InitProducerID for a transactional id (KIP-98, KIP-890). When it returns nil, every earlier transaction of the
// id is decided, its markers are in all partitions, and no producer with the id can write or commit any more, the caller's
// own included. It is the only barrier: a commit request that sits in a socket can be applied seconds after it was given up.
// It retries what passes until ctx ends.
func Fence(ctx context.Context, client *kgo.Client, id string, timeout time.Duration) error {
	for {
		err := fenceOnce(ctx, client, id, timeout)
		if err == nil {
			return nil
		}
		if !passes(err) || !sleep(ctx, 10*time.Millisecond) {
			return fmt.Errorf("fence transactional id %q: %w", id, errors.Join(err, ctx.Err()))
		}
	}
}

func fenceOnce(ctx context.Context, client *kgo.Client, id string, timeout time.Duration) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &id
	req.TransactionTimeoutMillis = int32(timeout.Milliseconds())
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := req.RequestWith(ctx, client)
	if err != nil { // no coordinator is named to whom the id is denied
		return topics.Asked{TransactionalID: id}.Explain(err)
	}
	return topics.Asked{TransactionalID: id}.Explain(kerr.ErrorForCode(resp.ErrorCode))
}

// Leave removes static members from the group at once, alive or dead. A member that is not there is no error.
func Leave(ctx context.Context, client *kgo.Client, group string, instances ...string) error {
	resp, err := kadm.NewClient(client).LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs(instances...).Reason("tallystick: partitions given away for good"))
	if err != nil {
		return fmt.Errorf("leave group %q: %w", group, err)
	}
	var errs []error
	for id, r := range resp {
		if r.Err != nil && !errors.Is(r.Err, kerr.UnknownMemberID) {
			errs = append(errs, fmt.Errorf("leave group %q: instance %q: %w", group, id, r.Err))
		}
	}
	return errors.Join(errs...)
}

// Members returns how many members a group has, 0 when it does not exist.
func Members(ctx context.Context, client *kgo.Client, group string) (int, error) {
	groups, err := kadm.NewClient(client).DescribeGroups(ctx, group)
	if err != nil {
		return 0, fmt.Errorf("describe group %q: %w", group, err)
	}
	return len(groups[group].Members), nil
}

// Owner is the member of a group that a partition is assigned to.
type Owner struct {
	Instance string // of the process; the member's group.instance.id without its worker, or its member id if it has none
	Host     string // the address that it joined from
}

// Owners reads a group's assignment. A group that is between two generations has none.
func Owners(ctx context.Context, client *kgo.Client, group string) (map[TopicPartition]Owner, error) {
	groups, err := kadm.NewClient(client).DescribeGroups(ctx, group)
	if err := errors.Join(err, groups[group].Err); err != nil {
		return nil, fmt.Errorf("describe group %q: %w", group, err)
	}
	owners := map[TopicPartition]Owner{}
	for _, m := range groups[group].Members {
		assigned, ok := m.Assigned.AsConsumer()
		if !ok {
			continue
		}
		owner := Owner{m.MemberID, strings.TrimPrefix(m.ClientHost, "/")} // Java writes an address without a name as "/address"
		if m.InstanceID != nil {
			owner.Instance = (*m.InstanceID)[:max(0, strings.LastIndexByte(*m.InstanceID, '-'))]
		}
		for _, t := range assigned.Topics {
			for _, p := range t.Partitions {
				owners[TopicPartition{t.Topic, p}] = owner
			}
		}
	}
	return owners, nil
}

// Holder is a transaction that keeps a partition's last stable offset down.
type Holder struct {
	TransactionalID string // "" when no coordinator knows it (a hanging transaction, KIP-664)
	ProducerID      int64
	Start           int64 // its first offset in the partition
}

// Holders lists the open transactions of a partition, oldest first.
func Holders(ctx context.Context, client *kgo.Client, tp TopicPartition) ([]Holder, error) {
	adm := kadm.NewClient(client)
	var set kadm.TopicsSet
	set.Add(tp.Topic, tp.Partition)
	described, err := adm.DescribeProducers(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("producers of %s/%d: %w", tp.Topic, tp.Partition, err)
	}
	var holders []Holder
	var ids []int64
	for _, p := range described.SortedProducers() {
		if p.CurrentTxnStartOffset >= 0 {
			holders = append(holders, Holder{ProducerID: p.ProducerID, Start: p.CurrentTxnStartOffset})
			ids = append(ids, p.ProducerID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	listed, err := adm.ListTransactions(ctx, ids, nil)
	if err = unlessInPart(err); err != nil {
		return nil, fmt.Errorf("transactions of %s/%d: %w", tp.Topic, tp.Partition, err)
	}
	for i := range holders {
		for _, t := range listed {
			if t.ProducerID == holders[i].ProducerID {
				holders[i].TransactionalID = t.TxnID
			}
		}
	}
	return holders, nil
}

// Janitor fences the open transactions of instances of the same application that are gone.
type Janitor struct {
	Client  *kgo.Client
	App     string   // group and prefix of transactional ids
	Own     []string // topics that only the application writes: what touches none of them is none of our business
	Timeout time.Duration
	Fenced  func(id string) // may be nil
}

// Sweep fences every ongoing transaction of the application whose instance is not a member of the group. The id's prefix does
// not prove that it is ours ("ledger" and "ledger-eu" are two applications): a record in a topic of our own does. What the
// coordinators that answer do not know is left for the next sweep. It never writes transaction markers: that tears a transaction that a coordinator knows. It blocks for two seconds at most.
func (j Janitor) Sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchdogPatience)
	defer cancel()
	orphans, err := j.orphans(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range orphans {
		errs = append(errs, j.fence(ctx, id))
	}
	return errors.Join(errs...)
}

// Release fences the ongoing transaction of one worker, unless that is a member of the group. The caller has proof that the id is the
// application's own, such as a marker that it wrote: the transaction may touch no topic of our own yet, only outputs, whose
// readers it holds up. It blocks for two seconds at most.
func (j Janitor) Release(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, watchdogPatience)
	defer cancel()
	described, err := kadm.NewClient(j.Client).DescribeTransactions(ctx, id)
	if err != nil {
		return fmt.Errorf("describe transaction %q: %w", id, err)
	}
	t := described[id]
	if t.Err != nil && !errors.Is(t.Err, kerr.TransactionalIDNotFound) { // forgotten after a week without use: nothing is open
		return fmt.Errorf("describe transaction %q: %w", id, topics.Asked{TransactionalID: id}.Explain(t.Err))
	}
	if t.State != "Ongoing" { // prepared ones are the coordinator's to finish
		return nil
	}
	alive, err := j.members(ctx)
	if err != nil || alive[strings.TrimPrefix(id, j.App+"-")] && !mutant.On("release-fences-the-living") {
		return err
	}
	return j.fence(ctx, id)
}

func (j Janitor) fence(ctx context.Context, id string) error {
	err := Fence(ctx, j.Client, id, j.Timeout)
	if err == nil && j.Fenced != nil {
		j.Fenced(id)
	}
	return err
}

func (j Janitor) orphans(ctx context.Context) (ids []string, err error) {
	adm := kadm.NewClient(j.Client)
	ongoing, err := adm.ListTransactions(ctx, nil, []string{"Ongoing"}) // prepared ones are the coordinator's to finish
	if err = unlessInPart(err); err != nil {
		return nil, fmt.Errorf("ongoing transactions: %w", err)
	}
	alive, err := j.members(ctx)
	if err != nil {
		return nil, err
	}
	for id := range ongoing {
		if instance, prefixed := strings.CutPrefix(id, j.App+"-"); prefixed && (!alive[instance] || mutant.On("janitor-fences-the-living")) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	described, err := adm.DescribeTransactions(ctx, ids...)
	if err = unlessInPart(err); err != nil {
		return nil, fmt.Errorf("describe transactions %q: %w", ids, err)
	}
	return slices.DeleteFunc(ids, func(id string) bool { return !j.touches(described[id].Topics) }), nil
}

func (j Janitor) touches(topics kadm.TopicsSet) bool {
	if mutant.On("janitor-fences-strangers") {
		return true
	}
	return slices.ContainsFunc(j.Own, func(topic string) bool { return len(topics[topic]) > 0 })
}

func (j Janitor) members(ctx context.Context) (map[string]bool, error) {
	groups, err := kadm.NewClient(j.Client).DescribeGroups(ctx, j.App)
	if err != nil {
		return nil, fmt.Errorf("describe group %q: %w", j.App, err)
	}
	g := groups[j.App]
	if g.Err != nil {
		return nil, fmt.Errorf("describe group %q: %w", j.App, g.Err)
	}
	alive := map[string]bool{}
	for _, m := range g.Members {
		if m.InstanceID != nil {
			alive[*m.InstanceID] = true
		}
	}
	return alive, nil
}
