package topics

import (
	"strconv"
	"time"
)

// Kafka's names of the topic configs that matter to the engine. Only these are ever compared.
const (
	keyCleanup         = "cleanup.policy"
	keyRetention       = "retention.ms"
	keyRetentionBytes  = "retention.bytes"
	keySegment         = "segment.ms"
	keySegmentBytes    = "segment.bytes"
	keyMaxMessage      = "max.message.bytes"
	keyMinInsync       = "min.insync.replicas"
	keyUnclean         = "unclean.leader.election.enable"
	keyTimestampType   = "message.timestamp.type"
	keyTimestampAfter  = "message.timestamp.after.max.ms"
	keyTimestampBefore = "message.timestamp.before.max.ms"
)

const (
	forever = "-1"
	// futureLimit is how far ahead of the broker's clock a record may be stamped. One record of the year 2100 would expire a
	// whole dedupe store.
	futureLimit = time.Hour
	// kafkaWeek is Kafka's own default of retention.ms and segment.ms. It is written down when an input is created, so that the
	// redelivery horizon does not change with a broker's setting.
	kafkaWeek = 7 * 24 * time.Hour
	// headerRoom is what a dead letter's own headers may add to the record that it keeps.
	headerRoom = 16 << 10
)

// defaults adds the settings with which a topic of a role is created.
func (p *planner) defaults(w Want, config map[string]string) {
	switch w.Role {
	case RoleInput:
		inputDefaults(w, config)
	case RoleState:
		config[keyCleanup] = "compact"
		config[keyUnclean] = "false"
		p.sizeDefaults(w, config)
	case RoleRepartition:
		repartitionDefaults(config)
		p.sizeDefaults(w, config)
	case RoleOutput, RoleDeadLetters:
		config[keyCleanup] = "delete"
		config[keyRetention], config[keyRetentionBytes] = forever, forever
		config[keyUnclean] = "false"
		p.sizeDefaults(w, config)
	}
	if p.rules.Replication >= 3 {
		config[keyMinInsync] = "2" // with the broker's replication unknown, its min.insync.replicas stays too: a higher one is capped
	}
}

// inputDefaults leaves the retention of an input that is also an output: the role that keeps longer wins.
func inputDefaults(w Want, config map[string]string) {
	put := func(k, v string) {
		if _, ok := config[k]; !ok {
			config[k] = v
		}
	}
	put(keyCleanup, cleanupOf(w))
	if w.Window > 0 && !w.Compacted {
		put(keyRetention, millis(kafkaWeek))
		put(keySegment, millis(kafkaWeek))
	}
	if w.Window > 0 || w.Timed {
		put(keyTimestampType, "CreateTime")
		put(keyTimestampAfter, millis(futureLimit))
	}
}

func cleanupOf(w Want) string {
	if w.Compacted {
		return "compact"
	}
	return "delete"
}

// sizeDefaults lets an output take what its inputs take, and a dead letter its headers on top. State too: the engine writes with one
// size for all topics, the smallest.
func (p *planner) sizeDefaults(w Want, config map[string]string) {
	limit := p.inputLimit(w)
	if limit == 0 {
		return
	}
	if w.Role == RoleDeadLetters {
		limit += headerRoom
	}
	if old, err := strconv.ParseInt(config[keyMaxMessage], 10, 64); err != nil || old < limit {
		config[keyMaxMessage] = strconv.FormatInt(limit, 10)
	}
}

// inputLimit is the largest max.message.bytes of the inputs behind a want, 0 when no broker said.
func (p *planner) inputLimit(w Want) int64 {
	var limit int64
	for _, t := range p.inputs(w) {
		if n, ok := t.have.number(keyMaxMessage); ok {
			limit = max(limit, n)
		}
	}
	return limit
}

// inputs returns the inputs behind a want: where its stage's records come from, or every stage's when the want belongs to none.
func (p *planner) inputs(w Want) []*topic {
	if w.Stage != "" {
		return p.origins(w.Stage)
	}
	var all []*topic
	for _, stage := range p.stages {
		all = append(all, p.uses(stage, RoleInput)...)
	}
	return all
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
