package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/topics"
)

// Config is how a pipeline runs. Names in the comments are Kafka's. A zero value is the default named with it.
type Config struct {
	Brokers    []string  // bootstrap.servers; required
	Client     []kgo.Opt // further client options: TLS, SASL, dialer, client.id. Those that the engine owns are refused
	InstanceID string    // group.instance.id; "" = the first free slot of StateDir names the instance
	StateDir   string    // state.dir; "" = $XDG_STATE_HOME/tallystick, else ~/.local/state/tallystick
	Workers    int       // num.stream.threads; 0 = min(GOMAXPROCS, tasks)

	CommitInterval     time.Duration // commit.interval.ms; 100 ms
	TransactionTimeout time.Duration // transaction.timeout.ms; 20 s
	SessionTimeout     time.Duration // session.timeout.ms; 10 s
	HeartbeatInterval  time.Duration // heartbeat.interval.ms; 3 s
	MaxTaskIdle        time.Duration // max.task.idle.ms, as in Kafka Streams: 0 = a task of several inputs waits for what the broker has of each, > 0 = and so long for what producers may yet send, < 0 = for neither
	RebalanceTimeout   time.Duration // rebalance timeout (max.poll.interval.ms); 15 s
	DrainTimeout       time.Duration // drain.timeout.ms: bound of the last commit and of closing; 10 s

	RepartitionPurgeInterval time.Duration // repartition.purge.interval.ms: how often what is committed of repartition topics is deleted; 30 s

	OffsetReset   OffsetReset  // auto.offset.reset; Earliest. A repartition topic is always read from its start
	MaxStateBytes int64        // state.memory.max.bytes; half of the machine's or cgroup's memory
	ExpectedRate  float64      // dedupe.expected.rate in records per second over all partitions; 0 = measured
	TopicRules    topics.Rules // what topics must look like
	LeaveOnStop   bool         // leave the group on shutdown even with a group.instance.id
	Events        Events       // callbacks
	Logger        *slog.Logger // nil = discard
	Clock         func() time.Time
}

// OffsetReset is where a task starts that has neither a marker nor a committed offset.
type OffsetReset string

const (
	// Earliest starts at the beginning of the input.
	Earliest OffsetReset = "earliest"
	// Latest starts at the end of the input as it is when the task is first assigned.
	Latest OffsetReset = "latest"
	// None stops the task with an error.
	None OffsetReset = "none"
)

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.CommitInterval, 100*time.Millisecond)
	set(&c.TransactionTimeout, 20*time.Second)
	set(&c.SessionTimeout, 10*time.Second)
	set(&c.HeartbeatInterval, 3*time.Second)
	set(&c.RebalanceTimeout, 15*time.Second)
	set(&c.DrainTimeout, 10*time.Second)
	set(&c.RepartitionPurgeInterval, 30*time.Second)
	if c.OffsetReset == "" {
		c.OffsetReset = Earliest
	}
	if c.StateDir == "" {
		c.StateDir = defaultStateDir()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

func defaultStateDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "tallystick")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "tallystick")
	}
	return filepath.Join(home, ".local", "state", "tallystick")
}

// validate reports all problems of a configuration with defaults at once: field, value, limit and fix.
func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Brokers) == 0 {
		bad("bootstrap.servers is empty: name at least one broker as host:port")
	}
	if c.InstanceID != "" && !nameRule.MatchString(c.InstanceID) {
		bad("group.instance.id %q: use 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit", c.InstanceID)
	}
	if c.Workers < 0 {
		bad("num.stream.threads=%d: use 0 for the default, or a positive number", c.Workers)
	}
	if c.CommitInterval < time.Millisecond || c.CommitInterval > c.TransactionTimeout/2 {
		bad("commit.interval.ms=%d: use 1 to %d, half of transaction.timeout.ms", c.CommitInterval.Milliseconds(), c.TransactionTimeout.Milliseconds()/2)
	}
	if c.HeartbeatInterval > c.SessionTimeout/3 {
		bad("heartbeat.interval.ms=%d: use at most %d, a third of session.timeout.ms", c.HeartbeatInterval.Milliseconds(), c.SessionTimeout.Milliseconds()/3)
	}
	if c.RebalanceTimeout >= c.TransactionTimeout {
		bad("max.poll.interval.ms=%d: use less than transaction.timeout.ms=%d, else a slow rebalance times the open transaction out", c.RebalanceTimeout.Milliseconds(), c.TransactionTimeout.Milliseconds())
	}
	if c.RepartitionPurgeInterval < time.Millisecond {
		bad("repartition.purge.interval.ms=%d: use at least 1", c.RepartitionPurgeInterval.Milliseconds())
	}
	if c.OffsetReset != Earliest && c.OffsetReset != Latest && c.OffsetReset != None {
		bad("auto.offset.reset=%q: use earliest, latest or none", c.OffsetReset)
	}
	return errors.Join(append(errs, c.checkClient())...)
}

// checkClient refuses client options that the engine owns.
func (c Config) checkClient() error {
	client, err := kgo.NewClient(c.Client...)
	if err != nil {
		return fmt.Errorf("client options: %w", err)
	}
	defer client.Close()
	var errs []error
	for _, o := range []struct {
		opt  any
		name string
		why  string
	}{
		{kgo.TransactionalID, "TransactionalID", "it is made of application.id, instance and worker"},
		{kgo.ConsumerGroup, "ConsumerGroup", "the group is the application.id"},
		{kgo.InstanceID, "InstanceID", "set Config.InstanceID"},
		{kgo.ManualFlushing, "ManualFlushing", "a commit flushes"},
		{kgo.ConsumeRegex, "ConsumeRegex", "inputs are those that stages handle"},
		{kgo.ConsumePartitions, "ConsumePartitions", "the group assigns partitions"},
		{kgo.DefaultProduceTopicAlways, "DefaultProduceTopicAlways", "state records have a topic of their own"},
		{kgo.AllowAutoTopicCreation, "AllowAutoTopicCreation", "a state topic made with the broker's defaults loses state: use topics.Apply"},
		{kgo.ConsumeTopics, "ConsumeTopics", "inputs are those that stages handle"},
		{kgo.KeepRetryableFetchErrors, "KeepRetryableFetchErrors", "passing errors would stop tasks"},
	} {
		if v := client.OptValue(o.opt); isSet(v) {
			errs = append(errs, fmt.Errorf("client option kgo.%s is the engine's: %s", o.name, o.why))
		}
	}
	return errors.Join(errs...)
}

func isSet(v any) bool {
	switch v := v.(type) {
	case string:
		return v != ""
	case *string:
		return v != nil && *v != ""
	case bool:
		return v
	case []string:
		return len(v) > 0
	case map[string]map[int32]kgo.Offset:
		return len(v) > 0
	}
	return false
}

// workers returns how many workers run for a number of tasks.
func (c Config) workers(tasks int) int {
	if c.Workers > 0 {
		return c.Workers
	}
	return max(1, min(runtime.GOMAXPROCS(0), tasks))
}
