package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/topics"
)

// program is one of the things compared.
type program struct {
	name    string
	binary  string // folder of its main package
	args    []string
	updates string // topic of its outputs
	prepare func(ctx context.Context, cl *kgo.Client, app string) (made []string, err error)
}

const (
	strictLoop = "loop, strict codec"
	handLoop   = "loop, hand scanner"
	oneWorker  = "ledger, 1 worker"
	twoWorkers = "ledger, 2 workers"
)

func programs() []program {
	return []program{
		{strictLoop, "loop", nil, "loop-updates", makeLoopTopics},
		{handLoop, "loop", []string{"-scanner"}, "loop-updates", makeLoopTopics},
		{oneWorker, "job", []string{"-workers", "1"}, topology.Updates.Name, makeLedgerTopics},
		{twoWorkers, "job", []string{"-workers", "2"}, topology.Updates.Name, makeLedgerTopics},
	}
}

func makeLoopTopics(ctx context.Context, cl *kgo.Client, _ string) ([]string, error) {
	adm := kadm.NewClient(cl)
	compact := "compact"
	updates, err := adm.CreateTopics(ctx, partitions, 1, nil, "loop-updates")
	if err = errors.Join(err, updates.Error()); err != nil {
		return nil, err
	}
	state, err := adm.CreateTopics(ctx, partitions, 1, map[string]*string{"cleanup.policy": &compact}, "loop-ids", "loop-accounts")
	return []string{"loop-updates", "loop-ids", "loop-accounts"}, errors.Join(err, state.Error())
}

// makeLedgerTopics makes them as topics apply does.
func makeLedgerTopics(ctx context.Context, cl *kgo.Client, app string) ([]string, error) {
	wants := topology.Ledger(app, topology.Config{AutoCreate: true}).Topics()
	if _, err := topics.NewAdmin(cl).Apply(ctx, wants, topics.Rules{Partitions: partitions}); err != nil {
		return nil, err
	}
	var names []string
	for _, w := range wants {
		if w.Name != input && !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
		}
	}
	return names, nil
}

// remove deletes a run's topics and waits until they are gone, so that the next run begins with new ones.
func remove(ctx context.Context, adm *kadm.Client, names []string) error {
	if _, err := adm.DeleteTopics(ctx, names...); err != nil {
		return err
	}
	return kafkatest.Poll(ctx, func(ctx context.Context) error {
		found, err := adm.ListTopics(ctx, names...)
		if err != nil {
			return err
		}
		for _, t := range found {
			if !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
				return fmt.Errorf("%s is still there", t.Topic)
			}
		}
		return nil
	})
}
