package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// selfSigned returns a private key and its certificate as one PEM text, good as an authority's and as a client's.
func selfSigned(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
}

func tlsSettings(t *testing.T, yaml string, env ...string) Config {
	t.Helper()
	s, err := loadConfig(t, "security.protocol: SSL\n"+yaml, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Config
}

func wantHint(t *testing.T, err error, code exitCode, hint string) {
	t.Helper()
	var stderr bytes.Buffer
	if got := exitOf(t.Context(), &stderr, err, false); got != code || !strings.Contains(stderr.String(), hint) {
		t.Errorf("%v exits %d and prints %q, want %d and %q", err, got, stderr.String(), code, hint)
	}
}

func TestUnreadableCertificatesAreUsageErrors(t *testing.T) {
	empty := writeFile(t, "empty.pem", "nothing\n")
	for yaml, want := range map[string]string{
		"ssl.truststore.location: /nowhere.pem": "no such file",
		"ssl.truststore.location: " + empty:     "no PEM certificate",
		"ssl.keystore.location: /nowhere.pem":   "no such file",
		"ssl.keystore.location: " + empty:       "unencrypted PEM key",
	} {
		_, err := tlsSettings(t, yaml).clientOptions(nil)
		wantHint(t, err, exitUsage, want)
	}
}

func TestMechanismsAreThoseOfTheConfiguration(t *testing.T) {
	const user = "sasl.username: u\nsasl.password: ${env:P}\n"
	const module = "sasl.jaas.config: 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"u\" clientSecret=\"p\" scope=\"s\";'\n"
	for name, rest := range map[string]string{
		"PLAIN": "SASL_SSL\n" + user, "SCRAM-SHA-256": "SASL_PLAINTEXT\n" + user, "SCRAM-SHA-512": "SASL_SSL\n" + user,
		"OAUTHBEARER": "SASL_SSL\nsasl.oauthbearer.token.endpoint.url: https://idp.example/token\n" + module,
	} {
		yaml := "sasl.mechanism: " + name + "\nsecurity.protocol: " + rest
		s, err := loadConfig(t, yaml, []string{"P=p"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		client, err := s.newClient()
		if err != nil {
			t.Fatal(err)
		}
		got := client.OptValue(kgo.SASL).([]sasl.Mechanism)
		if len(got) != 1 || got[0].Name() != name {
			t.Errorf("%s: got %v", name, got)
		}
		client.Close()
	}
}
