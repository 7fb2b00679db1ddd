package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
)

func newFence(c *cli) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "fence <instance>",
		Short: "Declare an instance dead, so that others take its tasks over at once",
		Long: "fence ends the open transactions of every worker of an instance (InitProducerID on <application.id>-<instance>-<worker>) and removes its members\n" +
			"from the group (LeaveGroup on <instance>-<worker>). Without it the others wait for session.timeout.ms, and readers of the topics for the open\n" +
			"transaction. It is for a process that is dead for certain and does not come back by itself; a restart of the same instance does all this.\n\n" +
			"While the instance is still a member, nobody but you can tell a dead process from a live one: --force says that it is dead. A live one would\n" +
			"lose its open transaction and its place, come back by itself within seconds, and take tasks again. Nothing is lost or doubled either way.\n\n" +
			"The instance is what run was given as group.instance.id, or the name in <state.dir>/<application.id>/<slot>/name; a wrong one is answered with\n" +
			"those that are known (exit 4).",
		Example: "  processor fence ledger-2 --force",
		Args:    exactlyOne("instance"),
	}
	configFlags(cmd, groupConnection, groupApplication)
	keyFlags(cmd, "transaction.timeout.ms")
	cmd.Flags().BoolVar(&force, "force", false, "the instance is dead, though it is still a member of the group")
	cmd.RunE = c.connected(applyLimit, func(ctx context.Context, cfg Config, client *kgo.Client, args []string) error {
		return c.fence(ctx, cfg, client, args[0], force)
	})
	return cmd
}

// fenced is one id of an instance, and what was done to it.
type fenced struct {
	Kind  string `json:"kind"` // transaction or member
	ID    string `json:"id"`
	Found string `json:"found"`
	Done  string `json:"done"`
	Took  int64  `json:"took_ms"`
	do    func(context.Context) error
}

func (f *fenced) cells() []string {
	return []string{f.Kind, f.ID, f.Found, f.Done, fmt.Sprintf("%d ms", f.Took)}
}

func (c *cli) fence(ctx context.Context, cfg Config, client *kgo.Client, instance string, force bool) error {
	if err := seesTransactions(ctx, cfg, client); err != nil {
		return err
	}
	known, err := readTransactions(ctx, kadm.NewClient(client), nil, nil)
	if err != nil {
		return err
	}
	members, err := groupMembers(ctx, client, cfg.ApplicationID)
	if err != nil {
		return err
	}
	o := newOwners(cfg.job(), members)
	known = slices.DeleteFunc(known, func(t kadm.DescribedTransaction) bool { _, _, ok := o.instance(t.TxnID); return !ok || o.foreign(t) })
	live := membersOf(members, instance)
	rows := fencings(cfg, client, o, known, live, instance)
	switch {
	case len(rows) == 0:
		return unknownInstance(cfg, o, known, members, instance)
	case len(live) > 0 && !force:
		return fail(exitFailed, fmt.Errorf("instance %s is a member of group %s:%s", instance, cfg.ApplicationID, listMembers(live)),
			"if the process is dead, add --force; a live one would be thrown out, lose its open transaction and come back by itself: stop it instead")
	}
	began := time.Now()
	err = runAll(ctx, rows)
	if printed := printList(c, []string{"kind", "id", "found", "done", "took"}, rows, (*fenced).cells); printed != nil {
		return printed
	}
	if err == nil {
		fmt.Fprintf(c.stderr, "instance %s of %s is fenced, in %s: its transactions are decided, its tasks go to the next who joins or beats\n",
			instance, cfg.ApplicationID, milliseconds(time.Since(began)))
	}
	return err
}

func membersOf(members []groupMember, instance string) (out []groupMember) {
	for _, m := range members {
		if name, _, ok := splitWorker(m.Instance); ok && name == instance {
			out = append(out, m)
		}
	}
	return out
}

// fencings lists what is to be done: first the transactions of the instance, then its members.
func fencings(cfg Config, client *kgo.Client, o *owners, known []kadm.DescribedTransaction, live []groupMember, instance string) []*fenced {
	var rows []*fenced
	for _, t := range known {
		if name, _, _ := o.instance(t.TxnID); name != instance {
			continue
		}
		found := "no open transaction"
		if slices.Contains(openStates, t.State) {
			found = "a transaction " + strings.ToLower(t.State) + " since " + moment(since(t))
		}
		rows = append(rows, &fenced{Kind: "transaction", ID: t.TxnID, Found: found, Done: "fenced",
			do: func(ctx context.Context) error { return session.Fence(ctx, client, t.TxnID, cfg.TransactionTimeout) }})
	}
	for _, m := range live {
		rows = append(rows, &fenced{Kind: "member", ID: m.Instance, Found: m.String(), Done: "removed",
			do: func(ctx context.Context) error { return session.Leave(ctx, client, cfg.ApplicationID, m.Instance) }})
	}
	return rows
}

// runAll does everything at once: whoever waits for the tasks waits for the slowest.
func runAll(ctx context.Context, rows []*fenced) error {
	errs := make([]error, len(rows))
	var wg sync.WaitGroup
	for i, r := range rows {
		wg.Go(func() {
			began := time.Now()
			if errs[i] = r.do(ctx); errs[i] != nil {
				r.Done = "failed: " + errs[i].Error()
			}
			r.Took = time.Since(began).Milliseconds()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// unknownInstance names the instances that there are.
func unknownInstance(cfg Config, o *owners, known []kadm.DescribedTransaction, members []groupMember, instance string) error {
	var names []string
	add := func(name string, ok bool) {
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, t := range known {
		name, _, ok := o.instance(t.TxnID)
		add(name, ok)
	}
	for _, m := range members {
		name, _, ok := splitWorker(m.Instance)
		add(name, ok)
	}
	slices.Sort(names)
	hint := "no instance of this application.id is known: is it right, and may you DESCRIBE its transactional ids?"
	if len(names) > 0 {
		hint = "known: " + strings.Join(names, ", ")
	}
	return fail(exitNotFound, fmt.Errorf("nothing is known of an instance %q of %s", instance, cfg.ApplicationID), hint)
}
