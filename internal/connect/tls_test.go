package connect

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

func (a *authority) pem() []byte { return pemOf(a.cert) }

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// issue returns key and certificate for a host, as one PEM text.
func (a *authority) issue(t *testing.T, host string) []byte {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
	cert := signed(t, template, a.cert, key, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
}

// listen accepts handshakes for localhost, wants a certificate of clientCAs if there are any, and tells each client whom it
// took it for.
func (a *authority) listen(t *testing.T, clientCAs ...*authority) string {
	t.Helper()
	own := a.issue(t, "localhost")
	cert, err := tls.X509KeyPair(own, own)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{cert}}
	for _, ca := range clientCAs {
		if conf.ClientCAs == nil {
			conf.ClientCAs, conf.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		}
		conf.ClientCAs.AddCert(ca.cert)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go greet(l)
	return strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)
}

func greet(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		secured := conn.(*tls.Conn)
		if secured.Handshake() == nil {
			name := "nobody"
			if certs := secured.ConnectionState().PeerCertificates; len(certs) > 0 {
				name = certs[0].Subject.CommonName
			}
			secured.Write([]byte(name))
		}
		conn.Close()
	}
}

// meet connects and returns whom the server took us for.
func meet(t *testing.T, conf *TLS, addr string) (string, error) {
	t.Helper()
	conn, err := conf.Dial(t.Context(), "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	name := make([]byte, 64)
	n, err := conn.Read(name)
	return string(name[:n]), err
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustTLS(t *testing.T, c Certificates) *TLS {
	t.Helper()
	conf, err := NewTLS(c)
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

func TestCertificatesAreTextOrFiles(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	addr, own := a.listen(t, a), a.issue(t, "client")
	for name, c := range map[string]Certificates{
		"files": {TrustFile: write(t, filepath.Join(dir, "ca"), a.pem()), OwnFile: write(t, filepath.Join(dir, "own"), own)},
		"texts": {TrustPEM: string(a.pem()), OwnChain: string(own), OwnKey: string(own)},
	} {
		if who, err := meet(t, mustTLS(t, c), addr); who != "client" || err != nil {
			t.Errorf("%s: %q, %v", name, who, err)
		}
	}
}

func TestReplacedFilesAreUsedByTheNextConnection(t *testing.T) {
	old, renewed, dir := newAuthority(t), newAuthority(t), t.TempDir()
	trust, own := write(t, filepath.Join(dir, "ca"), old.pem()), write(t, filepath.Join(dir, "own"), old.issue(t, "first"))
	conf := mustTLS(t, Certificates{TrustFile: trust, OwnFile: own})
	before, after := old.listen(t, old), renewed.listen(t, renewed)
	if who, err := meet(t, conf, before); who != "first" || err != nil {
		t.Fatalf("%q, %v", who, err)
	}
	if _, err := meet(t, conf, after); err == nil {
		t.Fatal("the old authority signed nothing here")
	}
	write(t, trust, renewed.pem())
	write(t, own, renewed.issue(t, "second"))
	if who, err := meet(t, conf, after); who != "second" || err != nil {
		t.Errorf("%q, %v", who, err)
	}
}

func TestAHalfWrittenFileKeepsTheOldOneAndSaysSoOnce(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	var log bytes.Buffer
	first := a.issue(t, "first")
	trust, own := write(t, filepath.Join(dir, "ca"), a.pem()), write(t, filepath.Join(dir, "own"), first)
	conf := mustTLS(t, Certificates{TrustFile: trust, OwnFile: own, Log: slog.New(slog.NewTextHandler(&log, nil))})
	addr, second := a.listen(t, a), a.issue(t, "second")
	for name, half := range map[string][]byte{
		"empty": nil, "cut in the key": second[:80], "cut in the certificate": second[:len(second)-60],
		"another key": append(a.issue(t, "x")[:241:241], second[241:]...),
	} {
		write(t, own, first)
		if _, err := meet(t, conf, addr); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		write(t, own, half)
		for range 3 {
			if who, err := meet(t, conf, addr); who != "first" || err != nil {
				t.Errorf("%s: %q, %v", name, who, err)
			}
		}
		if n := strings.Count(log.String(), "cannot be read as a whole"); n != 1 || !strings.Contains(log.String(), "ssl.keystore.location") {
			t.Errorf("%s: said %d times: %s", name, n, log.String())
		}
	}
	write(t, trust, append(append([]byte{}, a.pem()...), newAuthority(t).pem()[:100]...)) // the first of two is whole
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	if who, err := meet(t, conf, addr); who != "first" || err != nil {
		t.Errorf("a removed file: %q, %v", who, err)
	}
	if !strings.Contains(log.String(), "ssl.truststore.location") || !strings.Contains(log.String(), "no such file") {
		t.Errorf("said %s", log.String())
	}
	write(t, own, second)
	if who, err := meet(t, conf, addr); who != "second" || err != nil {
		t.Errorf("whole again: %q, %v", who, err)
	}
}

func TestFilesThatWereNeverReadableAreAnError(t *testing.T) {
	empty := write(t, filepath.Join(t.TempDir(), "empty"), []byte("nothing\n"))
	for want, c := range map[string]Certificates{
		"ssl.truststore.location: /nowhere":         {TrustFile: "/nowhere"},
		"no PEM certificate":                        {TrustFile: empty},
		"ssl.truststore.certificates: no PEM":       {TrustPEM: "x"},
		"ssl.keystore.location: /nowhere":           {OwnFile: "/nowhere"},
		"unencrypted PEM key":                       {OwnFile: empty},
		"ssl.keystore.key: tls: failed to find any": {OwnKey: "x", OwnChain: "x"},
	} {
		if _, err := NewTLS(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
