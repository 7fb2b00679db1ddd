package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/state"
)

// effect is one accepted key with a value other than its default, what else must be set for it to matter, and where its
// effect shows: behind the configuration, in what is handed to engine, client or planner.
type effect struct {
	value string
	with  string // further lines of the file
	shows func(t *testing.T, c Config) any
}

func effects(t *testing.T) map[string]effect {
	ca, own := writeFile(t, "ca.pem", selfSigned(t)), writeFile(t, "own.pem", selfSigned(t))
	const ssl, login = "security.protocol: SSL\n", "security.protocol: SASL_SSL\nsasl.mechanism: PLAIN\n"
	credentials := login + "sasl.username: u\nsasl.password: p\n"
	return map[string]effect{
		"application.id":                {"other", "", func(_ *testing.T, c Config) any { return c.job().App() }},
		"group.instance.id":             {"node-7", "", fromEngine(func(e pipeline.Config) any { return e.InstanceID })},
		"bootstrap.servers":             {"b:1,c:2", "", fromEngine(func(e pipeline.Config) any { return e.Brokers })},
		"client.id":                     {"other", "", fromClient(kgo.ClientID)},
		"security.protocol":             {"SSL", "", fromClient(kgo.Dialer)},
		"sasl.mechanism":                {"SCRAM-SHA-512", strings.Replace(credentials, "sasl.mechanism: PLAIN\n", "", 1), mechanism},
		"sasl.username":                 {"other", login + "sasl.password: p\n", firstMessage},
		"sasl.password":                 {"other", login + "sasl.username: u\n", firstMessage},
		"sasl.jaas.config":              {`'org.apache.kafka.common.security.plain.PlainLoginModule required username="x" password="y";'`, login, firstMessage},
		"num.stream.threads":            {"3", "", fromEngine(func(e pipeline.Config) any { return e.Workers })},
		"commit.interval.ms":            {"7", "", fromEngine(func(e pipeline.Config) any { return e.CommitInterval })},
		"session.timeout.ms":            {"9999", "", fromEngine(func(e pipeline.Config) any { return e.SessionTimeout })},
		"heartbeat.interval.ms":         {"77", "", fromEngine(func(e pipeline.Config) any { return e.HeartbeatInterval })},
		"max.poll.interval.ms":          {"7777", "", fromEngine(func(e pipeline.Config) any { return e.RebalanceTimeout })},
		"max.task.idle.ms":              {"7", "", fromEngine(func(e pipeline.Config) any { return e.MaxTaskIdle })},
		"transaction.timeout.ms":        {"33333", "", fromEngine(func(e pipeline.Config) any { return e.TransactionTimeout })},
		"drain.timeout.ms":              {"7", "", fromEngine(func(e pipeline.Config) any { return e.DrainTimeout })},
		"auto.offset.reset":             {"none", "", fromEngine(func(e pipeline.Config) any { return e.OffsetReset })},
		"repartition.purge.interval.ms": {"7", "", fromEngine(func(e pipeline.Config) any { return e.RepartitionPurgeInterval })},
		"state.dir":                     {"/srv/state", "", fromEngine(func(e pipeline.Config) any { return e.StateDir })},
		"state.memory.max.bytes":        {"7", "", fromEngine(func(e pipeline.Config) any { return e.MaxStateBytes })},
		"dedupe.expected.rate":          {"7", "", fromEngine(func(e pipeline.Config) any { return e.ExpectedRate })},
		"redelivery.horizon":            {"7d", "", fromEngine(func(e pipeline.Config) any { return e.TopicRules.RedeliveryHorizon })},
		"replication.factor":            {"3", "", fromEngine(func(e pipeline.Config) any { return e.TopicRules.Replication })},
		"topics.allow":                  {"credit-events:retention.ms", "", fromEngine(func(e pipeline.Config) any { return strings.Join(e.TopicRules.Allow, " ") })},
		"production":                    {"true", "", fromEngine(func(e pipeline.Config) any { return e.TopicRules.Production })},
		"dedupe.window":                 {"30d", "", func(_ *testing.T, c Config) any { return c.job().Stages()[0].Fingerprint(4) }},
		"accounts.auto_create":          {"false", "", outcomeOfFirstCredit},
		"partitioner":                   {"crc32", "", outcomeOfFirstCredit},
		"admin.listen":                  {"off", "", adminPortOpens},

		"ssl.truststore.location":               {ca, ssl, fromTLS(func(c *tls.Config) any { return c.RootCAs != nil })},
		"ssl.truststore.certificates":           {yamlBlock(selfSigned(t)), ssl, fromTLS(func(c *tls.Config) any { return c.RootCAs != nil })},
		"ssl.keystore.location":                 {own, ssl, fromTLS(func(c *tls.Config) any { return c.GetClientCertificate != nil })},
		"ssl.endpoint.identification.algorithm": {`""`, ssl, fromTLS(func(c *tls.Config) any { return c.VerifyConnection != nil })},
		"ssl.keystore.key":                      {"${file:" + own + "}", ssl + "ssl.keystore.certificate.chain: ${file:" + own + "}\n", fromTLS(func(c *tls.Config) any { return c.GetClientCertificate != nil })},
		"ssl.keystore.certificate.chain":        {"${file:" + own + "}", ssl + "ssl.keystore.key: ${file:" + own + "}\n", fromTLS(func(c *tls.Config) any { return c.GetClientCertificate != nil })},
	}
}

func TestEveryAcceptedKeyHasAnEffect(t *testing.T) {
	table := effects(t)
	maps.Copy(table, tokenEffects(t))
	for _, k := range keys {
		t.Run(k.name, func(t *testing.T) {
			e, ok := table[k.name]
			if !ok {
				t.Fatal("no effect is listed: a key without one must not be accepted")
			}
			with, err := loadConfig(t, e.with+k.name+": "+e.value+"\n", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			before := without(t, e.with)
			if got, old := e.shows(t, with.Config), e.shows(t, before); reflect.DeepEqual(got, old) {
				t.Errorf("%v with and without it", got)
			}
		})
	}
}

// without is the configuration with the key at its default; where the others need the key to be complete, the plain defaults.
func without(t *testing.T, yaml string) Config {
	t.Helper()
	s, err := loadConfig(t, yaml, nil, nil)
	if err != nil {
		s, err = loadConfig(t, "", nil, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Config
}

func yamlBlock(text string) string {
	return "|\n  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

func fromEngine(field func(pipeline.Config) any) func(*testing.T, Config) any {
	return func(t *testing.T, c Config) any {
		t.Helper()
		e, err := c.engine(runOptions{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return field(e)
	}
}

func fromClient(opt any) func(*testing.T, Config) any {
	return func(t *testing.T, c Config) any {
		t.Helper()
		client, err := c.newClient()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		return fmt.Sprintf("%v", client.OptValue(opt))
	}
}

func fromTLS(field func(*tls.Config) any) func(*testing.T, Config) any {
	return func(t *testing.T, c Config) any {
		t.Helper()
		s, err := c.connection(nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.TLS == nil {
			return "none"
		}
		conf, err := s.TLS.Config("broker")
		if err != nil {
			t.Fatal(err)
		}
		return field(conf)
	}
}

func mechanism(_ *testing.T, c Config) any {
	if !c.usesSASL() {
		return "none"
	}
	return c.mechanism(nil).Name()
}

// firstMessage is what the mechanism sends first: user and password are in it.
func firstMessage(t *testing.T, c Config) any {
	t.Helper()
	if !c.usesSASL() {
		return "none"
	}
	_, first, err := c.mechanism(nil).Authenticate(t.Context(), "broker:9092")
	if err != nil {
		t.Fatal(err)
	}
	return string(first)
}

// outcomeOfFirstCredit gives the job's task one credit and says in which topic its outcome lies.
func outcomeOfFirstCredit(t *testing.T, c Config) any {
	t.Helper()
	stage := c.job().Stages()[0]
	const partitions = 4
	key := "ACC-1"
	for pipeline.Murmur2.Partition([]byte(key), partitions) == pipeline.CRC32.Partition([]byte(key), partitions) {
		key += "1" // a key that the two place differently
	}
	partition := pipeline.Murmur2.Partition([]byte(key), partitions)
	task := pipeline.NewTask(stage, partition, partitions, state.NewMemory(stage.Stores()), nil)
	value := `{"event_id":"E-1","account_id":"` + key + `","amount":"1.00","currency":"INR","occurred_at":"2026-11-30T10:00:00Z"}`
	now := time.Now().UnixMilli()
	out, err := task.Process(&pipeline.Input{Position: record.Position{Topic: stage.Inputs()[0], Partition: partition}, Key: []byte(key), Value: []byte(value), Timestamp: now, Clock: now})
	if err != nil || len(out) != 1 {
		t.Fatalf("%d outputs, %v", len(out), err)
	}
	return fmt.Sprint(out[0].Topic, strings.Contains(string(out[0].Value), `"outcome":"applied"`))
}

// adminPortOpens reports whether run takes the port.
func adminPortOpens(t *testing.T, c Config) any {
	t.Helper()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if c.AdminListen != "" {
		c.AdminListen = taken.Addr().String()
	}
	c.StateDir, c.BootstrapServers = t.TempDir(), []string{"127.0.0.1:1"}
	cli, _, _ := newTestCLI()
	err = cli.runProcessor(t.Context(), c, runOptions{})
	return strings.Contains(err.Error(), "admin port")
}
