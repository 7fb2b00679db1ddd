package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// appearWithin bounds the wait for a new topic: every broker learns of it in its own time.
	appearWithin = 15 * time.Second
	appearEvery  = 50 * time.Millisecond
)

// Admin reads and makes topics through a client that stays the caller's. It is safe for concurrent use.
type Admin struct{ client *kgo.Client }

// NewAdmin wraps a client. It talks to nobody.
func NewAdmin(client *kgo.Client) *Admin { return &Admin{client} }

// Describe returns what the brokers say of the named topics. A topic that does not exist is absent from the answer; one that
// could not be read has its Err set. The error is about the look-up as a whole; the answer is then nil.
//
// The requests are sent raw: the answer of a client's cache would hide what was just made, and kadm fails the look-up of all
// topics when one of them is denied.
func (a *Admin) Describe(ctx context.Context, names ...string) (map[string]Have, error) {
	if len(names) == 0 {
		return map[string]Have{}, nil
	}
	haves, err := metadata(ctx, a.client, names)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w; check bootstrap.servers and that the brokers are up", err)
	}
	if err := a.configs(ctx, haves); err != nil {
		return nil, fmt.Errorf("describe topic configs: %w; check that the brokers are up", err)
	}
	return haves, nil
}

func metadata(ctx context.Context, who kmsg.Requestor, names []string) (map[string]Have, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, who)
	if err != nil {
		return nil, err
	}
	haves := make(map[string]Have, len(resp.Topics))
	for _, t := range resp.Topics {
		if t.Topic != nil && t.ErrorCode != kerr.UnknownTopicOrPartition.Code {
			haves[*t.Topic] = have(t)
		}
	}
	return haves, nil
}

func have(t kmsg.MetadataResponseTopic) Have {
	h := Have{Name: *t.Topic, ID: t.TopicID, Partitions: int32(len(t.Partitions)), Err: Asked{Right: "DESCRIBE", Topic: *t.Topic}.Explain(kerr.ErrorForCode(t.ErrorCode))}
	for i, p := range t.Partitions {
		if n := len(p.Replicas); i == 0 || n < h.Replicas {
			h.Replicas = n
		}
	}
	return h
}

// configs fills in the configs of the topics that could be read. One that this broker does not have is absent: it is so new, or so
// newly gone, that not all brokers have heard of it.
func (a *Admin) configs(ctx context.Context, haves map[string]Have) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for name, h := range haves {
		if h.Err == nil {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceName, r.ResourceType = name, kmsg.ConfigResourceTypeTopic
			req.Resources = append(req.Resources, r)
		}
	}
	if len(req.Resources) == 0 {
		return nil
	}
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if r.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			delete(haves, r.ResourceName)
			continue
		}
		h := haves[r.ResourceName]
		h.Err, h.Config = Asked{Right: "DESCRIBE_CONFIGS", Topic: r.ResourceName}.Explain(kerr.ErrorForCode(r.ErrorCode)), values(r.Configs)
		haves[r.ResourceName] = h
	}
	return nil
}

func values(configs []kmsg.DescribeConfigsResponseResourceConfig) map[string]string {
	out := make(map[string]string, len(configs))
	for _, c := range configs {
		if c.Value != nil {
			out[c.Name] = *c.Value
		}
	}
	return out
}

// Plan describes the wanted topics and compares. It changes nothing.
func (a *Admin) Plan(ctx context.Context, wants []Want, rules Rules) (Steps, error) {
	var names []string
	for _, w := range wants {
		if !slices.Contains(names, w.Name) && CheckName(w.Name) == nil { // Plan refuses the others; a broker would fail the request
			names = append(names, w.Name)
		}
	}
	haves, err := a.Describe(ctx, names...)
	if err != nil {
		return nil, err
	}
	return Plan(wants, haves, rules), nil
}

// Apply plans, creates what is missing, reads everything back until the new topics are visible on every broker that answers (at most
// 15 s) and plans again: the
// steps that it returns are those of the last plan. Nothing is created when anything is refused. An existing topic is never
// changed. Several processes may apply at once. The error joins what went wrong, topic by topic; it includes Steps.Refused.
func (a *Admin) Apply(ctx context.Context, wants []Want, rules Rules) (Steps, error) {
	before, err := a.Plan(ctx, wants, rules)
	if err != nil {
		return nil, err
	}
	if err := before.Refused(); err != nil {
		return before, err
	}
	pending := before.Pending()
	created := a.create(ctx, pending)
	after, err := a.readBack(ctx, wants, rules, created == nil)
	if err == nil && created == nil {
		err = a.everywhere(ctx, pending)
	}
	return after, errors.Join(created, err)
}

// create tries every topic, so that one answer names all that is wrong.
func (a *Admin) create(ctx context.Context, steps Steps) error {
	var all []error
	for _, s := range steps {
		all = append(all, a.createOne(ctx, s))
	}
	return errors.Join(all...)
}

func (a *Admin) createOne(ctx context.Context, s Step) error {
	config := make(map[string]*string, len(s.Config))
	for k, v := range s.Config {
		config[k] = &v
	}
	resp, err := kadm.NewClient(a.client).CreateTopic(ctx, s.Partitions, s.Replication, config, s.Topic)
	if err == nil || errors.Is(err, kerr.TopicAlreadyExists) { // made by another process meanwhile: reading back decides
		return nil
	}
	if resp.ErrMessage != "" {
		err = fmt.Errorf("%w: %s", err, resp.ErrMessage)
	}
	return fmt.Errorf("create topic %s: %w; %s", s.Topic, err, createRemedy(err))
}

func createRemedy(err error) string {
	switch {
	case errors.As(err, new(*kadm.AuthError)), errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return "grant CREATE on the topic, or let someone who has it run topics apply"
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return "ask for at most as many replicas as there are brokers"
	case errors.Is(err, kerr.InvalidConfig):
		return "the broker does not know or allow a setting: create the topic by hand with the settings that topics plan shows"
	case errors.Is(err, kerr.PolicyViolation):
		return "the cluster's policy forbids it: create the topic by hand as the policy wants, then plan again"
	}
	return "see the broker's log, then apply again: what was made stays"
}

// readBack plans until nothing is missing any more. With wait false (a creation failed) it plans once.
func (a *Admin) readBack(ctx context.Context, wants []Want, rules Rules, wait bool) (Steps, error) {
	deadline := time.Now().Add(appearWithin)
	for {
		steps, err := a.Plan(ctx, wants, rules)
		if err != nil {
			return nil, err
		}
		if len(steps.Pending()) == 0 || !wait {
			return steps, steps.Refused()
		}
		if time.Now().After(deadline) {
			return steps, fmt.Errorf("topic %s: created, but not visible after %s; plan again", steps.Pending()[0].Topic, appearWithin)
		}
		if err := pause(ctx, appearEvery); err != nil {
			return steps, fmt.Errorf("topic %s: created, not read back: %w", steps.Pending()[0].Topic, err)
		}
	}
}

// everywhere waits until every broker has the topics that were just made: a job may start on any of them. A broker that does not
// answer holds nobody up: when it is back it learns of them first.
func (a *Admin) everywhere(ctx context.Context, made Steps) error {
	if len(made) == 0 {
		return nil
	}
	var names []string
	for _, s := range made {
		names = append(names, s.Topic)
	}
	brokers, err := kadm.NewClient(a.client).ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("topics are created; whether every broker has them could not be asked: apply again before a job starts: %w", err)
	}
	deadline := time.Now().Add(appearWithin)
	for _, b := range brokers {
		for a.behind(ctx, b.NodeID, names) {
			if time.Now().After(deadline) {
				return fmt.Errorf("topics are created, and broker %d does not have all of them after %s: see its log, then apply again", b.NodeID, appearWithin)
			}
			if err := pause(ctx, appearEvery); err != nil {
				return fmt.Errorf("topics are created, broker %d does not have them yet: apply again before a job starts: %w", b.NodeID, err)
			}
		}
	}
	return nil
}

// behind reports whether a broker answers and does not have all topics.
func (a *Admin) behind(ctx context.Context, broker int32, names []string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	haves, err := metadata(ctx, a.client.Broker(int(broker)), names)
	return err == nil && len(haves) < len(names)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
