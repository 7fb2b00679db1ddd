package main

import (
	"log/slog"

	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/topics"
)

// job declares the ledger as the configuration wants it.
func (c Config) job() *pipeline.Pipeline {
	p := topology.Ledger(c.ApplicationID, topology.Config{DedupeWindow: c.DedupeWindow, AutoCreate: c.AutoCreate})
	for _, s := range p.Stages() {
		s.PartitionedBy(pipeline.Partitioner(c.Partitioner))
	}
	return p
}

// engine is the configuration as the engine takes it.
func (c Config) engine(o runOptions, log *slog.Logger) (pipeline.Config, error) {
	client, err := c.clientOptions(log)
	return pipeline.Config{
		Brokers:                  c.BootstrapServers,
		Client:                   client,
		InstanceID:               c.GroupInstanceID,
		StateDir:                 c.StateDir,
		Workers:                  c.Threads,
		CommitInterval:           c.CommitInterval,
		TransactionTimeout:       c.TransactionTimeout,
		SessionTimeout:           c.SessionTimeout,
		HeartbeatInterval:        c.HeartbeatInterval,
		RebalanceTimeout:         c.RebalanceTimeout,
		MaxTaskIdle:              c.MaxTaskIdle,
		DrainTimeout:             c.DrainTimeout,
		RepartitionPurgeInterval: c.RepartitionPurge,
		OffsetReset:              pipeline.OffsetReset(c.AutoOffsetReset),
		MaxStateBytes:            c.StateMemoryMax,
		ExpectedRate:             c.DedupeExpectedRate,
		TopicRules:               c.topicRules(),
		LeaveOnStop:              o.leave,
		Events:                   o.events,
		Logger:                   log,
	}, err
}

// topicRules say what the topics of the job must look like.
func (c Config) topicRules() topics.Rules {
	return topics.Rules{
		Production:        c.Production,
		RedeliveryHorizon: c.RedeliveryHorizon,
		Replication:       c.ReplicationFactor,
		Allow:             c.TopicsAllow,
	}
}
