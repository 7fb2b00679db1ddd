package main

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

	"github.com/tallystick/tallystick/topics"
)

// checkTopics is topics plan: what run would refuse fails, what it would only say is a warning.
func checkTopics(ctx context.Context, cfg Config, client *kgo.Client) []finding {
	steps, err := topics.NewAdmin(client).Plan(ctx, cfg.job().Topics(), cfg.topicRules())
	if err != nil {
		return []finding{failedLook("topics", "", err)}
	}
	var found []finding
	for _, s := range steps {
		if s.Action == topics.Create {
			found = append(found, finding{Check: "topics", On: s.Topic, Result: isFail, Said: "it does not exist", Remedy: "processor topics apply creates it"})
			continue
		}
		worst := finding{Check: "topics", On: s.Topic, Result: isOK, Said: fmt.Sprintf("%d partitions, %s replicas", s.Partitions, replicas(s.Replication))}
		for _, r := range s.Reasons {
			level := map[topics.Level]verdictWord{topics.LevelRefuse: isFail, topics.LevelWarn: isWarn}[r.Level]
			if level != "" {
				worst.Result = "" // the reasons say it
				found = append(found, finding{Check: "topics", On: s.Topic, Result: level, Said: r.Key + ": " + r.Cause, Remedy: r.Remedy})
			}
		}
		if worst.Result != "" {
			found = append(found, worst)
		}
	}
	return found
}

// checkRights asks the broker which operations of run it would allow: on topics and group it tells, a transactional id is only
// described.
func checkRights(ctx context.Context, cfg Config, client *kgo.Client) []finding {
	wanted := purposes[0].grants(cfg.ApplicationID, cfg.job().Topics())
	allowed, err := topicRights(ctx, client, wanted)
	if err != nil {
		return []finding{failedLook("rights", "", err)}
	}
	var found []finding
	for _, g := range wanted {
		on := g.Type + " " + g.Name
		switch g.Type {
		case onTopic:
			ops, there := allowed[g.Name]
			if there {
				found = append(found, rightsFinding(on, g, ops))
			}
		case onGroup:
			found = append(found, groupRights(ctx, client, on, g))
		case onTxn:
			found = append(found, transactionalRights(ctx, client, on+"*", g))
		}
	}
	return found
}

// topicRights are the allowed operations by topic. One that does not exist is absent; one that may not even be described has none.
func topicRights(ctx context.Context, client *kgo.Client, wanted []grant) (map[string][]string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, g := range wanted {
		if g.Type == onTopic {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(g.Name)
			req.Topics = append(req.Topics, t)
		}
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("rights on topics: %w", err)
	}
	allowed := map[string][]string{}
	for _, t := range resp.Topics {
		if t.Topic != nil && t.ErrorCode != kerr.UnknownTopicOrPartition.Code {
			allowed[*t.Topic] = operationNames(kadm.DecodeACLOperations(t.AuthorizedOperations))
		}
	}
	return allowed, nil
}

func operationNames(ops []kadm.ACLOperation) []string {
	names := []string{}
	for _, op := range ops {
		names = append(names, op.String())
	}
	return names
}

func rightsFinding(on string, g grant, allowed []string) finding {
	var missing []string
	for _, op := range g.Operations {
		if !slices.Contains(allowed, op) && !slices.Contains(allowed, strings.ReplaceAll(op, "_", "")) {
			missing = append(missing, op)
		}
	}
	if len(missing) > 0 {
		return finding{Check: "rights", On: on, Result: isFail, Said: strings.Join(missing, ", ") + " is missing", Remedy: "have it granted: processor acls --for run --commands prints the lines"}
	}
	return finding{Check: "rights", On: on, Result: isOK, Said: strings.Join(g.Operations, ", ")}
}

func groupRights(ctx context.Context, client *kgo.Client, on string, g grant) finding {
	groups, err := examineGroup(ctx, client, g.Name)
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return rightsFinding(on, g, nil)
	case errors.Is(err, kerr.GroupIDNotFound):
		return finding{Check: "rights", On: on, Result: isOK, Said: "may be described; the broker tells no more before the group exists"}
	case err != nil:
		return failedLook("rights", on, err)
	}
	return rightsFinding(on, g, operationNames(groups[g.Name].AuthorizedOperations))
}

func transactionalRights(ctx context.Context, client *kgo.Client, on string, g grant) finding {
	id := g.Name + "doctor" // nobody's: run's ids end in a worker's number
	err := whenThereIsACoordinator(ctx, func() error {
		all, err := kadm.NewClient(client).DescribeTransactions(ctx, id)
		return errors.Join(err, all[id].Err)
	})
	switch {
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return rightsFinding(on, g, nil)
	case err == nil, errors.Is(err, kerr.TransactionalIDNotFound):
		return finding{Check: "rights", On: on, Result: isOK, Said: "may be described; whether WRITE is allowed shows when it is used"}
	}
	return failedLook("rights", on, err)
}

func examineGroup(ctx context.Context, client *kgo.Client, group string) (all kadm.DescribedGroups, err error) {
	err = whenThereIsACoordinator(ctx, func() error {
		var err error
		all, err = kadm.NewClient(client).DescribeGroups(ctx, group)
		return errors.Join(err, all[group].Err)
	})
	return all, err
}

// coordinatorPatience is how long a new cluster may take for the topics that its coordinators keep their records in: it makes
// them when somebody first asks for one.
const coordinatorPatience = 10 * time.Second

func whenThereIsACoordinator(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, coordinatorPatience)
	defer cancel()
	for {
		err := ask()
		if !errors.Is(err, kerr.CoordinatorNotAvailable) && !errors.Is(err, kerr.NotCoordinator) && !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			return err
		}
		if sleep(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
}

// checkGroup tells the group's state and its members.
func checkGroup(ctx context.Context, cfg Config, client *kgo.Client) []finding {
	on := cfg.ApplicationID
	all, err := examineGroup(ctx, client, on)
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return nil // the rights say it
	case errors.Is(err, kerr.GroupIDNotFound), err == nil && all[on].State == "Dead":
		return []finding{{Check: "group", On: on, Result: isOK, Said: "it does not exist yet: nothing has run under this application.id"}}
	case err != nil:
		return []finding{failedLook("group", on, err)}
	}
	g := all[on]
	found := finding{Check: "group", On: on, Result: isOK, Said: fmt.Sprintf("%s, %s", g.State, counted(len(g.Members), "member"))}
	if g.State == "PreparingRebalance" || g.State == "CompletingRebalance" {
		found.Result, found.Remedy = isWarn, "it is sharing its tasks out; if that goes on, a member does not answer within max.poll.interval.ms: their logs say which"
	}
	return []finding{found}
}

// checkTransactions finds what keeps readers from the end of the job's topics and will not end by itself.
func checkTransactions(ctx context.Context, cfg Config, client *kgo.Client) []finding {
	admin := kadm.NewClient(client)
	set, err := jobPartitions(ctx, cfg, admin)
	if err != nil {
		return []finding{failedLook("transactions", "", err)}
	}
	open, err := openProducers(ctx, admin, set)
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return []finding{{Check: "transactions", Result: isWarn, Said: "not looked at: it takes READ on every topic of the job", Remedy: "processor acls --for look prints the rights"}}
	case err != nil:
		return []finding{failedLook("transactions", "", err)}
	case len(open) == 0:
		return []finding{{Check: "transactions", Result: isOK, Said: "none is open in the job's topics"}}
	}
	var producers []int64
	for _, p := range open {
		producers = append(producers, p.ProducerID)
	}
	known, err := readTransactions(ctx, admin, producers, nil)
	if err != nil {
		return []finding{failedLook("transactions", "", err)}
	}
	members, err := groupMembers(ctx, client, cfg.ApplicationID)
	if err != nil {
		return []finding{failedLook("transactions", "", err)}
	}
	var found []finding
	for _, r := range hangingRows(open, known, newOwners(cfg.job(), members)) {
		found = append(found, transactionFinding(r))
	}
	return found
}

func transactionFinding(r txRow) finding {
	f := finding{Check: "transactions", On: r.TransactionalID, Result: isOK, Said: "open since " + moment(r.Since) + " in " + strings.Join(r.Partitions, ", ") + "; " + r.Whose}
	switch {
	case r.State == stateHanging:
		f.Result, f.Remedy = isFail, r.Remedy
	case r.Since != nil && time.Since(*r.Since) > time.Minute:
		f.Result, f.Remedy = isWarn, "readers wait for it: processor tx list says whose it is"
	}
	return f
}
