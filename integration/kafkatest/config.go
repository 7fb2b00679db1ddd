package kafkatest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// stockTuning is what makes a broker small and quick to fail over. Nothing in it changes what a
// client may rely on; the times that do (session, transaction) are the client's own.
var stockTuning = map[string]string{
	"auto.create.topics.enable":            "false",
	"offsets.topic.num.partitions":         "3",
	"offsets.topic.segment.bytes":          "4194304",
	"transaction.state.log.num.partitions": "3",
	"transaction.state.log.segment.bytes":  "4194304",
	"metadata.log.segment.bytes":           "8388608",
	// Stock: 10 s. A test that waits for a transaction's timeout would wait for the scan.
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",

	"group.initial.rebalance.delay.ms":         "0",
	"group.min.session.timeout.ms":             "500",
	"group.consumer.min.session.timeout.ms":    "500",
	"group.consumer.min.heartbeat.interval.ms": "100",
	"group.coordinator.threads":                "1",

	"num.network.threads":               "2",
	"num.io.threads":                    "2",
	"background.threads":                "2",
	"num.recovery.threads.per.data.dir": "1",
	"num.replica.fetchers":              "1",
	"log.cleaner.dedupe.buffer.size":    "4194304",
	"log.cleaner.backoff.ms":            "500",

	"replica.fetch.wait.max.ms": "100",
	"replica.lag.time.max.ms":   "5000",
	"replica.socket.timeout.ms": "5000",
	"request.timeout.ms":        "5000",

	// A killed broker comes back only when its dead self's session is over. Shorter than 3 s fences
	// healthy brokers on a machine with two busy cores.
	"broker.session.timeout.ms":                 "3000",
	"broker.heartbeat.interval.ms":              "300",
	"controller.quorum.election.timeout.ms":     "500",
	"controller.quorum.fetch.timeout.ms":        "1000",
	"controller.quorum.election.backoff.max.ms": "100",
	"controlled.shutdown.max.retries":           "1",
}

// brokerConfig is the properties file of the broker with this index.
func brokerConfig(o Options, s slot, index int, dataDir string) (string, error) {
	c := maps.Clone(stockTuning)
	maps.Copy(c, replication(o.Brokers))
	c["process.roles"] = "broker,controller"
	c["node.id"] = strconv.Itoa(index + 1)
	c["log.dirs"] = dataDir
	c["controller.listener.names"] = "CONTROLLER"
	c["controller.quorum.voters"] = voters(o.Brokers, s)
	if err := listeners(c, o, s, index); err != nil {
		return "", err
	}
	maps.Copy(c, o.Config)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%s=%s\n", k, c[k])
	}
	return b.String(), nil
}

func replication(brokers int) map[string]string {
	factor, inSync := strconv.Itoa(brokers), "1"
	if brokers >= 3 {
		inSync = "2"
	}
	return map[string]string{
		"default.replication.factor":                       factor,
		"min.insync.replicas":                              inSync,
		"offsets.topic.replication.factor":                 factor,
		"transaction.state.log.replication.factor":         factor,
		"transaction.state.log.min.isr":                    inSync,
		"share.coordinator.state.topic.replication.factor": factor,
		"share.coordinator.state.topic.min.isr":            inSync,
		"share.coordinator.state.topic.num.partitions":     "1",
	}
}

func voters(brokers int, s slot) string {
	var v []string
	for i := range brokers {
		v = append(v, fmt.Sprintf("%d@%s", i+1, s.addr(controllerPort, i)))
	}
	return strings.Join(v, ",")
}

// listeners sets what the broker listens on and what it tells others to dial.
func listeners(c map[string]string, o Options, s slot, index int) error {
	var listen, advertise, protocols []string
	add := func(name, protocol, addr, advertised string, config map[string]string) {
		listen, protocols = append(listen, name+"://"+addr), append(protocols, name+":"+protocol)
		if advertised != "" {
			advertise = append(advertise, name+"://"+advertised)
		}
		for k, v := range config {
			c[listenerKey(name, k)] = v
		}
	}
	client := s.addr(clientPort, index)
	add("PLAINTEXT", "PLAINTEXT", client, client, nil)
	add("CONTROLLER", "PLAINTEXT", s.addr(controllerPort, index), "", nil)
	c["inter.broker.listener.name"] = "PLAINTEXT"
	if o.Proxied {
		add("INTERNAL", "PLAINTEXT", s.addr(internalPort, index), s.addr(proxyPort, index), nil)
		c["inter.broker.listener.name"] = "INTERNAL"
	}
	if len(o.Users) > 0 {
		sasl := s.addr(saslPort, index)
		add("SASL_PLAINTEXT", "SASL_PLAINTEXT", sasl, sasl, nil)
		passwords(c, o.Users)
	}
	if err := addListeners(o, s, index, add); err != nil {
		return err
	}
	c["listeners"] = strings.Join(listen, ",")
	c["advertised.listeners"] = strings.Join(advertise, ",")
	c["listener.security.protocol.map"] = strings.Join(protocols, ",")
	return nil
}

// passwords turns authorization on. The plain listener stays a super user's, for the test itself.
func passwords(c map[string]string, users map[string]string) {
	c["sasl.enabled.mechanisms"] = "PLAIN"
	c["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = PlainUsers(users)
	c["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
	c["super.users"] = "User:ANONYMOUS"
	c["allow.everyone.if.no.acl.found"] = "true"
}

// PlainUsers is the plain.sasl.jaas.config of a listener for users with their passwords.
func PlainUsers(users map[string]string) string {
	jaas := "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for _, u := range slices.Sorted(maps.Keys(users)) {
		jaas += fmt.Sprintf(" user_%s=%q", u, users[u])
	}
	return jaas + ";"
}
