package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/topics"
)

// Topics returns what the pipeline needs of its topics, for topics.Plan.
func (p *Pipeline) Topics() []topics.Want {
	var wants []topics.Want
	for _, s := range p.stages {
		for _, in := range s.Inputs() {
			if s.isRepartition(in) {
				wants = append(wants, topics.Want{Name: in, Role: topics.RoleRepartition, Stage: s.name, Writers: p.writers(in)})
				continue
			}
			wants = append(wants, topics.Want{Name: in, Role: topics.RoleInput, Stage: s.name, Window: s.shortestWindow(), Timed: s.timed(), Compacted: slices.Contains(s.compacted, in)})
		}
		for _, out := range s.outputs {
			if p.repartitioned(out) == nil {
				wants = append(wants, topics.Want{Name: out, Role: topics.RoleOutput, Stage: s.name})
			}
		}
		wants = append(wants,
			topics.Want{Name: s.StateTopic(), Role: topics.RoleState, Stage: s.name},
			topics.Want{Name: topics.DeadLetters(p.app), Role: topics.RoleDeadLetters, Stage: s.name, PerTask: true})
	}
	return wants
}

// windows returns the stage's longest and shortest dedupe windows, 0 without one.
func (s *Stage) windows() (longest, shortest time.Duration) {
	for _, spec := range s.specs {
		if spec.Window > 0 && (shortest == 0 || spec.Window < shortest) {
			shortest = spec.Window
		}
		longest = max(longest, spec.Window)
	}
	return longest, shortest
}

// ErrMissingTopics says that topics of the pipeline do not exist.
var ErrMissingTopics = errors.New("topics do not exist")

// ErrUnreachable says that no broker answered at the start.
var ErrUnreachable = errors.New("no broker answers")

const reachPatience = 10 * time.Second

// prepare looks at brokers and topics before the first session: what would fail later is refused now, by name. One broker of
// several may be gone then, and what it led may have no leader yet.
func (p *Processor) prepare(ctx context.Context, id *session.Identity) error {
	if err := p.reach(ctx); err != nil {
		return err
	}
	return p.patiently(ctx, func() error { return p.look(ctx, id) })
}

// patiently does again, for reachPatience, what failed by the network or by a broker that asks for patience.
func (p *Processor) patiently(ctx context.Context, look func() error) error {
	for until := time.Now().Add(reachPatience); ; {
		err := look()
		if err == nil || !session.Transient(err) || time.Now().After(until) {
			return err
		}
		p.cfg.Logger.Warn("a look at brokers and topics failed; trying again", "app", p.pipe.app, "err", err)
		if pause(ctx, idlePoll); ctx.Err() != nil {
			return err
		}
	}
}

func (p *Processor) look(ctx context.Context, id *session.Identity) error {
	steps, err := topics.NewAdmin(p.admin).Plan(ctx, p.pipe.Topics(), p.cfg.TopicRules)
	if err != nil {
		return err
	}
	if err := p.accept(ctx, steps); err != nil {
		return err
	}
	if err := p.checkGone(ctx); err != nil {
		return err
	}
	p.warnStranger(ctx, id)
	return p.checkMemory(ctx)
}

// reach waits for a broker that answers, reachPatience at most: brokers and processors may start together.
func (p *Processor) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	for said := false; ; said = true {
		err := p.admin.Ping(ctx)
		if err == nil || session.FateOf(err) == session.Fatal { // a login that was refused is refused again
			return err
		}
		if !said {
			p.cfg.Logger.Warn("no broker answers; trying again", "app", p.pipe.app, "brokers", p.cfg.Brokers, "wait", reachPatience, "err", err)
		}
		if pause(ctx, idlePoll/4); ctx.Err() != nil {
			return fmt.Errorf("%w at %s: %w", ErrUnreachable, strings.Join(p.cfg.Brokers, ", "), err)
		}
	}
}

// accept refuses a plan that refuses, or that has something to create: run changes no topic.
func (p *Processor) accept(ctx context.Context, steps topics.Steps) error {
	if err := steps.Refused(); err != nil {
		return err
	}
	if pending := steps.Pending(); len(pending) > 0 {
		var names []string
		for _, s := range pending {
			names = append(names, s.Topic)
		}
		return fmt.Errorf("%w: %s: create them with `topics apply`", ErrMissingTopics, strings.Join(names, ", "))
	}
	p.partitions = p.pipe.partitionsOf(steps)
	p.warnTopics(steps)
	return p.readLimits(ctx, steps)
}

// partitionsOf returns the number of tasks of each stage: the partitions of what it reads.
func (p *Pipeline) partitionsOf(steps topics.Steps) map[string]int32 {
	count := map[string]int32{}
	for _, step := range steps {
		for _, s := range p.stages {
			if slices.Contains(s.Inputs(), step.Topic) {
				count[s.name] = step.Partitions
			}
		}
	}
	return count
}

// warnTopics logs what should be known about topics, one line for each reason and not for each topic.
func (p *Processor) warnTopics(steps topics.Steps) {
	var reasons []topics.Reason
	about := map[topics.Reason][]string{}
	for _, s := range steps {
		for _, r := range s.Reasons {
			if r.Level != topics.LevelWarn {
				continue
			}
			if about[r] == nil {
				reasons = append(reasons, r)
			}
			about[r] = append(about[r], s.Topic)
		}
	}
	for _, r := range reasons {
		p.cfg.Logger.Warn("topics", "app", p.pipe.app, "topics", strings.Join(about[r], ","), "key", r.Key, "reason", r.Cause, "remedy", r.Remedy)
	}
}

// The client's own default of the largest batch, and what a packed id needs of a record.
const (
	clientBatchBytes = 1_000_012
	packedIDBytes    = 32
	packedOverhead   = 1_000 // key, topic name, batch
)

// readLimits reads max.message.bytes, so that a record that does not fit fails in its savepoint and not in the commit. One
// limit holds for all topics that are written, because the client has one size for its batches.
func (p *Processor) readLimits(ctx context.Context, steps topics.Steps) error {
	var written []string
	for _, s := range steps {
		if len(s.Roles) > 1 || s.Roles[0] != topics.RoleInput {
			written = append(written, s.Topic)
		}
	}
	haves, err := topics.NewAdmin(p.admin).Describe(ctx, written...)
	if err != nil {
		return err
	}
	smallest := math.MaxInt32
	for _, h := range haves {
		n, err := strconv.Atoi(h.Config["max.message.bytes"])
		if err != nil {
			n = clientBatchBytes // the broker does not say: assume no more than any broker takes
		}
		smallest = min(smallest, n)
	}
	p.limits = Limits{}
	for _, name := range written {
		p.limits[name] = smallest
	}
	p.maxRecordBytes, p.maxIDs = smallest, max(1, (smallest-packedOverhead)/packedIDBytes/2)
	return nil
}

// missingTopics looks whether a commit that ran out of time waited for a topic that was deleted: that needs a person. When the
// brokers do not answer, nothing is missing as far as anyone knows.
func (p *Processor) missingTopics() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	steps, err := topics.NewAdmin(p.admin).Plan(ctx, p.pipe.Topics(), p.cfg.TopicRules)
	if err != nil || len(steps.Pending()) == 0 {
		return nil
	}
	return &session.FatalError{Err: p.accept(ctx, steps)}
}

// warnStranger says how long a take-over may wait when this instance is new to a group that has members.
func (p *Processor) warnStranger(ctx context.Context, id *session.Identity) {
	if !id.Fresh {
		return
	}
	members, err := session.Members(ctx, p.admin, p.pipe.app)
	if err != nil || members == 0 {
		return
	}
	p.cfg.Logger.Info("this instance is new and the group has members: if it replaces one that died, its tasks wait for session.timeout.ms",
		"app", p.pipe.app, "members", members, "wait", p.cfg.SessionTimeout)
}
