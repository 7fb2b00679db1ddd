package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// newTestCLI is a command line without terminal, with the environment given and buffers for both outputs.
func newTestCLI(environ ...string) (*cli, *bytes.Buffer, *bytes.Buffer) {
	var stdout, stderr bytes.Buffer
	return &cli{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, environ: append([]string{"HOME=/home/priya"}, environ...)}, &stdout, &stderr
}

// loadConfig reads a configuration from text as a file, variables and flags.
func loadConfig(t *testing.T, yaml string, environ, flags []string) (settings, error) {
	t.Helper()
	c, _, _ := newTestCLI(environ...)
	cmd := &cobra.Command{Use: "test"}
	configFlags(cmd, allGroups()...)
	if yaml != "" {
		flags = append([]string{"--config", writeFile(t, "processor.yaml", yaml)}, flags...)
	}
	if err := cmd.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	return c.settings(cmd)
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultsAreAccepted(t *testing.T) {
	s, err := loadConfig(t, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.ApplicationID != "ledger" || s.CommitInterval != 100*time.Millisecond || s.DedupeWindow != 14*24*time.Hour ||
		s.ReplicationFactor != -1 || !s.AutoCreate || s.StateDir != "/home/priya/.local/state/tallystick" {
		t.Errorf("defaults: %+v", s.Config)
	}
	for _, e := range s.entries {
		if e.place != fromDefault {
			t.Errorf("%s comes from %s", e.key.name, e.place)
		}
	}
}

func TestFlagsWinOverEnvironmentOverFileOverDefaults(t *testing.T) {
	yaml := "commit.interval.ms: 1\nsession.timeout.ms: 11000\nnum.stream.threads: 2\n"
	env := []string{"PROCESSOR_COMMIT_INTERVAL_MS=2", "PROCESSOR_SESSION_TIMEOUT_MS=12000"}
	s, err := loadConfig(t, yaml, env, []string{"--commit-interval-ms=3"})
	if err != nil {
		t.Fatal(err)
	}
	if s.CommitInterval != 3*time.Millisecond || s.SessionTimeout != 12*time.Second || s.Threads != 2 {
		t.Errorf("got %v %v %v", s.CommitInterval, s.SessionTimeout, s.Threads)
	}
	from := map[string]string{}
	for _, e := range s.entries {
		from[e.key.name] = e.place
	}
	want := map[string]string{"commit.interval.ms": "--commit-interval-ms", "session.timeout.ms": "PROCESSOR_SESSION_TIMEOUT_MS", "application.id": "default"}
	for key, place := range want {
		if from[key] != place {
			t.Errorf("%s comes from %q, want %q", key, from[key], place)
		}
	}
	if !strings.HasSuffix(from["num.stream.threads"], "processor.yaml:3:21") {
		t.Errorf("num.stream.threads comes from %q", from["num.stream.threads"])
	}
}

func TestFlagsTakeKafkasSpelling(t *testing.T) {
	s, err := loadConfig(t, "", nil, []string{"--bootstrap.servers", "b:1,c:2", "--accounts.auto_create=false", "--production"})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.BootstrapServers) != 2 || s.AutoCreate || !s.Production {
		t.Errorf("got %+v", s.Config)
	}
}

func TestFileTakesListsAndBlocks(t *testing.T) {
	s, err := loadConfig(t, "bootstrap.servers:\n  - a:1\n  - b:2\nproduction: true\n# a comment\n", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.BootstrapServers) != 2 || s.BootstrapServers[1] != "b:2" || !s.Production {
		t.Errorf("got %+v", s.Config)
	}
}

func TestConfigErrorsNameKeyValuePlaceLimitAndFix(t *testing.T) {
	for _, c := range []mistake{
		{name: "unknown key", yaml: "a: 1\nboostrap.servers: b:1\n", want: []string{"processor.yaml:2:1): unknown key; did you mean bootstrap.servers?", "a (", "unknown key; remove it"}},
		{name: "nested key", yaml: "bootstrap:\n  servers: b:1\n", want: []string{"keys are written flat: bootstrap.servers: …"}},
		{name: "duplicate key", yaml: "production: true\nproduction: false\n", want: []string{"processor.yaml:2:1: not valid YAML", "already defined"}},
		{name: "syntax", yaml: "production: [true\n", want: []string{"processor.yaml:1:", "not valid YAML"}},
		{name: "not a mapping", yaml: "- a\n- b\n", want: []string{"not a list of keys"}},
		{name: "second document", yaml: "production: true\n---\nproduction: false\n", want: []string{"a second document"}},
		{name: "no value", yaml: "application.id:\n", want: []string{"application.id", "no value"}},
		{name: "mapping as value", yaml: "application.id:\n  x: y\n", want: []string{"holds keys where a value belongs"}},
		{name: "anchor", yaml: "application.id: &x ledger\n", want: []string{"anchors, aliases and tags"}},
		{name: "missing file", flags: []string{"--config", "/nowhere/processor.yaml"}, want: []string{"no such file", "config init"}},
		{name: "unknown variable", env: []string{"PROCESSOR_COMMIT_INTERVALL_MS=1"}, want: []string{"PROCESSOR_COMMIT_INTERVALL_MS (environment): unknown key; did you mean PROCESSOR_COMMIT_INTERVAL_MS?"}},
		{name: "not a number", yaml: "commit.interval.ms: soon\n", want: []string{`commit.interval.ms: "soon" (`, "processor.yaml:1:21): not a whole number; allowed: 1 to 60000 (milliseconds); for example commit.interval.ms: 100"}},
		{name: "out of range", env: []string{"PROCESSOR_COMMIT_INTERVAL_MS=0"}, want: []string{`commit.interval.ms: "0" (PROCESSOR_COMMIT_INTERVAL_MS): out of range; allowed: 1 to 60000`}},
		{name: "beyond 64 bits", env: []string{"PROCESSOR_COMMIT_INTERVAL_MS=99999999999999999999"}, want: []string{"out of range"}},
		{name: "float for integer", yaml: "num.stream.threads: 1.5\n", want: []string{`"1.5"`, "not a whole number"}},
		{name: "not a boolean", yaml: "production: yes\n", want: []string{`production: "yes"`, "true or false"}},
		{name: "not one of", flags: []string{"--auto-offset-reset=begin"}, want: []string{`"begin" (--auto-offset-reset): not one of the values; allowed: earliest, latest, none`}},
		{name: "no port", yaml: "bootstrap.servers: kafka\n", want: []string{"entry 1 is no host:port", "for example bootstrap.servers: kafka-1:9092,kafka-2:9092"}},
		{name: "port range", yaml: "bootstrap.servers: a:1,b:70000\n", want: []string{"the port of entry 2 is not 1 to 65535"}},
		{name: "name", yaml: "application.id: my ledger\n", want: []string{`application.id: "my ledger"`, "not a valid name", "1 to 64 of a-z"}},
		{name: "duration", yaml: "dedupe.window: 14\n", want: []string{"not a duration with its unit", "for example dedupe.window: 14d"}},
		{name: "long duration", yaml: "dedupe.window: 4000d\n", want: []string{"out of range; allowed: 1s to 3650d"}},
		{name: "rate", yaml: "dedupe.expected.rate: .nan\n", want: []string{"dedupe.expected.rate"}},
		{name: "listen", yaml: "admin.listen: 8090\n", want: []string{`admin.listen: "8090"`, "or off"}},
		{name: "state dir", yaml: "state.dir: \"\"\n", want: []string{"state.dir", "empty", "/var/lib/tallystick"}},
		{name: "standby", yaml: "num.standby.replicas: 1\n", want: []string{"num.standby.replicas", "not built yet", "allowed: 0"}},
		{name: "consumer protocol", yaml: "group.protocol: consumer\n", want: []string{"group.protocol", "KIP-848", "allowed: classic"}},
		{name: "weaker guarantee", yaml: "processing.guarantee: at_least_once\n", want: []string{"there is no weaker mode"}},
		{name: "another tool's key", yaml: "group.id: x\n", want: []string{"group.id", "the group is application.id"}},
		{name: "secret in a flag", flags: []string{"--sasl-password=hunter2"}, want: []string{"every process of the machine", "--sasl-password '${env:NAME}'"}},
		{name: "heartbeat", yaml: "heartbeat.interval.ms: 4000\n", want: []string{"heartbeat.interval.ms: 4000", "session.timeout.ms (10000)"}},
		{name: "rebalance", yaml: "max.poll.interval.ms: 20000\n", want: []string{"max.poll.interval.ms: 20000", "transaction.timeout.ms (20000)"}},
		{name: "commit interval", yaml: "commit.interval.ms: 9000\ntransaction.timeout.ms: 16000\n", want: []string{"commit.interval.ms: 9000 is more than half"}},
		{name: "window below horizon", yaml: "dedupe.window: 1h\nredelivery.horizon: 2h\n", want: []string{"dedupe.window: 1h0m0s is shorter than redelivery.horizon (2h0m0s)"}},
	} {
		t.Run(c.name, c.isRefused)
	}
}

// mistake is a configuration that is refused, and what the error says.
type mistake struct {
	name, yaml string
	env, flags []string
	want       []string
}

func (c mistake) isRefused(t *testing.T) {
	_, err := loadConfig(t, c.yaml, c.env, c.flags)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, w := range c.want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q\ndoes not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %q shows a secret", err)
	}
	if code := exitOf(t.Context(), &bytes.Buffer{}, err, false); code != exitUsage {
		t.Errorf("exit %d", code)
	}
}

func TestKeysAtTheirDefaultNeedNoEffect(t *testing.T) {
	if _, err := loadConfig(t, "sasl.username: \"\"\nssl.endpoint.identification.algorithm: https\n", []string{"PROCESSOR_SASL_PASSWORD="}, nil); err != nil {
		t.Error(err)
	}
}

func TestSecretsBesideReferencesAreHidden(t *testing.T) {
	jaas := `org.apache.kafka.common.security.plain.PlainLoginModule required username="${env:U}" password="hunter2";`
	s, err := loadConfig(t, "security.protocol: SASL_SSL\nsasl.mechanism: PLAIN\nsasl.jaas.config: '"+jaas+"'\n", []string{"U=u"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.entries {
		if strings.Contains(e.shown(), "hunter2") {
			t.Errorf("%s is shown as %s", e.key.name, e.shown())
		}
	}
	if _, err := loadConfig(t, "", []string{"U=u"}, []string{"--sasl-password", "hunter2${env:U}"}); err == nil || !strings.Contains(err.Error(), "every process of the machine") {
		t.Errorf("a secret beside a reference on the command line: %v", err)
	}
}

func TestConfigReportsEveryProblemAtOnce(t *testing.T) {
	_, err := loadConfig(t, "commit.interval.ms: 0\nunknown.key: 1\n", []string{"PROCESSOR_X=1"}, []string{"--num-stream-threads=-1"})
	if err == nil || !strings.Contains(err.Error(), "4 problems") {
		t.Fatalf("got %v", err)
	}
}

func TestFixedKeysAcceptTheirOneValue(t *testing.T) {
	var b strings.Builder
	for _, f := range fixedKeys {
		fmt.Fprintf(&b, "%s: %s\n", f.name, f.only)
	}
	if _, err := loadConfig(t, b.String(), nil, nil); err != nil {
		t.Error(err)
	}
}

func TestConfigShowFindsFilesThatRunWouldRefuse(t *testing.T) {
	c, stdout, stderr := newTestCLI()
	code := c.execute(t.Context(), []string{"config", "show", "--security-protocol", "SSL", "--ssl-truststore-location", "/nowhere/ca.pem"})
	if code != exitUsage || !strings.Contains(stdout.String(), "ssl.truststore.location") || !strings.Contains(stderr.String(), "/nowhere/ca.pem") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

func TestSecretsNeverAppear(t *testing.T) {
	const password = "hunter2-hunter2"
	file := writeFile(t, "password", password+"\n")
	for name, value := range map[string]string{
		"in clear":       password,
		"from env":       "${env:KAFKA_PASSWORD}",
		"from file":      "${file:" + file + "}",
		"part of a text": "${env:HALF}-hunter2",
	} {
		t.Run(name, func(t *testing.T) {
			yaml := "security.protocol: SASL_SSL\nsasl.mechanism: PLAIN\nsasl.username: u\nsasl.password: " + value + "\n"
			s, err := loadConfig(t, yaml, []string{"KAFKA_PASSWORD=" + password, "HALF=hunter2"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if s.SASLPassword.reveal() != password {
				t.Errorf("password is %q", s.SASLPassword.reveal())
			}
			shown, _ := json.Marshal(s.Config)
			all := fmt.Sprintf("%v %+v %#v %s %s", s.Config, s.Config, s.SASLPassword, shown, showConfig(t, yaml))
			if strings.Contains(all, password) {
				t.Errorf("the password appears in %s", all)
			}
		})
	}
}

func showConfig(t *testing.T, yaml string) string {
	t.Helper()
	c, stdout, stderr := newTestCLI("KAFKA_PASSWORD=hunter2-hunter2", "HALF=hunter2")
	if code := c.execute(context.Background(), []string{"config", "show", "-c", writeFile(t, "p.yaml", yaml)}); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	return stdout.String()
}

func TestWrongSecretIsNotPrinted(t *testing.T) {
	_, err := loadConfig(t, "bootstrap.servers: ${env:SECRET_ADDRESS}\n", []string{"SECRET_ADDRESS=hunter2"}, nil)
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "${env:SECRET_ADDRESS}") {
		t.Errorf("got %v", err)
	}
}

func TestJaasGivesUserAndPassword(t *testing.T) {
	for _, jaas := range []string{
		`org.apache.kafka.common.security.plain.PlainLoginModule required username="a b" password="p\"q=\\";`,
		`  org.apache.kafka.common.security.scram.ScramLoginModule required password="p\"q=\\" username="a b"  `,
	} {
		_, options, err := parseJaas(jaas)
		if err != nil || options["username"] != "a b" || options["password"] != `p"q=\` {
			t.Errorf("%s gives %q %v", jaas, options, err)
		}
	}
}

func TestConfigInitIsReadBackAsTheDefaults(t *testing.T) {
	var b strings.Builder
	for line := range strings.Lines(annotated()) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") {
			line = line[1:]
		}
		b.WriteString(line)
	}
	yaml := b.String()
	for _, absent := range []string{"sasl.", "ssl."} { // without effect unless the protocol asks for them
		yaml = dropLines(yaml, absent)
	}
	got, err := loadConfig(t, yaml, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := loadConfig(t, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g, w := fmt.Sprintf("%+v", got.Config), fmt.Sprintf("%+v", want.Config); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
}

func dropLines(text, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, prefix) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestEveryKeyIsDocumented(t *testing.T) {
	text, properties := annotated(), schema()["properties"].(map[string]any)
	for _, k := range keys {
		if !strings.Contains(text, "\n#"+k.name+": ") || properties[k.name] == nil || len(k.doc) < 20 || groupTitles[k.group] == "" {
			t.Errorf("%s is not documented", k.name)
		}
	}
}

func TestNearestFindsTypos(t *testing.T) {
	for typo, want := range map[string]string{
		"bootstrap.server": "bootstrap.servers", "Production": "production", "comit.interval.ms": "commit.interval.ms", "zzz": "",
	} {
		if got := nearest(typo, everyName()); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typo, got, want)
		}
	}
}
