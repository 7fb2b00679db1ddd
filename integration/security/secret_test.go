package security

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSecretsAppearNowhere runs the binary through all it can say, with every kind of secret in its configuration, and looks
// for them: outputs, logs, errors, a dump of all goroutines, the status port, the process list, state.dir.
func TestSecretsAppearNowhere(t *testing.T) {
	w := newWorld(t)
	own, err := os.ReadFile(w.own)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Join(strings.Fields(strings.Split(string(own), "-----")[2]), "")
	token := jwt(time.Now().Add(time.Hour))
	secrets := map[string]string{"password": password, "client secret": clientSecret, "private key": key[:40], "token": token}
	idp := identityProvider(t)
	passwordFile := w.path(t, "password", []byte(password+"\n"))
	secure := "bootstrap.servers: " + w.at("LOGIN") + "\nsecurity.protocol: SASL_SSL\nssl.truststore.location: " + w.ca + "\n"
	block := "|\n  " + strings.ReplaceAll(strings.TrimSpace(string(own)), "\n", "\n  ") + "\n"
	doors := map[string]string{
		"password in clear":    secure + "sasl.mechanism: PLAIN\nsasl.username: " + user + "\nsasl.password: '" + password + "'\n",
		"password in a file":   secure + "sasl.mechanism: SCRAM-SHA-256\nsasl.username: " + user + "\nsasl.password: ${file:" + passwordFile + "}\n",
		"password of nobody":   secure + "sasl.mechanism: PLAIN\nsasl.username: nobody\nsasl.password: ${env:WORD}\n",
		"jaas":                 secure + "sasl.mechanism: PLAIN\nsasl.jaas.config: 'org.apache.kafka.common.security.plain.PlainLoginModule required username=\"" + user + "\" password=\"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password) + "\";'\n",
		"client secret":        secure + "sasl.mechanism: OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url: " + idp + "/token\nsasl.oauthbearer.client.credentials.client.id: job\nsasl.oauthbearer.client.credentials.client.secret: " + clientSecret + "\n",
		"client secret, wrong": secure + "sasl.mechanism: OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url: " + idp + "/login\nsasl.oauthbearer.client.credentials.client.id: job\nsasl.oauthbearer.client.credentials.client.secret: " + clientSecret + "\n",
		"token file":           secure + "sasl.mechanism: OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url: file://" + w.path(t, "secret-token", []byte(token)) + "\n",
		"private key":          "bootstrap.servers: " + w.at("MUTUAL") + "\nsecurity.protocol: SSL\nssl.truststore.location: " + w.ca + "\nssl.keystore.key: " + block + "ssl.keystore.certificate.chain: ${file:" + w.own + "}\n",
		"password, no effect":  "bootstrap.servers: " + w.at("TLS") + "\nsasl.password: '" + password + "'\n",
	}
	env := []string{"WORD=" + password, "GOTRACEBACK=all"}
	for name, yaml := range doors {
		t.Run(name, func(t *testing.T) {
			said := ""
			for _, args := range [][]string{{"config", "show"}, {"config", "show", "-o", "json"}, {"doctor"}, {"doctor", "-o", "json"}, {"acls", "--commands"}, {"topics", "apply"}, {"lag"}, {"tail", "nowhere"}, {"verify", "--patience", "1s"}} {
				a := ask(t, 60*time.Second, yaml, env, args...)
				said += fmt.Sprintf("$ %v\n%s%s", args, a.stdout, a.stderr)
			}
			said += w.runOutLoud(t, yaml, env)
			for what, secret := range secrets {
				if i := strings.Index(said, secret); i >= 0 {
					t.Errorf("the %s is shown: …%s", what, said[max(0, i-300):i])
				}
			}
			if strings.Contains(name, "in clear") && !strings.Contains(said, "(hidden)") {
				t.Errorf("nothing was hidden: %s", said)
			}
		})
	}
}

// runOutLoud runs the job, asks everything that it shows while it runs, and ends it by a dump of all goroutines.
func (w *world) runOutLoud(t *testing.T, yaml string, env []string) string {
	t.Helper()
	port := freePort(t)
	dir := t.TempDir()
	r := start(t, yaml, append(env, "PROCESSOR_ADMIN_LISTEN="+port, "PROCESSOR_STATE_DIR="+dir))
	said := ""
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		select {
		case <-r.Done():
			return said + r.said(t)
		default:
		}
		if body := get("http://" + port + "/status"); strings.Contains(body, `"state": "running"`) {
			said += body + get("http://"+port+"/readyz")
			break
		}
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.Pid()))
	if err == nil {
		said += string(line)
	}
	if p, err := os.FindProcess(r.Pid()); err == nil {
		_ = p.Signal(syscall.SIGQUIT) // it may have ended by itself
	}
	<-r.Done()
	if !strings.Contains(r.said(t), "goroutine ") {
		t.Errorf("no dump: %s", r.said(t))
	}
	return said + r.said(t) + contents(t, dir)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func get(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // what came is looked at
	return string(body)
}

// contents are all files below a folder.
func contents(t *testing.T, dir string) string {
	t.Helper()
	all := ""
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, err := os.ReadFile(path)
			all += path + string(text)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
