package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/topics"
)

type txFlags struct {
	all, hanging bool
}

func newTx(c *cli) *cobra.Command { return group("tx", "Look at transactions", newTxList(c)) }

func newTxList(c *cli) *cobra.Command {
	var f txFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the open transactions: whose, since when, where, and when they end",
		Long: "list asks the coordinators for every transaction that is open, of this job and of others: its id, whether it is this job's and of which\n" +
			"instance, since when it is open, when its coordinator aborts it, and which partitions it touches. --all adds the ids that have none open.\n\n" +
			"--hanging asks the other way round: the leaders of this job's topics, for every transaction that holds readers back there. It finds those that\n" +
			"no coordinator knows any more: they never end by themselves. Their last column holds the command that ends them; make sure first that\n" +
			"the producer is gone. Exit 2 when there is one.\n\n" +
			"What cannot be described (DESCRIBE on the transactional id) is not listed by the broker.",
		Example: "  processor tx list\n  processor tx list --hanging\n  processor tx list --all -o jsonl | jq -r .transactional_id",
	}
	configFlags(cmd, groupConnection, groupApplication)
	cmd.Flags().BoolVar(&f.all, "all", false, "also transactional ids without an open transaction")
	cmd.Flags().BoolVar(&f.hanging, "hanging", false, "what holds this job's topics back, as the leaders of their partitions see it")
	run := c.connected(lookUpLimit, func(ctx context.Context, cfg Config, client *kgo.Client, _ []string) error {
		return c.txList(ctx, cfg, client, f)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.all && f.hanging {
			return usageErrorf("--all asks the coordinators and --hanging the leaders: give one")
		}
		return run(cmd, args)
	}
	return cmd
}

// txRow is a transaction as coordinators tell, or with --hanging as leaders do.
type txRow struct {
	TransactionalID string     `json:"transactional_id,omitempty"`
	State           string     `json:"state"` // a coordinator's word, or hanging
	Since           *time.Time `json:"since,omitempty"`
	Ends            *time.Time `json:"ends,omitempty"` // when its coordinator aborts it
	Whose           string     `json:"whose"`
	Coordinator     *int32     `json:"coordinator,omitempty"`
	ProducerID      int64      `json:"producer_id"`
	Epoch           int16      `json:"producer_epoch"`
	Partitions      []string   `json:"partitions"` // with --hanging: topic/partition/first offset
	Remedy          string     `json:"remedy,omitempty"`
	Unknown         string     `json:"unknown,omitempty"`
}

const stateHanging = "hanging"

func (t txRow) cells() []string {
	id, coordinator := t.TransactionalID, "?"
	if id == "" {
		id = "?"
	}
	if t.Coordinator != nil {
		coordinator = fmt.Sprint(*t.Coordinator)
	}
	where := strings.Join(t.Partitions, " ")
	if t.Unknown != "" {
		where = "unknown: " + t.Unknown
	}
	return []string{id, t.State, moment(t.Since), moment(t.Ends), t.Whose, coordinator, fmt.Sprintf("%d/%d", t.ProducerID, t.Epoch), where, t.Remedy}
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

var txHeader = []string{"transactional id", "state", "since", "ends by itself", "whose", "coordinator", "producer/epoch", "partitions", "remedy"}

func (c *cli) txList(ctx context.Context, cfg Config, client *kgo.Client, f txFlags) error {
	members, err := groupMembers(ctx, client, cfg.ApplicationID)
	if err != nil {
		return err
	}
	owners := newOwners(cfg.job(), members)
	admin := kadm.NewClient(client)
	if f.hanging {
		return c.txHanging(ctx, cfg, admin, owners)
	}
	states := openStates
	if f.all {
		states = nil
	}
	known, err := readTransactions(ctx, admin, nil, states)
	if err != nil {
		return err
	}
	rows := make([]txRow, len(known))
	for i, t := range known {
		rows[i] = owners.row(t)
	}
	sortOldest(rows)
	return printList(c, txHeader, rows, txRow.cells)
}

// sortOldest puts what is open longest first.
func sortOldest(rows []txRow) {
	slices.SortStableFunc(rows, func(a, b txRow) int {
		switch {
		case a.Since != nil && b.Since != nil:
			return a.Since.Compare(*b.Since)
		case (a.Since == nil) != (b.Since == nil):
			return cmp.Compare(moment(b.Since), moment(a.Since)) // those with a time before those without
		}
		return cmp.Compare(a.TransactionalID, b.TransactionalID)
	})
}

// owners tells whose a transaction is.
type owners struct {
	app     string
	ours    map[string]bool // topics that only the job writes
	members map[string]bool // group.instance.ids in the group now
}

func newOwners(job *pipeline.Pipeline, members []groupMember) *owners {
	o := &owners{app: job.App(), ours: map[string]bool{}, members: map[string]bool{}}
	for _, m := range members {
		o.members[m.Instance] = true
	}
	for _, w := range job.Topics() {
		if isRebuilt(w.Role) || w.Role == topics.RoleDeadLetters {
			o.ours[w.Name] = true
		}
	}
	return o
}

// instance takes <app>-<instance>-<worker> apart. The prefix alone proves nothing: ledger and ledger-eu are two jobs.
func (o *owners) instance(id string) (instance string, worker int, ok bool) {
	rest, ok := strings.CutPrefix(id, o.app+"-")
	if !ok {
		return "", 0, false
	}
	return splitWorker(rest)
}

// row judges a transaction as its coordinator describes it.
func (o *owners) row(t kadm.DescribedTransaction) txRow {
	r := txRow{TransactionalID: t.TxnID, State: t.State, Coordinator: &t.Coordinator, ProducerID: t.ProducerID, Epoch: t.ProducerEpoch, Partitions: []string{}}
	r.Whose, r.Remedy = o.judge(t)
	if t.Err != nil {
		r.Unknown = t.Err.Error()
		return r
	}
	for _, p := range t.Topics.Sorted() {
		for _, n := range p.Partitions {
			r.Partitions = append(r.Partitions, fmt.Sprintf("%s/%d", p.Topic, n))
		}
	}
	if !slices.Contains(openStates, t.State) {
		r.Remedy = ""
		return r
	}
	r.Since = since(t)
	if r.Since != nil && t.TimeoutMillis > 0 {
		ends := r.Since.Add(time.Duration(t.TimeoutMillis) * time.Millisecond)
		r.Ends = &ends
	}
	return r
}

// judge says whose a transaction is, and what ends it before its time.
func (o *owners) judge(t kadm.DescribedTransaction) (whose, remedy string) {
	if t.TxnID == redriveID(o.app) {
		return "this job: dlq redrive", "run dlq redrive again: it takes over"
	}
	instance, worker, ok := o.instance(t.TxnID)
	switch {
	case !ok:
		return "another application", "ask its owner"
	case o.members[fmt.Sprintf("%s-%d", instance, worker)]:
		return fmt.Sprintf("this job: instance %s worker %d, a member of the group", instance, worker), ""
	case o.foreign(t):
		return "another application, though the id begins like this job's", "ask its owner"
	}
	return fmt.Sprintf("this job: instance %s worker %d, not in the group", instance, worker), "processor fence " + instance
}

// foreign reports whether a transaction is open and touches none of what only this job writes.
func (o *owners) foreign(t kadm.DescribedTransaction) bool {
	for topic := range t.Topics {
		if o.ours[topic] {
			return false
		}
	}
	return len(t.Topics) > 0
}
