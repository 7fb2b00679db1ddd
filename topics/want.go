package topics

import "time"

// Role is what a stage uses a topic for. One topic can have several roles: the output of one stage is the input of another.
type Role string

const (
	// RoleInput is a topic that a stage reads.
	RoleInput Role = "input"
	// RoleOutput is a topic that a stage writes.
	RoleOutput Role = "output"
	// RoleRepartition is a topic through which stages of an application hand records to one of them under a new key. The engine
	// owns it, and deletes what the reading stage has committed.
	RoleRepartition Role = "repartition"
	// RoleState is the compacted topic that holds a stage's stores; partition i belongs to task i.
	RoleState Role = "state"
	// RoleDeadLetters is the topic that takes what a stage could not process; task i writes to partition i.
	RoleDeadLetters Role = "dead letters"
)

// Want is one use of a topic by one stage. A topic that is used several times is listed several times.
type Want struct {
	Name string
	Role Role
	// Stage is the name of the stage that uses the topic; of a repartition topic, the one that reads it. What a stage reads and its
	// state must have equal partition counts.
	Stage string
	// Writers are, for a repartition topic, the stages that write it. The largest of them decides its partition count when the
	// reading stage has no other input.
	Writers []string
	// Partitions is the count for a topic that does not exist when no existing topic of the stage decides it. 0 = Rules.Partitions.
	Partitions int32
	// Window is, for an input, the stage's shortest dedupe window; 0 = the stage has no dedupe store.
	Window time.Duration
	// Timed says, for an input, that the stage has windows or timers, so that a wrong record time changes outcomes.
	Timed bool
	// Compacted says, for an input, that only the last record of each key is needed (a table), so compaction is intended.
	Compacted bool
	// PerTask says, for an output, that task i writes to partition i, or that a reader relies on it.
	PerTask bool
	// Config is set when the topic is created, over the role's own settings. On an existing topic a different value is a warning.
	Config map[string]string
}

// Have is what a broker says of an existing topic.
type Have struct {
	Name string
	// ID is the broker's id of the topic, all zero if the broker has no ids. A topic that was deleted and made again has a new one.
	ID         [16]byte
	Partitions int32
	// Replicas is the smallest number of replicas of a partition, 0 = unknown.
	Replicas int
	// Config holds what the broker reports. A key that is absent is unknown: it is never taken as a difference.
	Config map[string]string
	// Err is set when the topic could not be read: it exists or not, nobody knows.
	Err error
}

// Rules are the settings of a comparison. The zero value is a one-broker development cluster.
type Rules struct {
	// Production turns warnings about durability into refusals.
	Production bool
	// RedeliveryHorizon is how long after its record time an event can still arrive, or arrive again. 0 = the retention.ms plus
	// the segment.ms of the input.
	RedeliveryHorizon time.Duration
	// Partitions is the count for topics that nothing else decides. 0 = DefaultPartitions.
	Partitions int32
	// Replication is the replication factor of topics that are created. 0 or -1 = the broker's default.
	Replication int16
	// Allow accepts refusals by name, each "topic:key" ("credit-events:message.timestamp.after.max.ms"): they become warnings.
	// Only refusals whose remedy says so can be accepted.
	Allow []string
}

// DefaultPartitions is the partition count of a topic that nothing else decides.
const DefaultPartitions = 4
