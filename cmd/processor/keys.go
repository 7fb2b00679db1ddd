package main

import (
	"os"
	"path/filepath"
)

// keyGroup says which commands take a key as a flag; the file and the environment may always hold all of them.
type keyGroup int

const (
	groupConnection keyGroup = iota + 1 // how to reach and trust the brokers
	groupApplication
	groupEngine // threads, timeouts, state
	groupLedger // what the job does with an event
	groupTopics // how topics are created
	groupOperations
)

var groupTitles = map[keyGroup]string{
	groupConnection:  "Connection",
	groupApplication: "Identity",
	groupEngine:      "Engine",
	groupLedger:      "Ledger",
	groupTopics:      "Topics",
	groupOperations:  "Operations",
}

// key is one entry of the configuration: the single source of its default, its limits, its flag, its documentation and
// the way it is read.
type key struct {
	name    string // Kafka's own name where Kafka has one
	group   keyGroup
	def     string
	limit   string   // what is allowed, for people
	example string   // a value to copy out of an error message
	values  []string // all that is allowed, if they are few
	shape   shape    // what is allowed, for editors; nil: any text
	secret  bool     // never printed, and refused on the command line in clear
	pathDef func(c *cli) string
	doc     string // sentences, wrapped by config init
	set     func(*Config, string) error
}

func (k key) defaultValue(c *cli) string {
	if k.pathDef != nil {
		return k.pathDef(c)
	}
	return k.def
}

// keys is the configuration, in the order in which people read it.
var keys = []key{
	text("application.id", groupApplication, "ledger", appName, func(c *Config) *string { return &c.ApplicationID },
		"Names the consumer group and prefixes the state topic, the dead letters and the transactional ids of this job. Changing it starts from nothing, but writes to the same ledger-updates and ledger-skipped: only one id may ever write there."),
	text("group.instance.id", groupApplication, "", instanceName, func(c *Config) *string { return &c.GroupInstanceID },
		"A fixed name of this process in the group, unique among all live ones (a StatefulSet's pod name). Empty: a name kept in state.dir. With a fixed name a stop does not leave the group, so that a rolling restart moves nothing."),
	names("bootstrap.servers", groupConnection, "localhost:9092", func(c *Config) *[]string { return &c.BootstrapServers },
		"Brokers to ask first, host:port, separated by commas."),
	text("client.id", groupConnection, "processor", clientName, func(c *Config) *string { return &c.ClientID },
		"The name that brokers show in their logs, metrics and quotas."),
	oneOf("security.protocol", groupConnection, "PLAINTEXT", []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, func(c *Config) *string { return &c.SecurityProtocol },
		"How to speak to the brokers: SSL encrypts, SASL logs in."),
	oneOf("sasl.mechanism", groupConnection, "", []string{"", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", oauthBearer}, func(c *Config) *string { return &c.SASLMechanism },
		"How to log in. Required with SASL_PLAINTEXT and SASL_SSL."),
	free("sasl.username", groupConnection, func(c *Config) *string { return &c.SASLUsername },
		"The user to log in as."),
	hiddenText("sasl.password", groupConnection, func(c *Config) *secret { return &c.SASLPassword },
		"The password, best as a reference: ${env:NAME} or ${file:/run/secrets/name}."),
	hiddenText("sasl.jaas.config", groupConnection, func(c *Config) *secret { return &c.SASLJaas },
		"User and password, or client id and secret, as a Java client writes them (PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule), instead of the keys for each."),
	tokenEndpoint("sasl.oauthbearer.token.endpoint.url", groupConnection, func(c *Config) *string { return &c.TokenEndpoint },
		"Where OAUTHBEARER gets its token. https://…: from the token endpoint, for the client credentials below; a new one is fetched when four fifths of its life are over. The endpoint's certificate is checked against the system's authorities and those of ssl.truststore. file:///path: out of a file that something else keeps fresh, read again when the last token is four fifths through."),
	free("sasl.oauthbearer.client.credentials.client.id", groupConnection, func(c *Config) *string { return &c.TokenClientID },
		"The client id for the token endpoint."),
	hiddenText("sasl.oauthbearer.client.credentials.client.secret", groupConnection, func(c *Config) *secret { return &c.TokenClientSecret },
		"The client secret for the token endpoint, best as a reference: ${env:NAME} or ${file:/run/secrets/name}."),
	free("sasl.oauthbearer.scope", groupConnection, func(c *Config) *string { return &c.TokenScope },
		"The scope to ask the token endpoint for. Empty: none."),
	free("ssl.truststore.location", groupConnection, func(c *Config) *string { return &c.TruststoreLocation },
		"A PEM file with the authorities that sign the brokers' certificates; read again at every connection, and a file that is only half written is not believed. Empty: those of the system."),
	free("ssl.truststore.certificates", groupConnection, func(c *Config) *string { return &c.TruststoreCertificates },
		"The same authorities as PEM text."),
	free("ssl.keystore.location", groupConnection, func(c *Config) *string { return &c.KeystoreLocation },
		"A PEM file with this client's private key and certificate chain, for mutual TLS; read again at every connection, so that a renewed certificate needs no restart."),
	hiddenText("ssl.keystore.key", groupConnection, func(c *Config) *secret { return &c.KeystoreKey },
		"The private key as PEM text, together with ssl.keystore.certificate.chain."),
	free("ssl.keystore.certificate.chain", groupConnection, func(c *Config) *string { return &c.KeystoreChain },
		"The certificate chain as PEM text, together with ssl.keystore.key."),
	oneOf("ssl.endpoint.identification.algorithm", groupConnection, "https", []string{"https", ""}, func(c *Config) *string { return &c.EndpointIdentification },
		"https: the certificate must name the broker's host. Empty: any name is accepted, which lets whoever holds a signed certificate in between."),

	integer("num.stream.threads", groupEngine, "0", 0, 256, func(c *Config, n int64) { c.Threads = int(n) },
		"Workers in this process, each with its own consumer, producer and transactions. 0: one per CPU, at most one per task."),
	millis("commit.interval.ms", groupEngine, "100", 1, 60_000, func(c *Config) *dur { return &c.CommitInterval },
		"Time between two commits. Outputs become visible at a commit, so this is the latency under load; when the input is drained a commit comes earlier."),
	millis("transaction.timeout.ms", groupEngine, "20000", 1_000, 900_000, func(c *Config) *dur { return &c.TransactionTimeout },
		"When the broker aborts the open transaction of a process that went silent. It must be longer than max.poll.interval.ms, and the broker refuses more than its transaction.max.timeout.ms."),
	millis("session.timeout.ms", groupEngine, "10000", 100, 1_800_000, func(c *Config) *dur { return &c.SessionTimeout },
		"When the group gives the tasks of a silent process to others. It bounds the take-over after a crash without restart; the broker allows 6000 to 1800000 unless told otherwise."),
	millis("heartbeat.interval.ms", groupEngine, "3000", 10, 600_000, func(c *Config) *dur { return &c.HeartbeatInterval },
		"Time between two signs of life; at most a third of session.timeout.ms."),
	millis("max.poll.interval.ms", groupEngine, "15000", 100, 900_000, func(c *Config) *dur { return &c.RebalanceTimeout },
		"How long a rebalance waits for a worker before it goes on without it (the group's rebalance timeout)."),
	millis("max.task.idle.ms", groupEngine, "0", -1, 3_600_000, func(c *Config) *dur { return &c.MaxTaskIdle },
		"A task of a stage with several inputs takes records in the order of their times. 0: it waits for what the broker has of each input. More: it also waits this long for what producers may yet send to one that is read to its end. -1: it waits for nothing, and order between inputs is left to chance. A stage with one input, as the ledger's, never waits."),
	oneOf("auto.offset.reset", groupEngine, "earliest", []string{"earliest", "latest", "none"}, func(c *Config) *string { return &c.AutoOffsetReset },
		"Where a task starts that has never committed: at the first event, at the next one, or not at all. It never applies to a task with a history."),
	millis("repartition.purge.interval.ms", groupEngine, "30000", 1, 86_400_000, func(c *Config) *dur { return &c.RepartitionPurge },
		"Time between two deletions of what is committed of repartition topics. The ledger has none; it matters to jobs of several stages."),
	path("state.dir", groupEngine, defaultStateDir, func(c *Config) *string { return &c.StateDir },
		"Where this process keeps its name and its lock. It must survive restarts: with it a killed process is back in milliseconds, without it after a session timeout. Default: $XDG_STATE_HOME/tallystick, else the one below."),
	integer("state.memory.max.bytes", groupEngine, "0", 0, 1<<50, func(c *Config, n int64) { c.StateMemoryMax = n },
		"What the remembered event ids may need when the window is full, by the estimate at start (rows of tables are not counted); above it, run refuses and names the dedupe.window that would fit. 0: half of the memory of the machine or cgroup."),
	oneOf("partitioner", groupEngine, "murmur2", []string{"murmur2", "crc32", "fnv1a"}, func(c *Config) *string { return &c.Partitioner },
		"How the producers of the input map a key to a partition: murmur2 is Java's default, crc32 librdkafka's (consistent), fnv1a Sarama's. A record on another partition than its key's is a dead letter."),

	window("dedupe.window", groupLedger, "14d", func(c *Config) *dur { return &c.DedupeWindow },
		"How long an event id is remembered, in stream time. An older event whose id is not known any more is never applied: it becomes a dead letter."),
	decimal("dedupe.expected.rate", groupLedger, "0", 0, 10_000_000, func(c *Config) *float64 { return &c.DedupeExpectedRate },
		"New events a second, for the memory estimate at start. 0: measured from the last hour of the input."),
	horizon("redelivery.horizon", groupLedger, "topic", func(c *Config) *dur { return &c.RedeliveryHorizon },
		"How long after an event its duplicate may still arrive. run refuses a dedupe.window that is shorter. topic: the input's retention.ms plus segment.ms; must be a duration when the input is kept for ever."),
	boolean("accounts.auto_create", groupLedger, "true", func(c *Config) *bool { return &c.AutoCreate },
		"true: the first credit opens an account. false: a credit to an unknown account is rejected (unknown_account)."),

	integer("replication.factor", groupTopics, "-1", -1, 32_767, func(c *Config, n int64) { c.ReplicationFactor = int16(n) },
		"Copies of each topic that this job creates. -1: the broker's default. Below 3 a lost disk can lose committed events, and topics plan says so."),
	exceptions("topics.allow", groupTopics, func(c *Config) *[]string { return &c.TopicsAllow },
		"Refusals of topics plan that are accepted by name, where the remedy offers it; they become warnings."),
	boolean("production", groupTopics, "false", func(c *Config) *bool { return &c.Production },
		"true: what topics plan only warns about on a small cluster (one copy, min.insync.replicas 1) is refused."),

	listen("admin.listen", groupOperations, "127.0.0.1:8090", func(c *Config) *string { return &c.AdminListen },
		"Address of /livez, /readyz, /status and /query, which answers who asks from this machine only. Loopback unless told otherwise, because it has no password. off: no port."),
	millis("drain.timeout.ms", groupOperations, "10000", 1, 3_600_000, func(c *Config) *dur { return &c.DrainTimeout },
		"After the first SIGTERM or SIGINT: how long to finish the open transaction, and again to leave. Keep the supervisor's grace period longer than the double."),
}

// fixedKeys are keys that a Kafka Streams or client configuration often holds and that have one possible value here.
// That value is accepted, because it says what happens anyway; any other is refused with the reason.
var fixedKeys = []struct{ name, only, reason string }{
	{"num.standby.replicas", "0", "standby tasks are not built yet: a lost task is restored from its state topic"},
	{"group.protocol", "classic", "the consumer protocol (KIP-848) is not built yet"},
	{"processing.guarantee", "exactly_once_v2", "there is no weaker mode"},
	{"isolation.level", "read_committed", "reading uncommitted records would break exactly-once"},
	{"enable.auto.commit", "false", "offsets are committed in the transaction, by the engine alone"},
	{"enable.idempotence", "true", "a transactional producer is always idempotent"},
	{"acks", "all", "a transaction needs acks from all in-sync replicas"},
	{"ssl.keystore.type", "PEM", "Java key stores are not read: convert with keytool -importkeystore and openssl pkcs12 -nodes"},
	{"ssl.truststore.type", "PEM", "Java trust stores are not read: export with keytool -exportcert -rfc"},
}

// refusedKeys are keys with a meaning elsewhere that nothing here implements.
var refusedKeys = []struct{ name, reason string }{
	{"ssl.key.password", "encrypted private keys are not read yet: protect the file by its permissions"},
	{"ssl.keystore.password", "PEM files have no store password"},
	{"ssl.truststore.password", "PEM files have no store password"},
	{"sasl.kerberos.service.name", "GSSAPI is not built: use SCRAM or OAUTHBEARER over SSL"},
	{"application.server", "query forwarding is not built yet"},
	{"default.deserialization.exception.handler", "a bad event always becomes a dead letter"},
	{"rocksdb.config.setter", "state is kept in memory, not in RocksDB"},
	{"transactional.id", "it is application.id, instance and worker number, so that a restart can fence its predecessor"},
	{"group.id", "the group is application.id"},
}

func keyNamed(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

// defaultStateDir is where the XDG directories put state that must survive restarts.
func defaultStateDir(c *cli) string {
	if dir := c.getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "tallystick")
	}
	home := c.getenv("HOME")
	if home == "" {
		return filepath.Join(os.TempDir(), "tallystick")
	}
	return filepath.Join(home, ".local", "state", "tallystick")
}
