package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// tokenEffects are the effects of the keys of OAUTHBEARER.
func tokenEffects(t *testing.T) map[string]effect {
	const bearer = "security.protocol: SASL_SSL\nsasl.mechanism: OAUTHBEARER\n"
	const id, key = "sasl.oauthbearer.client.credentials.client.id: u\n", "sasl.oauthbearer.client.credentials.client.secret: p\n"
	echo := tokenEcho(t)
	endpoint := "sasl.oauthbearer.token.endpoint.url: " + echo + "\n"
	return map[string]effect{
		"sasl.oauthbearer.token.endpoint.url":               {echo, bearer + id + key, firstMessage},
		"sasl.oauthbearer.client.credentials.client.id":     {"other", bearer + endpoint + key, firstMessage},
		"sasl.oauthbearer.client.credentials.client.secret": {"other", bearer + endpoint + id, firstMessage},
		"sasl.oauthbearer.scope":                            {"other", bearer + endpoint + id + key, firstMessage},
	}
}

// tokenEcho is a token endpoint whose tokens say what it was asked.
func tokenEcho(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, password, _ := r.BasicAuth()
		fmt.Fprintf(w, `{"access_token":"%s.%s.%s"}`, id, password, r.FormValue("scope"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestMistakesAboutLoginsAndCertificatesAreNamed(t *testing.T) {
	const sasl = "security.protocol: SASL_SSL\nsasl.mechanism: PLAIN\n"
	const bearer = "security.protocol: SASL_SSL\nsasl.mechanism: OAUTHBEARER\n"
	for _, c := range []mistake{
		{name: "missing variable", yaml: sasl + "sasl.username: u\nsasl.password: ${env:NOWHERE}\n", want: []string{"sasl.password", "${env:NOWHERE}", "not set"}},
		{name: "missing secret", yaml: sasl + "sasl.username: u\nsasl.password: ${file:/nowhere}\n", want: []string{"sasl.password", "${file:/nowhere}", "mount it"}},
		{name: "unknown provider", yaml: sasl + "sasl.username: u\nsasl.password: ${vault:x}\n", want: []string{"unknown provider \"vault\""}},
		{name: "sasl without effect", yaml: "sasl.username: u\n", want: []string{"sasl.username", "has no effect while security.protocol is PLAINTEXT"}},
		{name: "ssl without effect", yaml: "ssl.truststore.location: /ca.pem\n", want: []string{"ssl.truststore.location", "has no effect"}},
		{name: "no mechanism", yaml: "security.protocol: SASL_SSL\n", want: []string{"sasl.mechanism: missing", "SCRAM-SHA-512", "both are needed"}},
		{name: "no password", yaml: sasl + "sasl.username: u\n", want: []string{"both are needed"}},
		{name: "jaas and password", yaml: sasl + "sasl.username: u\nsasl.password: ${env:HOME}\nsasl.jaas.config: x\n", want: []string{"keep one way"}},
		{name: "jaas", yaml: sasl + "sasl.jaas.config: com.sun.Krb5 required;\n", want: []string{"not a PlainLoginModule"}},
		{name: "jaas of another mechanism", yaml: sasl + "sasl.jaas.config: 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"a\" clientSecret=\"b\";'\n", want: []string{"does not go with sasl.mechanism PLAIN"}},
		{name: "no token endpoint", yaml: bearer, want: []string{"token.endpoint.url: missing", "file:///path"}},
		{name: "token endpoint in clear", yaml: bearer + "sasl.oauthbearer.token.endpoint.url: http://idp.example/token\n", want: []string{"in clear", "https://"}},
		{name: "secret in the address", yaml: bearer + "sasl.oauthbearer.token.endpoint.url: https://u:hunter2@idp.example/token\n", want: []string{"client.credentials"}},
		{name: "endpoint without credentials", yaml: bearer + "sasl.oauthbearer.token.endpoint.url: https://idp.example/token\n", want: []string{"both are needed for a token endpoint"}},
		{name: "token file with credentials", yaml: bearer + "sasl.oauthbearer.token.endpoint.url: file:///token\nsasl.oauthbearer.scope: x\n", want: []string{"have no effect while", "is a file"}},
		{name: "token with a password", yaml: bearer + "sasl.oauthbearer.token.endpoint.url: file:///token\nsasl.password: ${env:HOME}\n", want: []string{"sasl.password", "has no effect"}},
		{name: "token keys without effect", yaml: sasl + "sasl.username: u\nsasl.password: ${env:HOME}\nsasl.oauthbearer.scope: x\n", want: []string{"sasl.oauthbearer.scope", "write OAUTHBEARER"}},
		{name: "two trust stores", yaml: "security.protocol: SSL\nssl.truststore.location: a\nssl.truststore.certificates: b\n", want: []string{"keep one"}},
		{name: "key without chain", yaml: "security.protocol: SSL\nssl.keystore.key: ${env:HOME}\n", want: []string{"one without the other"}},
		{name: "two key stores", yaml: "security.protocol: SSL\nssl.keystore.location: k\nssl.keystore.key: ${env:HOME}\nssl.keystore.certificate.chain: c\n", want: []string{"keep one"}},
	} {
		t.Run(c.name, c.isRefused)
	}
}
