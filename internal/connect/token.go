package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// Grant says where tokens come from: from an endpoint for the client's credentials (RFC 6749, section 4.4), or out of a file
// that something else keeps fresh (a projected Kubernetes token, a sidecar).
type Grant struct {
	Endpoint               string // https://…, http:// to this host only, or file:///path (sasl.oauthbearer.token.endpoint.url)
	ClientID, ClientSecret string
	Scope                  string // empty: none is asked for
	TrustFile, TrustPEM    string // authorities for the endpoint, beside the system's
	Log                    *slog.Logger
}

// tokens hands out a token and gets a new one when four fifths of its life are over (Kafka's sasl.login.refresh.window.factor).
type tokens struct {
	grant Grant
	fetch func(context.Context) (token, error)
	now   func() time.Time

	mu   sync.Mutex // held while a token is fetched: all connections of the process want the same one
	last token
	said string
}

// token is an access token. A zero until means that nobody said how long it lives: it is used once.
type token struct {
	text        string
	from, until time.Time
}

func (t token) fresh(now time.Time) bool {
	return t.text != "" && now.Before(t.from.Add(t.until.Sub(t.from)*4/5))
}

// NewOAuth is the mechanism OAUTHBEARER with tokens of the grant. It does no I/O.
func NewOAuth(g Grant) sasl.Mechanism {
	t := newTokens(g)
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		text, err := t.token(ctx)
		return oauth.Auth{Token: text}, err
	})
}

func newTokens(g Grant) *tokens {
	if g.Log == nil {
		g.Log = slog.New(slog.DiscardHandler)
	}
	t := &tokens{grant: g, now: time.Now}
	t.fetch = t.ask
	if path, ok := strings.CutPrefix(g.Endpoint, "file://"); ok {
		t.fetch = func(context.Context) (token, error) { return t.read(path) }
	}
	return t
}

// token returns a token that is valid now.
func (t *tokens) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.last.fresh(now) {
		return t.last.text, nil
	}
	got, err := t.fetch(ctx)
	if err == nil {
		t.last, t.said = got, ""
		return got.text, nil
	}
	if now.Before(t.last.until) { // the old one still opens doors
		if t.said != err.Error() {
			t.said = err.Error()
			t.grant.Log.Warn("no new token; the old one is used until it ends", "until", stamp(t.last.until), "err", err)
		}
		return t.last.text, nil
	}
	return "", err
}

const fileRemedy = "let whatever writes the file of sasl.oauthbearer.token.endpoint.url keep it fresh"

// read takes the token out of a file, at every login that finds the last one stale.
func (t *tokens) read(path string) (token, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return token{}, &Fault{Kind: TokenMissing, Cause: "the token file cannot be read: " + err.Error(), Err: err, Remedy: "mount the file, or correct sasl.oauthbearer.token.endpoint.url"}
	}
	got := token{text: strings.TrimSpace(string(text)), from: t.now()}
	if got.text == "" || strings.ContainsAny(got.text, " \n\r\t\x00") {
		return token{}, &Fault{Kind: TokenMissing, Cause: "the file " + path + " holds no token: one line with the token is wanted", Remedy: fileRemedy}
	}
	got.until = lifeOf(got.text)
	if !got.until.IsZero() && !t.now().Before(got.until) {
		return token{}, &Fault{Kind: TokenExpired, Cause: fmt.Sprintf("the token in the file %s ended on %s; this host's clock says %s", path, stamp(got.until), stamp(t.now())), Remedy: fileRemedy}
	}
	return got, nil
}

// ask gets a token from the endpoint.
func (t *tokens) ask(ctx context.Context) (token, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	began := t.now()
	status, body, err := t.post(ctx)
	if err != nil {
		return token{}, t.unreachable(err)
	}
	var answer struct {
		Token       string  `json:"access_token"`
		Seconds     float64 `json:"expires_in"`
		Error       string  `json:"error"`
		Description string  `json:"error_description"`
	}
	parsed := json.Unmarshal(body, &answer)
	switch {
	case status == http.StatusTooManyRequests || status >= 500:
		return token{}, &Fault{Kind: TokenUnreachable, Cause: fmt.Sprintf("%s answers with status %d", t.endpoint(), status), Remedy: "the identity provider has a problem: try again, or ask who runs it"}
	case status != http.StatusOK:
		return token{}, &Fault{Kind: TokenRefused, Cause: t.hide(fmt.Sprintf("%s refuses the client's credentials with status %d: %s", t.endpoint(), status, strings.Trim(answer.Error+": "+answer.Description, ": "))),
			Remedy: "check client id, client secret and scope (sasl.oauthbearer.client.credentials.*, sasl.oauthbearer.scope), and that the client may use the grant client_credentials"}
	case parsed != nil || answer.Token == "":
		return token{}, &Fault{Kind: TokenMissing, Cause: t.endpoint() + " answers without an access_token", Remedy: "correct sasl.oauthbearer.token.endpoint.url: it must be the token endpoint itself (often …/oauth2/token), not the issuer or a login page"}
	}
	got := token{text: answer.Token, from: began, until: lifeOf(answer.Token)}
	if answer.Seconds > 0 {
		got.until = began.Add(time.Duration(answer.Seconds * float64(time.Second)))
	}
	if !got.until.IsZero() && !t.now().Before(got.until) {
		return token{}, &Fault{Kind: TokenExpired, Cause: fmt.Sprintf("%s gives a token that ended on %s; this host's clock says %s", t.endpoint(), stamp(got.until), stamp(t.now())), Remedy: "set the clocks of this host and of the identity provider right"}
	}
	return got, nil
}

func (t *tokens) post(ctx context.Context) (status int, body []byte, err error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if t.grant.Scope != "" {
		form.Set("scope", t.grant.Scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.grant.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.SetBasicAuth(url.QueryEscape(t.grant.ClientID), url.QueryEscape(t.grant.ClientSecret)) // RFC 6749, section 2.3.1
	client, err := t.client()
	if err != nil {
		return 0, nil, err
	}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, body, err
}

// client follows no redirect: the secret goes where the configuration says and nowhere else.
func (t *tokens) client() (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a distroless image may have none: the configured ones remain
	}
	text := []byte(t.grant.TrustPEM)
	if t.grant.TrustFile != "" {
		if text, err = os.ReadFile(t.grant.TrustFile); err != nil {
			return nil, err
		}
	}
	roots.AppendCertsFromPEM(text)
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func (t *tokens) endpoint() string { return "the token endpoint " + t.grant.Endpoint }

func (t *tokens) unreachable(err error) *Fault {
	var wrapped *url.Error
	if errors.As(err, &wrapped) { // it repeats the address
		err = wrapped.Err
	}
	if f := certificateFault(err); f != nil {
		return &Fault{Kind: TokenUnreachable, Cause: t.endpoint() + ": " + f.Cause, Err: err, Remedy: f.Remedy}
	}
	return &Fault{Kind: TokenUnreachable, Cause: t.hide(t.endpoint() + " cannot be reached: " + err.Error()), Err: err,
		Remedy: "correct sasl.oauthbearer.token.endpoint.url, or let this host reach it (a proxy is taken from HTTPS_PROXY)"}
}

// hide takes our secret out of what an endpoint said.
func (t *tokens) hide(s string) string {
	if t.grant.ClientSecret == "" {
		return s
	}
	return strings.ReplaceAll(s, t.grant.ClientSecret, "(hidden)")
}

// lifeOf is the end of a JWT's life (its claim exp), zero when the text is no JWT or does not say. The signature is the
// broker's to check.
func lifeOf(text string) time.Time {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Exp == 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}
