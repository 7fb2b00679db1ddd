package security

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

const firstPort = 21800

// world is a broker with a listener for each way to connect, and the certificates that go with it.
type world struct {
	cluster              *kafkatest.Cluster
	dir                  string
	trusted, strange     *kafkatest.Authority
	ca, strangeCA        string // files
	own, ownOld, ownFrom string // key stores of clients: good, expired, of a strange authority
}

const (
	user, password = "priya", `se"cr\et-word`
	tokenUser      = "tallystick-job"
)

// path writes a file of the world.
func (w *world) path(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), trusted: kafkatest.NewAuthority(t, "bank authority"), strange: kafkatest.NewAuthority(t, "strange authority")}
	w.ca, w.strangeCA = w.path(t, "ca.pem", w.trusted.PEM()), w.path(t, "strange.pem", w.strange.PEM())
	w.own = w.path(t, "own.pem", w.trusted.Issue(t, kafkatest.Certificate{Name: "job"}))
	w.ownOld = w.path(t, "old.pem", w.trusted.Issue(t, kafkatest.Certificate{Name: "job", From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour)}))
	w.ownFrom = w.path(t, "foreign.pem", w.strange.Issue(t, kafkatest.Certificate{Name: "job"}))
	w.cluster = kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort, Listeners: w.listeners(t)})
	w.scram(t)
	return w
}

func (w *world) listeners(t *testing.T) []kafkatest.Listener {
	now, here := time.Now(), []string{"localhost", "127.0.0.1"}
	ssl := func(name string, c kafkatest.Certificate, more ...string) kafkatest.Listener {
		c.Name = "broker"
		l := kafkatest.Listener{Name: name, Protocol: "SSL", Config: map[string]string{
			"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM", "ssl.truststore.location": w.ca,
			"ssl.keystore.location": w.path(t, "broker-"+name+".pem", w.trusted.Issue(t, c)),
		}}
		for i := 0; i < len(more); i += 2 {
			l.Config[more[i]] = more[i+1]
		}
		return l
	}
	secure := ssl("LOGIN", kafkatest.Certificate{Hosts: here})
	secure.Protocol = "SASL_SSL"
	login := kafkatest.Listener{Name: "CLEARLOGIN", Protocol: "SASL_PLAINTEXT", Config: map[string]string{}}
	for _, l := range []kafkatest.Listener{secure, login} {
		l.Config["sasl.enabled.mechanisms"] = "PLAIN"
		l.Config["plain.sasl.jaas.config"] = kafkatest.PlainUsers(map[string]string{user: strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)})
	}
	secure.Config["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
	for _, m := range []string{"scram-sha-256", "scram-sha-512"} {
		secure.Config[m+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	}
	// Kafka's own validator of unsigned tokens: it checks the times, which is what is tried here.
	secure.Config["oauthbearer.sasl.jaas.config"] = `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`
	return []kafkatest.Listener{
		ssl("TLS", kafkatest.Certificate{Hosts: here}),
		ssl("MUTUAL", kafkatest.Certificate{Hosts: here}, "ssl.client.auth", "required"),
		ssl("ELSEWHERE", kafkatest.Certificate{Hosts: []string{"kafka.example"}}),
		ssl("EXPIRED", kafkatest.Certificate{Hosts: here, From: now.Add(-48 * time.Hour), Until: now.Add(-24 * time.Hour)}),
		ssl("FUTURE", kafkatest.Certificate{Hosts: here, From: now.Add(24 * time.Hour), Until: now.Add(48 * time.Hour)}),
		secure, login,
		{Name: "STRAY", Protocol: "PLAINTEXT", Advertise: "127.0.0.1:1"},
		{Name: "NAMELESS", Protocol: "PLAINTEXT", Advertise: "broker-1.kafka.invalid:9092"},
	}
}

// scram gives the user passwords for both SCRAM mechanisms.
func (w *world) scram(t *testing.T) {
	t.Helper()
	adm := kadm.NewClient(kafkatest.Client(t, w.cluster.Seeds()))
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		done, err := adm.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: m, Iterations: 4096, Password: password}})
		if err == nil {
			err = done.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// at is the address of a listener.
func (w *world) at(listener string) string { return w.cluster.Brokers[0].Listeners[listener] }

// binary compiles cmd/processor once; PROCESSOR names one to test instead.
var binary = sync.OnceValues(func() (string, error) {
	if b := os.Getenv("PROCESSOR"); b != "" {
		return b, nil
	}
	dir, err := os.MkdirTemp("", "tallystick-security-")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "processor"), "./cmd/processor")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the processor: %w\n%s", err, out)
	}
	return filepath.Join(dir, "processor"), nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if b, err := binary(); err == nil && os.Getenv("PROCESSOR") == "" {
		_ = os.RemoveAll(filepath.Dir(b)) // a temporary folder
	}
	os.Exit(code)
}

// answer is what a command said.
type answer struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// command prepares the processor with a configuration file and variables.
func command(t *testing.T, ctx context.Context, yaml string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	b, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "processor.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, b, append(args, "--config", path)...)
	cmd.Env = append(os.Environ(), append([]string{"XDG_STATE_HOME=" + filepath.Join(t.TempDir(), "state"), "PROCESSOR_ADMIN_LISTEN=off"}, env...)...)
	return cmd
}

// ask runs a command to its end, at most limit.
func ask(t *testing.T, limit time.Duration, yaml string, env []string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := command(t, ctx, yaml, env, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return answer{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
}

// must is ask for a command that has to succeed.
func must(t *testing.T, yaml string, env []string, args ...string) answer {
	t.Helper()
	a := ask(t, 30*time.Second, yaml, env, args...)
	if a.code != 0 {
		t.Fatalf("%v exits %d\n%s\n%s", args, a.code, a.stdout, a.stderr)
	}
	return a
}
