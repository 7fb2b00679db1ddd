package security

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// doors are the ways to connect that must work.
func (w *world) doors(t *testing.T) map[string]string {
	trust := "ssl.truststore.location: " + w.ca + "\n"
	to := func(listener string) string { return "bootstrap.servers: " + w.at(listener) + "\n" }
	login := "sasl.username: " + user + "\nsasl.password: '" + password + "'\n"
	secure := to("LOGIN") + "security.protocol: SASL_SSL\n" + trust
	idp := identityProvider(t)
	return map[string]string{
		"TLS":             to("TLS") + "security.protocol: SSL\n" + trust,
		"any host name":   to("ELSEWHERE") + "security.protocol: SSL\nssl.endpoint.identification.algorithm: \"\"\n" + trust,
		"mutual TLS":      to("MUTUAL") + "security.protocol: SSL\n" + trust + "ssl.keystore.location: " + w.own + "\n",
		"PLAIN in clear":  to("CLEARLOGIN") + "security.protocol: SASL_PLAINTEXT\nsasl.mechanism: PLAIN\n" + login,
		"PLAIN":           secure + "sasl.mechanism: PLAIN\n" + login,
		"SCRAM-SHA-256":   secure + "sasl.mechanism: SCRAM-SHA-256\n" + login,
		"SCRAM-SHA-512":   secure + "sasl.mechanism: SCRAM-SHA-512\nsasl.jaas.config: 'org.apache.kafka.common.security.scram.ScramLoginModule required username=\"" + user + "\" password=\"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password) + "\";'\n",
		"token endpoint":  secure + "sasl.mechanism: OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url: " + idp + "/token\nsasl.oauthbearer.client.credentials.client.id: job\nsasl.oauthbearer.client.credentials.client.secret: " + clientSecret + "\n",
		"token in a file": secure + "sasl.mechanism: OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url: file://" + w.path(t, "token", []byte(jwt(time.Now().Add(time.Hour))+"\n")) + "\n",
	}
}

func TestEveryWayToConnectRunsTheJob(t *testing.T) {
	w := newWorld(t)
	i := 0
	for name, yaml := range w.doors(t) {
		i++
		yaml += fmt.Sprintf("application.id: job-%d\n", i)
		t.Run(name, func(t *testing.T) {
			must(t, yaml, nil, "topics", "apply")
			must(t, yaml, nil, "feed", "--generate", "50", "--seed", "7")
			r := start(t, yaml, nil)
			r.untilLagIsZero(t, yaml)
			r.drain(t)
			if out := must(t, yaml, nil, "tail", "credit-events", "--to-end", "-o", "jsonl").stdout; strings.Count(out, "\n") < 50 {
				t.Errorf("tail prints %q", out)
			}
			must(t, yaml, nil, "lag")
		})
	}
}

// runner is a processor that runs.
type runner struct {
	*kafkatest.Process
	log string
}

func start(t *testing.T, yaml string, env []string, args ...string) *runner {
	t.Helper()
	r := &runner{log: filepath.Join(t.TempDir(), "log")}
	cmd := command(t, context.Background(), yaml, env, append([]string{"run"}, args...)...)
	out, err := os.Create(r.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() // the child has its own
	cmd.Stdout, cmd.Stderr = out, out
	if r.Process, err = kafkatest.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Kill)
	return r
}

func (r *runner) said(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (r *runner) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := r.Terminate(ctx); err != nil || r.ExitCode() != 0 {
		t.Fatalf("%v, exit %d\n%s", err, r.ExitCode(), r.said(t))
	}
}

// untilLagIsZero waits until every task has caught up.
func (r *runner) untilLagIsZero(t *testing.T, yaml string) {
	t.Helper()
	kafkatest.Within(t, 40*time.Second, "the job to catch up", func(context.Context) error {
		select {
		case <-r.Done():
			return fmt.Errorf("it ended with exit %d:\n%s", r.ExitCode(), r.said(t))
		default:
		}
		a := ask(t, 20*time.Second, yaml, nil, "lag", "-o", "jsonl")
		lines := strings.Split(strings.TrimSpace(a.stdout), "\n")
		for _, l := range lines {
			if !strings.Contains(l, `"state":"running"`) || !strings.Contains(l, `"lag":0,`) && !strings.Contains(l, `"lag":0}`) {
				return fmt.Errorf("exit %d: %s%s", a.code, l, a.stderr)
			}
		}
		return nil
	})
}

func TestReplacedCertificatesAreUsedWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	old, renewed := kafkatest.NewAuthority(t, "old authority"), kafkatest.NewAuthority(t, "new authority")
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	here := kafkatest.Certificate{Name: "broker", Hosts: []string{"127.0.0.1"}}
	ours := kafkatest.Certificate{Name: "job"}
	cluster := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort, Listeners: []kafkatest.Listener{{Name: "MUTUAL", Protocol: "SSL", Config: map[string]string{
		"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM", "ssl.client.auth": "required",
		"ssl.keystore.location": file("broker.pem", old.Issue(t, here)), "ssl.truststore.location": file("broker-ca.pem", old.PEM()),
	}}}})
	yaml := "bootstrap.servers: " + cluster.Brokers[0].Listeners["MUTUAL"] + "\nsecurity.protocol: SSL\nssl.truststore.location: " + file("ca.pem", old.PEM()) + "\nssl.keystore.location: " + file("own.pem", old.Issue(t, ours)) + "\n"
	must(t, yaml, nil, "topics", "apply")
	must(t, yaml, nil, "feed", "--generate", "50", "--seed", "1")
	r := start(t, yaml, nil)
	r.untilLagIsZero(t, yaml)

	next := renewed.Issue(t, ours)
	file("own.pem", next[:len(next)/2]) // whoever renews it is in the middle of it
	restart(t, cluster)
	kafkatest.Within(t, 30*time.Second, "a word about the half of a file", func(context.Context) error {
		if !strings.Contains(r.said(t), "a file cannot be read as a whole") {
			return fmt.Errorf("the log says %s", r.said(t))
		}
		return nil
	})
	file("own.pem", old.Issue(t, ours))
	must(t, yaml, nil, "feed", "--generate", "50", "--seed", "2")
	r.untilLagIsZero(t, yaml)

	file("ca.pem", renewed.PEM())
	file("own.pem", next)
	file("broker.pem", renewed.Issue(t, here))
	file("broker-ca.pem", renewed.PEM())
	restart(t, cluster)
	must(t, yaml, nil, "feed", "--generate", "50", "--seed", "3")
	r.untilLagIsZero(t, yaml)
	r.drain(t)
	must(t, yaml, nil, "verify")
}

// restart ends every connection.
func restart(t *testing.T, c *kafkatest.Cluster) {
	t.Helper()
	c.Brokers[0].Kill()
	if err := c.Brokers[0].Start(); err != nil {
		t.Fatal(err)
	}
	c.Ready(t)
}
