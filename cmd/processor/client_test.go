package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// authority signs the certificates of a test.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert = signed(t, template, template, a.key, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signed(t *testing.T, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// pem is the authority's certificate.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue returns key and certificate for a host, as one PEM text.
func (a *authority) issue(t *testing.T, host string) []byte {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
	cert := signed(t, template, a.cert, key, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
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
