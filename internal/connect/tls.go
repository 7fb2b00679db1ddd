package connect

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
)

// Certificates are where TLS finds what it trusts and what it shows: each as a path, which is read again when the file
// changes, or as PEM text.
type Certificates struct {
	TrustFile, TrustPEM       string // both empty: the system's authorities
	OwnFile, OwnChain, OwnKey string // all empty: no client certificate; OwnFile holds key and chain
	AnyName                   bool   // the certificate may name another host
	Log                       *slog.Logger
}

// TLS makes connections with the certificates that hold now.
type TLS struct {
	anyName bool
	trust   func() (*x509.CertPool, error)
	own     func() (*tls.Certificate, error)
}

// NewTLS reads the certificates for the first time: what cannot be read now is an error now.
func NewTLS(c Certificates) (*TLS, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	t := &TLS{anyName: c.AnyName, trust: c.trust(), own: c.own()}
	_, err := t.Config("")
	return t, err
}

func (c Certificates) trust() func() (*x509.CertPool, error) {
	switch {
	case c.TrustFile != "":
		return (&file[*x509.CertPool]{key: "ssl.truststore.location", path: c.TrustFile, parse: parseAuthorities, log: c.Log}).load
	case c.TrustPEM != "":
		return func() (*x509.CertPool, error) {
			pool, err := parseAuthorities([]byte(c.TrustPEM))
			return pool, wrap("ssl.truststore.certificates", err)
		}
	}
	return func() (*x509.CertPool, error) { return nil, nil }
}

func (c Certificates) own() func() (*tls.Certificate, error) {
	switch {
	case c.OwnFile != "":
		parse := func(text []byte) (*tls.Certificate, error) { return parseOwn(text, text) }
		return (&file[*tls.Certificate]{key: "ssl.keystore.location", path: c.OwnFile, parse: parse, log: c.Log}).load
	case c.OwnKey != "":
		return func() (*tls.Certificate, error) {
			cert, err := parseOwn([]byte(c.OwnChain), []byte(c.OwnKey))
			return cert, wrap("ssl.keystore.key", err)
		}
	}
	return func() (*tls.Certificate, error) { return nil, nil }
}

func wrap(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

func parseAuthorities(text []byte) (*x509.CertPool, error) {
	if err := whole(text); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no PEM certificate in it; export one with keytool -exportcert -rfc")
	}
	return pool, nil
}

func parseOwn(chain, key []byte) (*tls.Certificate, error) {
	if err := errors.Join(whole(chain), whole(key)); err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%w; it must hold an unencrypted PEM key and its certificate chain", err)
	}
	cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0])
	return &cert, err
}

// whole refuses a text that ends inside a PEM block: the rest of it is still being written.
func whole(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		text = rest
	}
	if bytes.Contains(text, []byte("-----BEGIN")) {
		return errors.New("it ends in the middle of a PEM block")
	}
	return nil
}

// Config is a client's configuration for one host, with the certificates that hold now.
func (t *TLS) Config(host string) (*tls.Config, error) {
	roots, err := t.trust()
	if err != nil {
		return nil, err
	}
	own, err := t.own()
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: host}
	if own != nil {
		// Sent whatever authorities the broker names: a broker with a stale list would else get none and say so.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	if t.anyName {
		acceptAnyName(conf)
	}
	return conf, nil
}

// Dial connects to host:port and completes the handshake within ctx.
func (t *TLS) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	conf, err := t.Config(host)
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{Config: conf}).DialContext(ctx, network, addr)
}

// acceptAnyName keeps the check of the signature and drops the check of the name, which is what an empty
// ssl.endpoint.identification.algorithm means to a Java client.
func acceptAnyName(conf *tls.Config) {
	conf.InsecureSkipVerify = true // replaced by the check below, which leaves out the name alone
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the broker sent no certificate")
		}
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: conf.RootCAs, Intermediates: between})
		return err
	}
}
