package security

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// mistake is a configuration that does not go with the listener, and what must be said about it.
type mistake struct {
	name  string
	yaml  string
	code  int
	cause string // on the line error:
	hint  string // on the line hint:
	waits bool   // run waits ten seconds for it to pass: tried once, for nothing listens
}

// patience bounds every refusal: nothing is retried that cannot pass. What may pass is waited for by run alone.
const patience = 12 * time.Second

func (w *world) mistakes(t *testing.T) []mistake {
	trust := "ssl.truststore.location: " + w.ca + "\n"
	tls := func(listener, rest string) string {
		return "bootstrap.servers: " + w.at(listener) + "\nsecurity.protocol: SSL\n" + rest
	}
	plain := func(addr string) string { return "bootstrap.servers: " + addr + "\n" }
	login := func(listener, mechanism, who, word string) string {
		y := "bootstrap.servers: " + w.at(listener) + "\nsasl.mechanism: " + mechanism + "\nsasl.username: " + who + "\nsasl.password: '" + word + "'\n"
		if listener == "CLEARLOGIN" {
			return y + "security.protocol: SASL_PLAINTEXT\n"
		}
		return y + "security.protocol: SASL_SSL\n" + trust
	}
	clear := w.cluster.Brokers[0].Addr
	bearer := func(endpoint, more string) string {
		return "bootstrap.servers: " + w.at("LOGIN") + "\nsecurity.protocol: SASL_SSL\nsasl.mechanism: OAUTHBEARER\n" + trust + "sasl.oauthbearer.token.endpoint.url: " + endpoint + "\n" + more
	}
	const credentials = "sasl.oauthbearer.client.credentials.client.id: job\nsasl.oauthbearer.client.credentials.client.secret: wrong\n"
	idp := identityProvider(t)
	return []mistake{
		{"plain text against TLS", plain(w.at("TLS")), 1, "the listener speaks SSL, and security.protocol is PLAINTEXT", "set security.protocol to SSL, ssl.truststore.location", false},
		{"plain text against mutual TLS", plain(w.at("MUTUAL")), 1, "speaks SSL with a client certificate, and security.protocol is PLAINTEXT", "ssl.keystore.location", false},
		{"plain text against TLS and login", plain(w.at("LOGIN")), 1, "speaks SASL_SSL (", "set security.protocol to SASL_SSL", false},
		{"plain text against login", plain(w.at("CLEARLOGIN")), 1, "speaks SASL_PLAINTEXT (PLAIN), and security.protocol is PLAINTEXT", "sasl.mechanism to one of PLAIN", false},
		{"TLS against plain text", "bootstrap.servers: " + clear + "\nsecurity.protocol: SSL\n" + trust, 1, "speaks PLAINTEXT, and security.protocol is SSL", "nothing is encrypted on this one", false},
		{"TLS and login against plain text", strings.Replace(login("LOGIN", "PLAIN", user, "x"), w.at("LOGIN"), clear, 1), 1, "speaks PLAINTEXT, and security.protocol is SASL_SSL", "set security.protocol to PLAINTEXT", false},
		{"TLS against login in clear", "bootstrap.servers: " + w.at("CLEARLOGIN") + "\nsecurity.protocol: SSL\n" + trust, 1, "speaks SASL_PLAINTEXT (PLAIN), and security.protocol is SSL", "set security.protocol to SASL_PLAINTEXT", false},
		{"TLS without login", tls("LOGIN", trust), 1, "speaks SASL_SSL (", "set security.protocol to SASL_SSL", false},
		{"login against TLS without", strings.Replace(login("LOGIN", "PLAIN", user, "x"), w.at("LOGIN"), w.at("TLS"), 1), 1, "speaks SSL, and security.protocol is SASL_SSL", "set security.protocol to SSL", false},
		{"login against plain text", strings.Replace(login("CLEARLOGIN", "PLAIN", user, "x"), w.at("CLEARLOGIN"), clear, 1), 1, "speaks PLAINTEXT, and security.protocol is SASL_PLAINTEXT", "set security.protocol to PLAINTEXT", false},
		{"mechanism that is not offered", login("CLEARLOGIN", "SCRAM-SHA-512", user, password), 1, "does not offer sasl.mechanism SCRAM-SHA-512; it offers PLAIN", "set sasl.mechanism to one that it offers", false},
		{"wrong password, PLAIN", login("LOGIN", "PLAIN", user, "wrong"), 1, `refuses the login of user "priya" with PLAIN`, "check sasl.username and sasl.password", false},
		{"wrong user, PLAIN", login("CLEARLOGIN", "PLAIN", "nobody", "wrong"), 1, `refuses the login of user "nobody" with PLAIN`, "check sasl.username and sasl.password", false},
		{"wrong password, SCRAM", login("LOGIN", "SCRAM-SHA-256", user, "wrong"), 1, `refuses the login of user "priya" with SCRAM-SHA-256`, "a password for another mechanism only", false},
		{"wrong user, SCRAM", login("LOGIN", "SCRAM-SHA-512", "nobody", "wrong"), 1, `refuses the login of user "nobody" with SCRAM-SHA-512`, "check sasl.username", false},
		{"wrong authority", tls("TLS", "ssl.truststore.location: "+w.strangeCA+"\n"), 1, "its certificate (CN=broker) is signed by an authority that is not trusted here: CN=bank authority", "ssl.truststore.location", false},
		{"the system's authorities", tls("TLS", ""), 1, "signed by an authority that is not trusted here", "ssl.truststore.location", false},
		{"another host", tls("ELSEWHERE", trust), 1, "its certificate names kafka.example, not 127.0.0.1", "advertised.listeners", false},
		{"expired certificate", tls("EXPIRED", trust), 1, "its certificate ended on ", "have the broker's certificate renewed", false},
		{"certificate of tomorrow", tls("FUTURE", trust), 1, "its certificate is not valid before ", "set the clocks right", false},
		{"no client certificate", tls("MUTUAL", trust), 1, "wants a certificate of this client", "ssl.keystore.location", false},
		{"client certificate of a stranger", tls("MUTUAL", trust+"ssl.keystore.location: "+w.ownFrom+"\n"), 1, "does not accept this client's certificate (CN=job, signed by CN=strange authority)", "the listener's ssl.truststore", false},
		{"expired client certificate", tls("MUTUAL", trust+"ssl.keystore.location: "+w.ownOld+"\n"), 1, "which is valid from ", "renew the certificate in ssl.keystore.location", false},
		{"nothing listens", plain("127.0.0.1:1"), 5, "nothing listens there", "start the broker, or correct host and port", false},
		{"no such name", plain("kafka.invalid:9092"), 5, "the name kafka.invalid cannot be resolved", "correct the host name", true},
		{"no broker", plain(stranger(t, "SSH-2.0-OpenSSH_9.2\r\n")), 1, "what answers there is no broker", "correct host and port in bootstrap.servers", false},
		{"accepts and is silent", plain(stranger(t, "")), 5, "it takes connections and does not answer within 5s", "it may hang", true},
		{"advertised address that nobody listens on", plain(w.at("STRAY")), 5, w.at("STRAY") + ": it answers, and says that broker 1 is to be reached at 127.0.0.1:1; there: nothing listens", "have advertised.listeners of broker 1 name", false},
		{"advertised name that nobody knows", plain(w.at("NAMELESS")), 5, "reached at broker-1.kafka.invalid:9092; there: the name broker-1.kafka.invalid cannot be resolved", "advertised.listeners of broker 1", false},
		{"token endpoint that nobody listens on", bearer("http://127.0.0.1:1/token", credentials), 5, "the token endpoint http://127.0.0.1:1/token cannot be reached", "sasl.oauthbearer.token.endpoint.url", true},
		{"wrong client secret", bearer(idp+"/token", credentials), 1, "refuses the client's credentials with status 401: invalid_client", "check client id, client secret and scope", false},
		{"no token in the answer", bearer(idp+"/login", credentials), 1, "answers without an access_token", "it must be the token endpoint itself", false},
		{"expired token", bearer("file://"+w.path(t, "token-old", []byte(jwt(time.Now().Add(-time.Hour)))), ""), 1, "ended on ", "keep it fresh", false},
		{"token that the broker refuses", bearer("file://"+w.path(t, "token-bad", []byte("not-a-jwt")), ""), 1, "refuses the token", "issuer, audience, scope", false},
	}
}

// jwt is a token without a signature, for Kafka's validator of such.
func jwt(until time.Time) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d,"scope":"kafka"}`, tokenUser, time.Now().Add(-2*time.Hour).Unix(), until.Unix())) + "."
}

const clientSecret = "client-secret-word"

// identityProvider gives tokens at /token for the right secret; at /login is a page.
func identityProvider(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/login":
			fmt.Fprint(w, "<html>who are you?</html>")
		case secret != clientSecret:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
		default:
			fmt.Fprintf(w, `{"access_token":%q,"expires_in":60}`, jwt(time.Now().Add(time.Minute)))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestEachMistakeIsNamedWithItsRemedyInBoundedTime(t *testing.T) {
	w := newWorld(t)
	for _, m := range w.mistakes(t) {
		t.Run(m.name, func(t *testing.T) {
			for _, args := range [][]string{{"topics", "plan"}, {"run"}} {
				limit := patience
				if args[0] == "run" && m.waits {
					continue
				}
				if args[0] == "run" && m.code == 5 {
					limit += 10 * time.Second // brokers and processors may start together
				}
				a := ask(t, limit, m.yaml, nil, args...)
				if a.code != m.code || !strings.Contains(lineOf(a.stderr, "error:"), m.cause) || !strings.Contains(lineOf(a.stderr, "hint:"), m.hint) {
					t.Errorf("%v exits %d, want %d, %q and %q:\n%s", args, a.code, m.code, m.cause, m.hint, a.stderr)
				}
				t.Logf("%v after %v\n%s", args, a.took.Round(time.Millisecond), a.stderr)
			}
			m.isSeenByDoctor(t)
		})
	}
}

// stranger accepts connections, greets and waits.
func stranger(t *testing.T, greeting string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte(greeting))
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return l.Addr().String()
}

// lineOf is what follows a word at the start of a line, with the indented lines below it.
func lineOf(text, word string) string {
	var found string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, word) || found != "" && strings.HasPrefix(line, "  ") {
			found += line
		}
	}
	return found
}
