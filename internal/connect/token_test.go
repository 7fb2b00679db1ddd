package connect

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func jwt(until time.Time) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"exp":%d}`, until.Unix())) + "."
}

// clocked are tokens whose clock the test moves.
func clocked(g Grant, now *time.Time) *tokens {
	t := newTokens(g)
	t.now = func() time.Time { return *now }
	return t
}

func endpoint(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	return server.URL
}

func TestATokenIsFetchedAnewWhenFourFifthsOfItsLifeAreOver(t *testing.T) {
	asked := 0
	url := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprintf(w, `{"access_token":"t%d","expires_in":100}`, asked)
	})
	now := time.Now()
	tokens := clocked(Grant{Endpoint: url, ClientID: "c", ClientSecret: "s"}, &now)
	for _, step := range []struct {
		wait time.Duration
		want string
	}{{0, "t1"}, {79 * time.Second, "t1"}, {2 * time.Second, "t2"}, {79 * time.Second, "t2"}, {time.Hour, "t3"}} {
		now = now.Add(step.wait)
		if got, err := tokens.token(t.Context()); got != step.want || err != nil {
			t.Errorf("%s later: %q, %v, want %q", step.wait, got, err, step.want)
		}
	}
}

func TestAnOldTokenIsUsedWhileTheEndpointIsDown(t *testing.T) {
	down := false
	url := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		if down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, `{"access_token":"t","expires_in":100}`)
	})
	now := time.Now()
	tokens := clocked(Grant{Endpoint: url, ClientID: "c", ClientSecret: "s"}, &now)
	if _, err := tokens.token(t.Context()); err != nil {
		t.Fatal(err)
	}
	down, now = true, now.Add(90*time.Second)
	if got, err := tokens.token(t.Context()); got != "t" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	now = now.Add(20 * time.Second)
	if got, err := tokens.token(t.Context()); err == nil || FaultOf(err).Kind != TokenUnreachable || !FaultOf(err).Passes() {
		t.Errorf("%q, %v", got, err)
	}
}

func TestATokenFileIsReadAgainBeforeItsTokenEnds(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "token"), time.Now()
	tokens := clocked(Grant{Endpoint: "file://" + path}, &now)
	first, second := jwt(now.Add(100*time.Second)), jwt(now.Add(200*time.Second))
	write(t, path, []byte(first+"\n"))
	if got, err := tokens.token(t.Context()); got != first || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	write(t, path, []byte(second))
	now = now.Add(90 * time.Second)
	if got, err := tokens.token(t.Context()); got != second || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	write(t, path, []byte("opaque")) // nobody says how long it lives: it is read at every login
	now = now.Add(time.Hour)
	for _, want := range []string{"opaque", "another"} {
		write(t, path, []byte(want))
		if got, err := tokens.token(t.Context()); got != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestEveryTokenFaultNamesItsCause(t *testing.T) {
	dir := t.TempDir()
	answer := func(status int, body string) string {
		return endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	elsewhere := answer(200, `{"access_token":"stolen"}`)
	for _, c := range []struct {
		url  string
		kind Kind
		says string
	}{
		{answer(401, `{"error":"invalid_client","error_description":"hunter2 is wrong"}`), TokenRefused, "status 401: invalid_client: (hidden) is wrong"},
		{answer(400, `{"error":"invalid_scope"}`), TokenRefused, "invalid_scope"},
		{answer(503, ``), TokenUnreachable, "status 503"},
		{answer(200, `{}`), TokenMissing, "without an access_token"},
		{answer(200, `<html>log in</html>`), TokenMissing, "without an access_token"},
		{answer(200, `{"access_token":"`+jwt(time.Now().Add(-time.Minute))+`"}`), TokenExpired, "ended on"},
		{closed.URL, TokenUnreachable, "connection refused"},
		{endpoint(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}), TokenRefused, "status 307"},
		{"file://" + filepath.Join(dir, "none"), TokenMissing, "cannot be read"},
		{"file://" + write(t, filepath.Join(dir, "empty"), []byte("\n")), TokenMissing, "holds no token"},
		{"file://" + write(t, filepath.Join(dir, "old"), []byte(jwt(time.Now().Add(-time.Minute)))), TokenExpired, "ended on"},
	} {
		_, err := newTokens(Grant{Endpoint: c.url, ClientID: "c", ClientSecret: "hunter2"}).token(context.Background())
		f := FaultOf(err)
		if f == nil || f.Kind != c.kind || !strings.Contains(f.Error(), c.says) || f.Remedy == "" || strings.Contains(f.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s and %q", c.url, err, c.kind, c.says)
		}
	}
}

func TestTheEndpointIsTrustedByTheSystemOrTheTrustStore(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, secret, _ := r.BasicAuth(); id != "c%3A1" || secret != "s" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, `{"access_token":"t"}`)
	}))
	defer server.Close()
	grant := Grant{Endpoint: server.URL, ClientID: "c:1", ClientSecret: "s", Scope: "kafka"}
	if _, err := newTokens(grant).token(t.Context()); err == nil || !strings.Contains(err.Error(), "not trusted here") {
		t.Errorf("a stranger's certificate: %v", err)
	}
	grant.TrustFile = filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(grant.TrustFile, pemOf(server.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := newTokens(grant).token(t.Context()); got != "t" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
