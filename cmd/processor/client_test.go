package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
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

// listenTLS accepts handshakes for host and closes every connection after a few bytes.
func (a *authority) listenTLS(t *testing.T, host string, clientCAs *x509.CertPool) string {
	t.Helper()
	own := a.issue(t, host)
	cert, err := tls.X509KeyPair(own, own)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{cert}}
	if clientCAs != nil {
		conf.ClientCAs, conf.ClientAuth = clientCAs, tls.RequireAndVerifyClientCert
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, l)
}

func serve(t *testing.T, l net.Listener) string {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("hello, client"))
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// dialOnce connects and reads a byte: with TLS 1.3 a refused client certificate shows only then.
func dialOnce(t *testing.T, cfg Config, addr string) error {
	t.Helper()
	conn, err := cfg.dialTLS(t.Context(), "tcp", strings.Replace(addr, "127.0.0.1", "localhost", 1))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	return err
}

func tlsSettings(t *testing.T, yaml string, env ...string) Config {
	t.Helper()
	s, err := loadConfig(t, "security.protocol: SSL\n"+yaml, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Config
}

func TestTLSConnectsWhenTheAuthorityIsTrusted(t *testing.T) {
	a := newAuthority(t)
	addr := a.listenTLS(t, "localhost", nil)
	for _, yaml := range []string{
		"ssl.truststore.location: " + writeFile(t, "ca.pem", string(a.pem())),
		"ssl.truststore.certificates: ${env:CA}",
	} {
		if err := dialOnce(t, tlsSettings(t, yaml, "CA="+string(a.pem())), addr); err != nil {
			t.Errorf("%s: %v", yaml, err)
		}
	}
}

func TestTLSReadsRenewedCertificates(t *testing.T) {
	old, renewed := newAuthority(t), newAuthority(t)
	path := writeFile(t, "ca.pem", string(old.pem()))
	cfg := tlsSettings(t, "ssl.truststore.location: "+path)
	addr := renewed.listenTLS(t, "localhost", nil)
	if err := dialOnce(t, cfg, addr); err == nil {
		t.Fatal("the old authority signed nothing here")
	}
	if err := os.WriteFile(path, renewed.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dialOnce(t, cfg, addr); err != nil {
		t.Error(err)
	}
}

func TestMutualTLSSendsTheOwnCertificate(t *testing.T) {
	a := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	addr := a.listenTLS(t, "localhost", pool)
	trust := "ssl.truststore.location: " + writeFile(t, "ca.pem", string(a.pem())) + "\n"
	own := string(a.issue(t, "client"))
	for _, yaml := range []string{
		"ssl.keystore.location: " + writeFile(t, "own.pem", own),
		"ssl.keystore.key: ${env:OWN}\nssl.keystore.certificate.chain: ${env:OWN}",
	} {
		if err := dialOnce(t, tlsSettings(t, trust+yaml, "OWN="+own), addr); err != nil {
			t.Errorf("%s: %v", yaml, err)
		}
	}
	err := dialOnce(t, tlsSettings(t, trust), addr)
	wantHint(t, err, exitFailed, "ssl.keystore.location")
}

func TestTLSMistakesNameTheirRemedy(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	trust := "ssl.truststore.location: " + writeFile(t, "ca.pem", string(a.pem())) + "\n"
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := a.listenTLS(t, "kafka.example", nil)
	wantHint(t, dialOnce(t, tlsSettings(t, trust), other.listenTLS(t, "localhost", nil)), exitFailed, "ssl.truststore.location")
	wantHint(t, dialOnce(t, tlsSettings(t, trust), elsewhere), exitFailed, "advertised.listeners")
	wantHint(t, dialOnce(t, tlsSettings(t, trust), serve(t, plain)), exitFailed, "does not speak TLS")
	if err := dialOnce(t, tlsSettings(t, trust+"ssl.endpoint.identification.algorithm: \"\"\n"), elsewhere); err != nil {
		t.Errorf("any name is accepted, got %v", err)
	}
	unsigned := dialOnce(t, tlsSettings(t, trust+"ssl.endpoint.identification.algorithm: \"\"\n"), other.listenTLS(t, "localhost", nil))
	wantHint(t, unsigned, exitFailed, "ssl.truststore.location")
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
		_, err := tlsSettings(t, yaml).clientOptions()
		wantHint(t, err, exitUsage, want)
	}
}

func TestMechanismsAreThoseOfTheConfiguration(t *testing.T) {
	for name, protocol := range map[string]string{"PLAIN": "SASL_SSL", "SCRAM-SHA-256": "SASL_PLAINTEXT", "SCRAM-SHA-512": "SASL_SSL"} {
		yaml := "security.protocol: " + protocol + "\nsasl.mechanism: " + name + "\nsasl.username: u\nsasl.password: ${env:P}\n"
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
